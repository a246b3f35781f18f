// The shape of values: what one or more subschemas say, by type, and its intersection.
#pragma once
#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/constrain/expression.h"
#include "tenon/constrain/grammar.h"
#include "tenon/constrain/schema_number.h"
#include "tenon/constrain/schema_options.h"
#include "tenon/constrain/schema_source.h"
#include "tenon/constrain/schema_text.h"

namespace tenon::constrain::schema {

/// Types, as bits of a set.
inline constexpr unsigned kNull = 1, kFalse = 2, kTrue = 4, kNumber = 8, kString = 16, kArray = 32, kObject = 64,
                          kAllTypes = 127;

/// Bounds on a number of items.
struct Count {
  std::size_t least = 0;
  int most = kUnbounded;

  bool has(std::size_t n) const { return n >= least && (most == kUnbounded || n <= static_cast<std::size_t>(most)); }
  bool empty() const { return most != kUnbounded && least > static_cast<std::size_t>(most); }
  bool is_any() const { return least == 0 && most == kUnbounded; }
  friend Count operator&(Count a, Count b) {
    return {std::max(a.least, b.least), a.most == kUnbounded   ? b.most
                                        : b.most == kUnbounded ? a.most
                                                               : std::min(a.most, b.most)};
  }
};

/// Conditions on strings.
struct StringShape {
  Expr text = Expressions::kAnything;  ///< between the quotes
  Count length = {};                   ///< in characters

  /// A format. Only its texts are written, but proofs do not rely on it: formats are stricter here than elsewhere,
  /// where they may be annotations.
  Expr format = Expressions::kAnything;

  /// The sorted texts of enum and const, if there are any. No other texts are allowed.
  std::shared_ptr<const std::vector<std::string>> words = {};

  bool is_any() const { return text == Expressions::kAnything && length.is_any(); }
};

/// `count` items must satisfy `value`.
struct Contains {
  Meet value = kTrueMeet;
  Count count = {};
  std::string at = {};
};
/// Conditions on lists.
struct ArrayShape {
  std::vector<Meet> prefix = {};          ///< the subschemas of the first items
  Meet rest = kTrueMeet;                  ///< the subschemas of all further items
  Count size = {};                        ///< number of items
  std::optional<Contains> contains = {};  ///< a `contains`, if any
  /// The values of enum and const. The other members apply too.
  std::optional<std::vector<Json>> values = {};

  /// The subschemas of item i.
  Meet item(std::size_t i) const { return i < prefix.size() ? prefix[i] : rest; }
};

/// A key of an object, and the subschemas of its value.
struct Property {
  std::string key;
  Meet value = kTrueMeet;
  bool required = false;
  bool named = false;  ///< in `properties`: written first
};
/// Properties in order, with a lookup by key.
class Properties {
 public:
  Properties() = default;
  Properties(std::initializer_list<Property> all) {
    for (const Property& p : all) add(p);
  }

  /// Adds a key that is not yet present.
  void add(Property p) {
    all_.push_back(std::move(p));
    if (all_.size() == kFew) {
      for (std::size_t i = 0; i < kFew; ++i) places_.emplace(all_[i].key, i);
    } else if (all_.size() > kFew) {
      places_.emplace(all_.back().key, all_.size() - 1);
    }
  }
  /// Null where there is no such key.
  const Property* find(const std::string& key) const {
    if (places_.empty()) {
      const auto found = std::find_if(all_.begin(), all_.end(), [&](const Property& p) { return p.key == key; });
      return found == all_.end() ? nullptr : &*found;
    }
    const auto found = places_.find(key);
    return found == places_.end() ? nullptr : &all_[found->second];
  }
  Property* find(const std::string& key) { return const_cast<Property*>(std::as_const(*this).find(key)); }

  std::size_t size() const { return all_.size(); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }
  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }

 private:
  static constexpr std::size_t kFew = 9;  // below this number, a linear search is as fast

  std::vector<Property> all_;
  std::unordered_map<std::string, std::size_t> places_;
};
/// A class of keys outside `properties`. The classes of an object partition all keys.
struct KeyClass {
  Expr keys = Expressions::kAnything;  ///< between the quotes
  Meet value = kTrueMeet;              ///< the subschemas of their values
  bool implied = true;                 ///< no keyword applies to them

