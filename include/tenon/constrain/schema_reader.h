// Reads the keywords of one subschema that constrain values directly (JSON Schema 2020-12, validation, and the
// spellings of drafts 4 to 7) into a shape.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/constrain/refused.h"
#include "tenon/constrain/regex.h"
#include "tenon/constrain/schema_format.h"
#include "tenon/constrain/schema_shape.h"

namespace tenon::constrain::schema {

/// The type of a value, as one bit.
inline unsigned type_of(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? kTrue : kFalse;
  return value.is_null()     ? kNull
         : value.is_number() ? kNumber
         : value.is_string() ? kString
         : value.is_array()  ? kArray
                             : kObject;
}

/// Reads one subschema.
class SchemaReader {
 public:
  SchemaReader(Context& context, const Source& source) : c_(context), source_(source), schema_(*source.schema) {}

  /// The shape of the subschema. Throws Refused.
  SchemaShape read() {
    refuse_what_is_not_enforced();
    for (const std::string& warning : not_enforced(c_.sources.draft(), schema_, source_.at)) {
      c_.grammar.warnings.push_back(warning);
    }
    read_type();
    if (has("enum")) read_enum();
    if (has("const")) allow("const", {schema_["const"]});
    read_number();
    read_number_format();
    read_string();
    read_array();
    read_object();
    return std::move(shape_);
  }

 private:
  bool has(const char* keyword) const { return source_.has(keyword); }
  std::string at(const char* keyword) const { return below(source_.at, keyword); }
  [[noreturn]] void invalid(const char* keyword, const char* reason) const { refuse_invalid(at(keyword), reason); }

  void refuse_what_is_not_enforced() const {
    if (const char* keyword = abolished(c_.sources.draft(), schema_)) {
      refuse_unsupported(at(keyword),
                         "draft " + std::string(name_of(c_.sources.draft())) + " does not have it in this form");
    }
    constexpr std::array<const char*, 7> kNever = {
        "$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties",
        "disallow",    "extends",       "divisibleBy"};
    for (const char* keyword : kNever) {
      if (!has(keyword)) continue;
      const Json& value = schema_[keyword];
      if (std::string_view(keyword).starts_with("unevaluated") && (value == Json(true) || value == Json(false))) {
        if (value == Json(true) || stands_alone()) continue;
      }
      refuse_unsupported(at(keyword), std::string(keyword) + " is not enforced");
    }
  }

  // Whether no other subschema applies to the same value. Unevaluated members are then the additional ones.
  bool stands_alone() const {
    constexpr std::array<const char*, 9> kOthers = {
        "$ref", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "dependencies", "contains"};
    return std::none_of(kOthers.begin(), kOthers.end(), [&](const char* keyword) { return has(keyword); });
  }

  void read_type() {
    if (!has("type")) return;
    const Json& type = schema_["type"];
    if (!type.is_string() && !type.is_array()) invalid("type", "must be a type or a list of types");
    if (type.is_array() && type.empty()) invalid("type", "must name a type");
    shape_.typed = true, shape_.types = 0, shape_.number.whole = true;
    if (type.is_string())
      add_type(type);
    else
      for (const Json& each : type) add_type(each);
    if (!(shape_.types & kNumber)) shape_.number.whole = false;
  }
  void add_type(const Json& type) {
    if (!type.is_string()) invalid("type", "must be a type or a list of types");
    const std::string name = type.get<std::string>();
    if (name == "number") shape_.number.whole = false;
    constexpr std::array<std::pair<std::string_view, unsigned>, 7> kNames = {{{"null", kNull},
                                                                              {"boolean", kFalse | kTrue},
                                                                              {"integer", kNumber},
                                                                              {"number", kNumber},
                                                                              {"string", kString},
                                                                              {"array", kArray},
                                                                              {"object", kObject}}};
    for (const auto& [known, types] : kNames) {
      if (name == known) return void(shape_.types |= types);
    }
    refuse_invalid(at("type"), "'" + name + "' is no type");
  }

