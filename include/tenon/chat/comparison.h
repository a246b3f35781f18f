// Truth, equality, order and dicts of values, as in Python.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tenon/chat/value.h"
#include "tenon/core/require.h"

namespace tenon::chat::detail {

inline bool is_true(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (const auto* truth = value.as<bool>()) return *truth;
  if (const auto* number = value.as<std::int64_t>()) return *number != 0;
  if (const auto* number = value.as<double>()) return *number != 0;
  if (const MarkedText* const text = value.as_text()) return !text->empty();
  if (const ListObject* const list = value.as_list())
    return list->kind == ListObject::Kind::iterator || !list->items.empty();
  if (const DictObject* const dict = value.as_dict()) return !dict->entries.empty();
  return true;
}

// Order of an integer and a double, exact: a rounded integer could equal its neighbour. 2: one is NaN.
inline int compare_exactly(std::int64_t a, double b) {
  if (std::isnan(b)) return 2;
  if (b >= 0x1p63) return -1;
  if (b < -0x1p63) return 1;
  const auto whole = static_cast<std::int64_t>(b);
  if (a != whole) return a < whole ? -1 : 1;
  const double rest = b - static_cast<double>(whole);
  return rest > 0 ? -1 : rest < 0 ? 1 : 0;
}

// -1, 0 or 1, or 2 where a number is NaN; both are numbers.
inline int compare_numbers(const Value& a, const Value& b) {
  const auto* x = a.as<double>();
  const auto* y = b.as<double>();
  if (x && y) return *x < *y ? -1 : *x > *y ? 1 : *x == *y ? 0 : 2;
  if (x) {
    const int order = compare_exactly(*b.as_integer(), *x);
    return order == 2 ? 2 : -order;
  }
  if (y) return compare_exactly(*a.as_integer(), *y);
  const std::int64_t i = *a.as_integer(), j = *b.as_integer();
  return i < j ? -1 : i > j ? 1 : 0;
}

inline const Value* find(const DictObject& dict, const Value& key, Meter& meter);

inline bool are_equal(const Value& a, const Value& b, Meter& meter);

inline bool are_equal(const DictObject& a, const DictObject& b, Meter& meter) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* const other = find(b, key, meter);
    if (!other || !are_equal(value, *other, meter)) return false;
  }
  return true;
}

inline bool are_equal(const Value& a, const Value& b, Meter& meter) {
  meter.charge();
  if (a.as_number() && b.as_number()) return compare_numbers(a, b) == 0;
  if (a.data().index() != b.data().index()) return false;
  if (a.is_undefined() || a.is_none()) return true;
  if (const MarkedText* const text = a.as_text()) {
    meter.charge_text(text->size());
    return text->bytes == b.as_text()->bytes;
  }
  if (const ListObject* const list = a.as_list()) {
    const ListObject& other = *b.as_list();
    using Kind = ListObject::Kind;
    if (list == &other) return true;
    if (list->kind != other.kind || list->kind == Kind::iterator || list->kind == Kind::values) return false;
    if (list->items.size() != other.items.size()) return false;
    for (std::size_t i = 0; i < list->items.size(); ++i)
      if (!are_equal(list->items[i], other.items[i], meter)) return false;
    return true;
  }
  if (const DictObject* const dict = a.as_dict()) return are_equal(*dict, *b.as_dict(), meter);
  if (const auto* space = a.as<std::shared_ptr<NamespaceObject>>())
    return *space == *b.as<std::shared_ptr<NamespaceObject>>();
  if (const auto* macro = a.as<MacroObject>()) return macro->definition == b.as<MacroObject>()->definition;
  if (const auto* function = a.as<FunctionValue>()) return function->name == b.as<FunctionValue>()->name;
  return false;
}

// a < b. `symbol`: the operator, for the message.
inline bool is_less(const Value& a, const Value& b, Meter& meter, std::string_view symbol = "<") {
  meter.charge();
  if (a.as_number() && b.as_number()) return compare_numbers(a, b) == -1;
  const MarkedText *x = a.as_text(), *y = b.as_text();
  if (x && y) {
    meter.charge_text(std::min(x->size(), y->size()));
    return x->bytes < y->bytes;  // the order of UTF-8 is that of code points
  }
  const ListObject *list = a.as_list(), *other = b.as_list();
  if (list && other && list->kind == other->kind && list->kind <= ListObject::Kind::tuple) {
    for (std::size_t i = 0; i < list->items.size() && i < other->items.size(); ++i)
      if (!are_equal(list->items[i], other->items[i], meter)) return is_less(list->items[i], other->items[i], meter);
    return list->items.size() < other->items.size();
  }
  if (a.is_undefined()) fail_undefined(a);
  if (b.is_undefined()) fail_undefined(b);
  fail("\"" + std::string(symbol) + "\" does not compare values of types " + std::string(type_name(a)) + " and " +
       std::string(type_name(b)));
}

// Whether a <= b. Not the contrary of b < a: NaN.
inline bool is_less_or_equal(const Value& a, const Value& b, Meter& meter, std::string_view symbol = "<=") {
  if (a.as_number() && b.as_number()) return compare_numbers(a, b) <= 0;
  return !is_less(b, a, meter, symbol);
}

// ---------------------------------------------------------------- dicts
inline const Value* find(const DictObject& dict, const Value& key, Meter& meter) {
  const MarkedText* const text = key.as_text();
  meter.charge(dict.entries.size() / 4);
  for (const auto& [name, value] : dict.entries) {
    const MarkedText* const own = name.as_text();
    const bool same = text && own ? text->bytes == own->bytes : !text && !own && are_equal(name, key, meter);
    if (same) return &value;
  }
  return nullptr;
}
inline const Value* find(const DictObject& dict, std::string_view key, Meter& meter) {
  meter.charge(dict.entries.size() / 4);
  for (const auto& [name, value] : dict.entries)
    if (name.as_text() && name.as_text()->bytes == key) return &value;
  return nullptr;
}

// Sets an entry: its key keeps its place.
inline void set_entry(DictObject& dict, const Value& key, Value value, Meter& meter) {
  if (const Value* const old = find(dict, key, meter)) {
    const_cast<Value&>(*old) = std::move(value);  // `dict` is not const
    return;
  }
  dict.entries.emplace_back(key, std::move(value));
}

}  // namespace tenon::chat::detail