  /// Only keys of this format are written. As with StringShape::format, proofs do not rely on it.
  Expr format = Expressions::kAnything;
  std::string at = {};  ///< where the format is stated
};
/// Conditions on objects.
struct ObjectShape {
  Properties properties = {};
  std::vector<KeyClass> classes = std::vector<KeyClass>(1);  ///< all keys
  Count size = {};                                           ///< number of members
  bool closes = false;                                       ///< has `properties`
  std::string at = {};                                       ///< where the least size is stated
  /// The values of enum and const. The other members apply too.
  std::optional<std::vector<Json>> values = {};
};

/// A condition that expressions cannot state. It is enforced where the values are listed.
struct Unproved {
  enum class What { is_not, unique } what;
  unsigned types;          ///< the types it applies to
  Meet meet;               ///< is_not: what the value must not satisfy
  std::string at, reason;  ///< place and text of the error where it cannot be enforced
};

/// Conditions of a set of subschemas on values, by type. A value must satisfy those of its own type only.
struct SchemaShape {
  unsigned types = kAllTypes;  ///< allowed types
  bool typed = false;          ///< the type is given by type, enum or const
  unsigned mentioned = 0;      ///< types that other keywords apply to
  NumberShape number = {};
  StringShape string = {};
  ArrayShape array = {};
  ObjectShape object = {};
  std::vector<Unproved> unproved = {};
};

/// Size of the shape in bytes, about.
inline std::size_t bytes_of(const SchemaShape& s) {
  const auto listed = [](const auto& values) { return values ? values->size() * sizeof(Json) : 0; };
  return sizeof(SchemaShape) + listed(s.number.values) + listed(s.array.values) + listed(s.object.values) +
         s.number.multiples.size() * sizeof(Multiple) + s.array.prefix.size() * sizeof(Meet) +
         s.object.properties.size() * (2 * sizeof(Property)) + s.object.classes.size() * sizeof(KeyClass) +
         s.unproved.size() * sizeof(Unproved);
}

/// Shared by all parts of the compiler.
struct Context {
  Grammar& grammar;
  const SchemaOptions& options;
  Sources sources;
  Expr any_character;
  Expr any_string;                            ///< without quotes
  std::map<std::string, Expr> patterns = {};  ///< by pattern: equal patterns share their states

  Context(Grammar& g, const Json& root, const SchemaOptions& o)
      : grammar(g),
        options(o),
        sources(root),
        any_character(constrain::any_character(g.expressions, Spelling::json)),
        any_string(g.expressions.repeat(any_character, 0)) {}

  Expressions& e() { return grammar.expressions; }
  /// The texts of a string, with its format.
  Expr written(StringShape s) {
    s.text = e().both(s.text, s.format);
    return text_of(s);
  }
  /// The texts of a string, without its format.
  Expr text_of(const StringShape& s) {
    const int least = static_cast<int>(s.length.least);
    if (s.length.empty()) return Expressions::kNever;
    if (s.text == Expressions::kAnything) return e().repeat(any_character, least, s.length.most);
    if (s.length.is_any()) return e().live_part(s.text);
    return e().live_part(e().both(s.text, e().repeat(any_character, least, s.length.most)));
  }
  /// Whether some key is in the set.
  bool any_key(Expr keys) { return keys == Expressions::kAnything || e().live_part(keys) != Expressions::kNever; }
};

/// The subschemas of a key outside `properties`.
inline Meet class_of(Context& context, const ObjectShape& o, const std::string& key) {
  for (const KeyClass& c : o.classes) {
    if (c.keys != Expressions::kAnything && !matches(context.e(), c.keys, spelled_text(key))) continue;
    if (c.format == Expressions::kAnything || matches(context.e(), c.format, spelled_text(key))) return c.value;
    refuse_unsupported(c.at, "a format of keys is not enforced where the schema names one without it: '" + key + "'");
  }
  return kFalseMeet;
}
/// The subschemas of a key.
inline Meet value_of(Context& context, const ObjectShape& o, const std::string& key) {
  const Property* p = o.properties.find(key);
  return p ? p->value : class_of(context, o, key);
}

/// Intersection of `a` and `b`, in the order of `a`. An empty optional means all values.
inline void meet_values(Budget& budget, std::optional<std::vector<Json>>& a,
                        const std::optional<std::vector<Json>>& b) {
  if (!b) return;
  if (!a) {
    a = b;
    return;
  }
  const auto others = equal_texts(budget, *b);
  std::erase_if(*a, [&](const Json& x) { return budget.check(), !others.contains(equal_text(x)); });
}