  static bool holds_rounded(const Json& value) {
    if (!value.is_structured()) return may_be_rounded(value);
    return std::any_of(value.begin(), value.end(), [](const Json& each) { return holds_rounded(each); });
  }
  void read_enum() {
    if (!schema_["enum"].is_array()) invalid("enum", "must be a list");
    allow("enum", {schema_["enum"].begin(), schema_["enum"].end()});
  }
  void allow(const char* keyword, const std::vector<Json>& values) {
    SchemaShape one{.types = 0, .typed = true};
    one.number.at = at(keyword);
    one.number.values.emplace(), one.array.values.emplace(), one.object.values.emplace();
    std::vector<std::string> texts;
    for (const Json& value : values) {
      if (holds_rounded(value)) refuse_unsupported(at(keyword), "a number of more than 64 bits");
      const unsigned type = type_of(value);
      one.types |= type;
      if (type == kNumber) one.number.values->push_back(value);
      if (type == kString) texts.push_back(spelled_text(value.get_ref<const std::string&>()));
      if (type == kArray) one.array.values->push_back(value);
      if (type == kObject) one.object.values->push_back(value);
    }
    std::sort(texts.begin(), texts.end());
    one.string.text = one_of_texts(c_.e(), texts);
    one.string.words = std::make_shared<const std::vector<std::string>>(std::move(texts));
    shape_ = meet(c_, shape_, one);
  }

  const Json* number(const char* keyword) const {
    if (!has(keyword)) return nullptr;
    if (!schema_[keyword].is_number()) invalid(keyword, "must be a number");
    return &schema_[keyword];
  }
  void read_number() {
    NumberShape& n = shape_.number;
    const auto bound = [&](const char* keyword, const char* exclusive, std::optional<Bound>& side, int better) {
      for (const char* each : {keyword, exclusive}) {  // a bound beyond all values does not matter
        if (!has(each) || !schema_[each].is_number() || !may_be_rounded(schema_[each])) continue;
        if ((schema_[each].get<double>() > 0) == (better > 0))
          refuse_unsupported(at(each), "a bound of more than 64 bits");
      }
      if (const Json* value = number(keyword)) side = Bound{Decimal::of(*value), false, at(keyword)};
      if (!has(exclusive)) return;
      const bool four = schema_[exclusive].is_boolean();
      const SchemaDraft draft = c_.sources.draft();
      if (draft == SchemaDraft::four && !four) invalid(exclusive, "must be true or false in draft 4");
      if (four && (draft == SchemaDraft::four || draft == SchemaDraft::unnamed)) {
        if (side) side->exclusive = schema_[exclusive].get<bool>();
        return;
      }
      const Bound strict{Decimal::of(*number(exclusive)), true, at(exclusive)};
      if (!side || compare(strict.value, side->value) != -better) side = strict;
    };
    bound("minimum", "exclusiveMinimum", n.low, 1);
    bound("maximum", "exclusiveMaximum", n.high, -1);
    if (const Json* value = number("multipleOf")) {
      n.multiples.push_back({Decimal::of(*value), at("multipleOf")});
      if (n.multiples.back().of.negative || n.multiples.back().of.is_zero())
        invalid("multipleOf", "must be more than 0");
      if (n.multiples.back().of.digits.size() > kMultipleDigits) {
        refuse_unsupported(at("multipleOf"), "multipleOf of more than " + std::to_string(kMultipleDigits) + " digits");
      }
    }
    if (n.low || n.high || !n.multiples.empty()) shape_.mentioned |= kNumber;
  }

