// The negation of a shape, as a union of shapes.
#pragma once
#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "tenon/constrain/expression.h"
#include "tenon/constrain/schema_shape.h"

namespace tenon::constrain::schema {

using SchemaShapes = std::vector<SchemaShape>;

/// Computes the negation of one shape.
class Negation {
 public:
  static constexpr std::size_t kMost = 1024;  ///< approximate limit on the number of shapes

  /// `numbers`: those of enum and const that the rest of the shape allows.
  Negation(Context& context, const SchemaShape& shape, const std::vector<Json>& numbers)
      : c_(context), s_(shape), numbers_(numbers) {}

  /// The shapes of all other values. Empty where they cannot be expressed, or only by more than kMost shapes.
  std::optional<SchemaShapes> shapes() {
    if (!s_.unproved.empty()) return std::nullopt;
    if ((s_.types & kString) && s_.string.format != Expressions::kAnything) return std::nullopt;
    Expressions& e = c_.e();
    if (s_.types != kAllTypes) all_.push_back({.types = kAllTypes & ~s_.types, .typed = true});
    if ((s_.types & kString) && !s_.string.is_any()) {
      SchemaShape other{.types = kString, .typed = true};
      other.string.text = e.both(c_.any_string, e.complement(c_.text_of(s_.string)));
      all_.push_back(other);
    }
    const bool said =
        (!(s_.types & kNumber) || number()) && (!(s_.types & kArray) || list()) && (!(s_.types & kObject) || object());
    return said ? std::optional(std::move(all_)) : std::nullopt;
  }

 private:
  bool number() {
    const NumberShape& n = s_.number;
    const auto add = [&](auto&& set) {
      SchemaShape other{.types = kNumber, .typed = true};
      set(other.number);
      all_.push_back(other);
    };
    if (n.values) {
      std::vector<Decimal> values;
      for (const Json& value : numbers_) values.push_back(Decimal::of(value));
      if (values.size() > 32) return false;
      std::sort(values.begin(), values.end(), [](const Decimal& a, const Decimal& b) { return compare(a, b) < 0; });
      for (std::size_t i = 0; i <= values.size(); ++i) {
        add([&](NumberShape& between) {
          if (i > 0) between.low = Bound{values[i - 1], true, n.at};
          if (i < values.size()) between.high = Bound{values[i], true, n.at};
        });
      }
      return true;
    }
    if (n.low) add([&](NumberShape& less) { less.high = Bound{n.low->value, !n.low->exclusive, n.low->at}; });
    if (n.high) add([&](NumberShape& more) { more.low = Bound{n.high->value, !n.high->exclusive, n.high->at}; });
    if (n.whole) add([](NumberShape& broken) { broken.broken = true; });
    if (n.broken) add([](NumberShape& whole) { whole.whole = true; });
    return n.multiples.empty();
  }

  bool list() {
    const ArrayShape& a = s_.array;
    if (a.values) return false;
    const auto add = [&](std::vector<Meet> prefix, Count size) {
      SchemaShape other{.types = kArray, .typed = true};
      other.array.prefix = std::move(prefix), other.array.size = size;
      all_.push_back(other);
    };
    if (a.size.least > 0) add({}, {0, static_cast<int>(a.size.least) - 1});
    std::size_t most = a.size.most == kUnbounded ? std::size_t{0} - 1 : static_cast<std::size_t>(a.size.most);
    if (a.rest == kFalseMeet)
      most = std::min(most, a.prefix.size());
    else if (a.rest != kTrueMeet)
      return false;
    if (most != std::size_t{0} - 1) add({}, {most + 1, kUnbounded});
    for (std::size_t i = 0; i < a.prefix.size(); ++i) {
      if (a.prefix[i] == kTrueMeet) continue;
      const auto other = c_.sources.negation(a.prefix[i]);
      if (!other || i > kMost) return false;
      std::vector<Meet> prefix(i, kTrueMeet);
      prefix.push_back(*other);
      add(std::move(prefix), {i + 1, kUnbounded});
    }
    if (a.contains) {
      const Count count = a.contains->count;
      const auto counted = [&](Count other) {
        add({}, {});
        all_.back().array.contains = Contains{a.contains->value, other, a.contains->at};
      };
      if (count.least > 0) counted({0, static_cast<int>(count.least) - 1});
      if (count.most != kUnbounded) counted({static_cast<std::size_t>(count.most) + 1, kUnbounded});
    }
    return true;
  }

  bool object() {
    const ObjectShape& o = s_.object;
    if (o.values) return false;
    if (o.classes.size() != 1 || o.classes.front().value != kTrueMeet || !o.classes.front().at.empty()) return false;
    const auto add = [&](Properties properties, Count size) {
      SchemaShape other{.types = kObject, .typed = true};
      other.object.properties = std::move(properties), other.object.size = size;
      all_.push_back(other);
    };
    if (o.size.least > 0) add({}, {0, static_cast<int>(o.size.least) - 1});
    if (o.size.most != kUnbounded) add({}, {static_cast<std::size_t>(o.size.most) + 1, kUnbounded});
    if (o.properties.size() > kMost) return false;
    for (const Property& p : o.properties) {
      if (p.required) add({{p.key, kFalseMeet}}, {});
      if (p.value == kTrueMeet) continue;
      const auto other = c_.sources.negation(p.value);
      if (!other) return false;
      add({{p.key, *other, true}}, {});
    }
    return true;
  }

  Context& c_;
  const SchemaShape& s_;
  const std::vector<Json>& numbers_;
  SchemaShapes all_;
};

}  // namespace tenon::constrain::schema