/// The intersection of two shapes.
inline NumberShape meet(Context& context, NumberShape a, const NumberShape& b) {
  a.whole |= b.whole, a.broken |= b.broken;
  const auto tighter = [](std::optional<Bound>& x, const std::optional<Bound>& y, int better) {
    if (!y) return;
    const int order = x ? compare(y->value, x->value) : better;
    if (order == better)
      x = y;
    else if (order == 0)
      x->exclusive |= y->exclusive;
  };
  tighter(a.low, b.low, 1), tighter(a.high, b.high, -1);
  for (const Multiple& m : b.multiples) {
    const auto is_it = [&](const Multiple& known) { return compare(known.of, m.of) == 0; };
    if (std::none_of(a.multiples.begin(), a.multiples.end(), is_it)) a.multiples.push_back(m);
  }
  meet_values(context.grammar.budget, a.values, b.values);
  if (a.at.empty()) a.at = b.at;
  return a;
}

inline constexpr std::size_t kSetBytes = 150;  ///< table memory of a new set of subschemas, about

inline ArrayShape meet(Context& context, const ArrayShape& a, const ArrayShape& b) {
  ArrayShape both{.rest = context.sources.join(a.rest, b.rest), .size = a.size & b.size, .values = a.values};
  for (std::size_t i = 0; i < std::max(a.prefix.size(), b.prefix.size()); ++i) {
    context.grammar.budget.check();
    both.prefix.push_back(context.sources.join(a.item(i), b.item(i)));
    context.grammar.budget.spend(kSetBytes + context.sources.literals(both.prefix.back()).size() * sizeof(Literal));
  }
  meet_values(context.grammar.budget, both.values, b.values);
  both.contains = a.contains ? a.contains : b.contains;
  if (a.contains && b.contains) {
    if (a.contains->value != b.contains->value)
      refuse_unsupported(b.contains->at, "contains is enforced once for a list, not twice");
    both.contains->count = a.contains->count & b.contains->count;
  }
  return both;
}

inline constexpr std::size_t kMostClasses = 64;

inline ObjectShape meet(Context& context, const ObjectShape& a, const ObjectShape& b) {
  ObjectShape both{.size = a.size & b.size, .closes = a.closes || b.closes, .values = a.values};
  both.at = a.size.least >= b.size.least ? a.at : b.at;
  meet_values(context.grammar.budget, both.values, b.values);
  const auto add = [&](const ObjectShape& from, const ObjectShape& other, bool named) {
    for (const Property& p : from.properties) {
      context.grammar.budget.check();
      const Property* twin = other.properties.find(p.key);
      if (named != (p.named || (twin && twin->named)) || both.properties.find(p.key)) continue;
      const Meet there = twin ? twin->value : class_of(context, other, p.key);
      both.properties.add({p.key, context.sources.join(p.value, there), p.required || (twin && twin->required), named});
    }
  };
  add(a, b, true), add(b, a, true), add(a, b, false), add(b, a, false);
  both.classes.clear();
  for (const KeyClass& x : a.classes) {
    for (const KeyClass& y : b.classes) {
      const Expr keys = context.e().both(x.keys, y.keys);
      if (keys != x.keys && keys != y.keys && !context.any_key(keys)) continue;
      both.classes.push_back({keys, context.sources.join(x.value, y.value), x.implied && y.implied,
                              context.e().both(x.format, y.format), x.at.empty() ? y.at : x.at});
    }
  }
  if (both.classes.size() > kMostClasses) refuse_complex("patterns that overlap in more than 64 ways");
  return both;
}

inline SchemaShape meet(Context& context, const SchemaShape& a, const SchemaShape& b) {
  SchemaShape both{.types = a.types & b.types, .typed = a.typed || b.typed, .mentioned = a.mentioned | b.mentioned};
  if (both.types & kNumber) both.number = meet(context, a.number, b.number);
  if (both.types & kString) {
    both.string = {context.e().both(a.string.text, b.string.text), a.string.length & b.string.length,
                   context.e().both(a.string.format, b.string.format),
                   a.string.words ? a.string.words : b.string.words};
  }
  if (both.types & kArray) both.array = meet(context, a.array, b.array);
  if (both.types & kObject) both.object = meet(context, a.object, b.object);
  both.unproved = a.unproved;
  both.unproved.insert(both.unproved.end(), b.unproved.begin(), b.unproved.end());
  return both;
}

}  // namespace tenon::constrain::schema