  // Formats of integers are bounds (OpenAPI's registry).
  void read_number_format() {
    if (!has("format") || !schema_["format"].is_string() || !shape_.typed || !(shape_.types & kNumber)) return;
    const std::string name = schema_["format"].get<std::string>();
    NumberShape& n = shape_.number;
    const auto tighten = [&](std::optional<Bound>& side, const Json& value, int better) {
      const Bound bound{Decimal::of(value), false, at("format")};
      if (!side || compare(bound.value, side->value) * better > 0) side = bound;
    };
    for (const int bits : {8, 16, 32, 64}) {
      const std::uint64_t half = std::uint64_t{1} << (bits - 1);
      const bool is_signed = name == "int" + std::to_string(bits);
      if (!n.whole || (!is_signed && name != "uint" + std::to_string(bits))) continue;
      tighten(n.low, is_signed ? Json(-static_cast<std::int64_t>(half - 1) - 1) : Json(0), 1);
      tighten(n.high, is_signed ? Json(half - 1) : Json(half - 1 + half), -1);
      shape_.mentioned |= kNumber;
      return;
    }
    const bool has_no_bound = name == "float" || name == "double";
    if (!(shape_.types & kString) && !has_no_bound)  // read_string() warns of it otherwise
      c_.grammar.warnings.push_back("format '" + name + "' is not enforced (" + source_.at + ")");
  }

  Count count(const char* least, const char* most, unsigned type) {
    constexpr double kMost = 1e9;
    Count count;
    const auto value = [&](const char* keyword) {
      const double n = number(keyword)->get<double>();
      if (!(n >= 0) || n != std::floor(n)) invalid(keyword, "must be a whole number, 0 or more");
      return n;
    };
    if (has(least)) {
      if (value(least) > kMost) refuse_unsupported(at(least), "too complex: more than 10^9");
      count.least = static_cast<std::size_t>(value(least));
    }
    if (has(most) && value(most) <= kMost) count.most = static_cast<int>(value(most));
    if (has(least) || has(most)) shape_.mentioned |= type;
    return count;
  }

  void read_string() {
    StringShape& s = shape_.string;
    s.length = s.length & count("minLength", "maxLength", kString);
    if (has("pattern")) {
      if (!schema_["pattern"].is_string()) invalid("pattern", "must be a string");
      s.text = c_.e().both(s.text, pattern(schema_["pattern"].get<std::string>(), at("pattern")));
      shape_.mentioned |= kString;
    }
    if (!has("format")) return;
    if (!schema_["format"].is_string()) invalid("format", "must be a string");
    const std::string name = schema_["format"].get<std::string>();
    if (!(shape_.types & kString)) return;
    if (const auto format = Formats(c_.e()).find(name)) {
      s.format = *format;
    } else {
      c_.grammar.warnings.push_back("format '" + name + "' is not enforced (" + source_.at + ")");
    }
  }
  Expr pattern(const std::string& text, std::string where) {
    const auto known = c_.patterns.find(text);
    if (known != c_.patterns.end()) return known->second;
    return c_.patterns.emplace(text, regex(c_.e(), text, Spelling::json, Match::search, std::move(where)))
        .first->second;
  }

  void read_array() {
    ArrayShape& a = shape_.array;
    a.size = count("minItems", "maxItems", kArray);
    const bool tuple = has("items") && schema_["items"].is_array();  // drafts 4 to 2019-09
    const char* const prefix = tuple ? "items" : "prefixItems";
    const char* const rest = tuple ? "additionalItems" : "items";
    if (tuple && has("prefixItems")) invalid("items", "must be a schema where there are prefixItems");
    if (has(prefix)) {
      if (!schema_[prefix].is_array()) invalid(prefix, "must be a list of schemas");
      for (std::size_t i = 0; i < schema_[prefix].size(); ++i) {
        c_.grammar.budget.check();
        c_.grammar.budget.spend(2 * kSetBytes);
        a.prefix.push_back(c_.sources.at(schema_[prefix][i], below(at(prefix), i), source_.resource));
      }
    }
    if (has(rest))
      a.rest = c_.sources.member(source_, rest);
    else if (has("unevaluatedItems"))
      a.rest = c_.sources.member(source_, "unevaluatedItems");
    if (has(prefix) || has(rest)) shape_.mentioned |= kArray;
    if (has("contains")) {
      Count wanted = count("minContains", "maxContains", kArray);
      if (!has("minContains")) wanted.least = 1;
      const Meet value = c_.sources.member(source_, "contains");
      if (!wanted.is_any()) a.contains = Contains{value, wanted, at("contains")};
      shape_.mentioned |= kArray;
    }
    if (!has("uniqueItems")) return;
    if (!schema_["uniqueItems"].is_boolean()) invalid("uniqueItems", "must be true or false");
    if (!schema_["uniqueItems"].get<bool>()) return;
    shape_.mentioned |= kArray;
    shape_.unproved.push_back(
        {Unproved::What::unique, kArray, kTrueMeet, at("uniqueItems"), "uniqueItems is not enforced"});
  }

