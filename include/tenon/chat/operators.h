// The operators of templates.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/chat/formatting.h"
#include "tenon/chat/numbers.h"
#include "tenon/chat/text_edit.h"
#include "tenon/core/require.h"

namespace tenon::chat::detail {

inline char writer_of(const Value& a, const Value& b) {
  return a.writer() == kByMessage || b.writer() == kByMessage ? kByMessage : kByTemplate;
}

[[noreturn]] inline void fail_operands(std::string_view symbol, const Value& a, const Value& b) {
  if (a.is_undefined()) fail_undefined(a);
  if (b.is_undefined()) fail_undefined(b);
  fail("\"" + std::string(symbol) + "\" does not take values of types " + std::string(type_name(a)) + " and " +
       std::string(type_name(b)));
}

// a + b.
inline Value add(const Value& a, const Value& b, Meter& meter) {
  if (a.is_safe() || b.is_safe()) refuse("\"+\" of a text that is marked safe");
  const MarkedText *x = a.as_text(), *y = b.as_text();
  if (x && y) {
    meter.charge_text(x->size() + y->size());
    check_size(x->size() + y->size(), meter);
    MarkedText out = *x;
    out.append(*y);
    return Value::text(std::move(out));
  }
  const ListObject *list = a.as_list(), *other = b.as_list();
  if (list && other && list->kind == other->kind && list->kind <= ListObject::Kind::tuple) {
    meter.charge_items(list->items.size() + other->items.size());
    List items = list->items;
    items.insert(items.end(), other->items.begin(), other->items.end());
    return make_list(std::move(items), meter, list->kind, writer_of(a, b));
  }
  if (!a.as_number() || !b.as_number()) fail_operands("+", a, b);
  return arithmetic("+", a, b, writer_of(a, b));
}

// a * b of a text or list and an integer.
inline Value repeat(const Value& value, std::int64_t count, Meter& meter) {
  if (value.is_safe()) refuse("\"*\" of a text that is marked safe");
  if (const MarkedText* const text = value.as_text()) return Value::text(repeated(*text, count, meter));
  const ListObject& list = *value.as_list();
  List items;
  for (std::int64_t i = 0; i < count; ++i) {
    if (list.items.empty()) break;
    meter.charge_items(list.items.size());
    items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return make_list(std::move(items), meter, list.kind, value.writer());
}

// One of the operators + - * / // % **.
inline Value operate(std::string_view symbol, const Value& a, const Value& b, Meter& meter) {
  if (symbol == "+") return add(a, b, meter);
  const auto repeats = [](const Value& value) {
    return value.as_text() || (value.as_list() && value.as_list()->kind <= ListObject::Kind::tuple);
  };
  if (symbol == "*" && repeats(a) && b.as_integer()) return repeat(a, *b.as_integer(), meter);
  if (symbol == "*" && repeats(b) && a.as_integer()) return repeat(b, *a.as_integer(), meter);
  if (symbol == "%" && a.as_text()) {
    if (a.is_safe()) refuse("\"%\" of a text that is marked safe");
    return Value::text(format_percents(*a.as_text(), b, meter));
  }
  if (!a.as_number() || !b.as_number()) fail_operands(symbol, a, b);
  return arithmetic(symbol, a, b, writer_of(a, b));
}

}  // namespace tenon::chat::detail
