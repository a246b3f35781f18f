// The tests of templates: `value is name(arguments)`.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "tenon/chat/methods.h"
#include "tenon/chat/numbers.h"
#include "tenon/chat/sequences.h"
#include "tenon/core/require.h"

namespace tenon::chat::detail {

// Tests without an argument; empty where there is none of this name.
inline std::optional<bool> test_kind(std::string_view name, const Value& value, Meter& meter) {
  const bool is_number = value.as_number().has_value();
  if (name == "defined") return !value.is_undefined();
  if (name == "undefined") return value.is_undefined();
  if (name == "none") return value.is_none();
  if (name == "string") return value.as_text() != nullptr;
  if (name == "number") return is_number;
  if (name == "integer") return value.as<std::int64_t>() != nullptr;
  if (name == "float") return value.as<double>() != nullptr;
  if (name == "boolean") return value.as<bool>() != nullptr;
  if (name == "mapping") return value.as_dict() != nullptr;
  if (name == "true") return value.as<bool>() && *value.as<bool>();
  if (name == "false") return value.as<bool>() && !*value.as<bool>();
  if (name == "iterable") return value.is_undefined() || value.as_text() || value.as_list() || value.as_dict();
  if (name == "sequence") {
    const ListObject* const list = value.as_list();
    return value.is_undefined() || value.as_text() || value.as_dict() ||
           (list && list->kind <= ListObject::Kind::range);
  }
  if (name == "callable")
    return value.is_undefined() || value.as<MacroObject>() || value.as_method() || value.as<FunctionValue>();
  if (name == "escaped") return value.is_safe();
  if (name == "odd" || name == "even") {
    if (!is_number) fail_type("a number is needed, not", value);
    const Value rest = arithmetic("%", value, std::int64_t{2}, kByTemplate);
    return *rest.as_number() == (name == "odd" ? 1 : 0);
  }
  if (name == "upper" || name == "lower") {
    const MarkedText text = to_text(value, meter);
    return is_true(TextMethods(text, name == "upper" ? "isupper" : "islower", {}, meter).call());
  }
  return std::nullopt;
}

// Tests with one argument.
inline std::optional<bool> test_relation(std::string_view name, const Value& value, const Value& other, Meter& meter) {
  if (name == "eq" || name == "equalto" || name == "==") return are_equal(value, other, meter);
  if (name == "ne" || name == "!=") return !are_equal(value, other, meter);
  if (name == "lt" || name == "lessthan" || name == "<") return is_less(value, other, meter);
  if (name == "gt" || name == "greaterthan" || name == ">") return is_less(other, value, meter, ">");
  if (name == "le" || name == "<=") return is_less_or_equal(value, other, meter);
  if (name == "ge" || name == ">=") return is_less_or_equal(other, value, meter, ">=");
  if (name == "in") return contains(other, value, meter);
  if (name == "divisibleby") {
    if (!value.as_number() || !other.as_number()) fail_type("divisibleby got", value.as_number() ? other : value);
    return !is_true(arithmetic("%", value, other, kByTemplate));
  }
  if (name == "sameas") {
    const bool constants = (value.is_none() || value.as<bool>()) || (other.is_none() || other.as<bool>());
    if (!constants) refuse("the test sameas of such values");
    return value.data().index() == other.data().index() && are_equal(value, other, meter);
  }
  return std::nullopt;
}

inline bool is_relation(std::string_view name) {
  for (const std::string_view each : {"eq", "equalto", "==", "ne", "!=", "lt", "lessthan", "<", "gt", "greaterthan",
                                      ">", "le", "<=", "ge", ">=", "in", "divisibleby", "sameas"})
    if (each == name) return true;
  return false;
}

}  // namespace tenon::chat::detail