  void read_object() {
    ObjectShape& o = shape_.object;
    o.size = count("minProperties", "maxProperties", kObject);
    o.at = at("minProperties");
    read_classes();
    if (has("properties")) {
      if (!schema_["properties"].is_object()) invalid("properties", "must be an object of schemas");
      o.closes = true;
      for (const auto& [key, value] : schema_["properties"].items()) {
        c_.grammar.budget.check();
        const Meet said = c_.sources.at(value, below(at("properties"), key), source_.resource);
        o.properties.add({key, c_.sources.join(said, patterns_.empty() ? kTrueMeet : pattern_value(key)), false, true});
      }
    }
    if (has("required")) {
      if (!schema_["required"].is_array()) invalid("required", "must be a list of keys");
      for (const Json& each : schema_["required"]) require(each);
    }
    if (has("propertyNames")) names_ = c_.sources.member(source_, "propertyNames");
    for (const char* keyword :
         {"properties", "required", "additionalProperties", "patternProperties", "propertyNames"}) {
      if (has(keyword)) shape_.mentioned |= kObject;
    }
  }
  void require(const Json& key) {
    if (!key.is_string()) invalid("required", "must be a list of keys");
    ObjectShape& o = shape_.object;
    const std::string name = key.get<std::string>();
    c_.grammar.budget.check();
    if (Property* p = o.properties.find(name))
      p->required = true;
    else
      o.properties.add({name, class_of(c_, o, name), true, false});
  }

  // The subschemas for the value of a key, from the patterns that it matches.
  Meet pattern_value(const std::string& key) {
    Meet all = kTrueMeet;
    for (const auto& [keys, value] : patterns_) {
      if (matches(c_.e(), keys, spelled_text(key))) all = c_.sources.join(all, value);
    }
    return all;
  }

  void read_classes() {
    Expressions& e = c_.e();
    std::vector<KeyClass> classes = {KeyClass{}};
    if (has("patternProperties")) {
      if (!schema_["patternProperties"].is_object()) invalid("patternProperties", "must be an object of schemas");
      for (const auto& [text, value] : schema_["patternProperties"].items()) {
        const std::string where = below(at("patternProperties"), text);
        const Expr keys = pattern(text, where);
        const Meet said = c_.sources.at(value, where, source_.resource);
        patterns_.push_back({keys, said});
        std::vector<KeyClass> parts;
        for (const KeyClass& c : classes) {
          const Expr in = e.both(c.keys, keys), out = e.both(c.keys, e.complement(keys));
          if (c_.any_key(in)) parts.push_back({in, c_.sources.join(c.value, said), false});
          if (c_.any_key(e.both(c_.any_string, out))) parts.push_back({out, c.value, c.implied});
        }
        classes = std::move(parts);
        if (classes.size() > kMostClasses) refuse_complex("patternProperties that overlap in more than 64 ways");
      }
    }
    const char* const rest = has("additionalProperties") ? "additionalProperties" : "unevaluatedProperties";
    if (has(rest)) {
      const Meet others = c_.sources.member(source_, rest);
      for (KeyClass& c : classes) {
        if (std::exchange(c.implied, false)) c.value = others;
      }
    }
    shape_.object.classes = std::move(classes);
  }

 public:
  /// propertyNames: the schema of the keys, if any.
  std::optional<Meet> names() const { return names_; }

 private:
  Context& c_;
  const Source& source_;
  const Json& schema_;
  SchemaShape shape_;
  std::vector<std::pair<Expr, Meet>> patterns_;
  std::optional<Meet> names_;
};

}  // namespace tenon::constrain::schema
