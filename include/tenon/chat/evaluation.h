// Evaluates the expressions of templates.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/chat/filters.h"
#include "tenon/chat/interpreter.h"
#include "tenon/chat/methods.h"
#include "tenon/chat/operators.h"
#include "tenon/chat/predicates.h"
#include "tenon/chat/sequence_filters.h"
#include "tenon/core/require.h"

namespace tenon::chat::detail {

inline Value Interpreter::evaluate(const Node& node, Scope& scope) {
  using Op = Node::Op;
  const Meter::Level level(meter_);
  meter_.charge();
  at_ = node.at;
  const auto child = [&](std::size_t i) { return evaluate(*node.items[i], scope); };
  switch (node.op) {
    case Op::constant:
      return node.value;
    case Op::name:
      return look_up(node, scope);
    case Op::attribute: {
      const Value value = child(0);
      at_ = node.at;
      return attribute(value, node.name);
    }
    case Op::item: {
      const Value value = child(0);
      if (node.items[1]->op == Op::slice) return evaluate_slice(value, *node.items[1], scope);
      const Value key = child(1);
      at_ = node.at;
      return item(value, key);
    }
    case Op::negation:
      return !is_true(child(0));
    case Op::conjunction:
    case Op::disjunction: {
      Value left = child(0);
      return is_true(left) == (node.op == Op::conjunction) ? child(1) : left;
    }
    case Op::conditional:
      if (is_true(child(0))) return child(1);
      return node.items[2] ? child(2) : Value::undefined("the result of an \"if\" without \"else\"");
    case Op::compare:
      return evaluate_compare(node, scope);
    case Op::call: {
      const Value callee = child(0);
      const Arguments arguments = evaluate_arguments(node, scope);
      at_ = node.at;
      return call(callee, arguments);
    }
    case Op::filter:
      return apply_filters(node, {}, scope);
    case Op::test: {
      const Value value = child(0);
      const Arguments arguments = evaluate_arguments(node, scope);
      at_ = node.at;
      return call_test(node.name, value, arguments);
    }
    case Op::list:
    case Op::tuple:
    case Op::dict:
    case Op::concat:
      return evaluate_collection(node, scope);
    default:
      return evaluate_arithmetic(node, scope);
  }
}

inline Value Interpreter::evaluate_collection(const Node& node, Scope& scope) {
  using Op = Node::Op;
  if (node.op == Op::dict) {
    DictObject dict;
    for (std::size_t i = 0; i < node.items.size(); i += 2) {
      const Value key = evaluate(*node.items[i], scope);
      at_ = node.items[i]->at;
      if (!is_hashable(key)) fail_type("a dict cannot have a key that is", key);
      set_entry(dict, key, evaluate(*node.items[i + 1], scope), meter_);
    }
    return make_dict(std::move(dict), meter_);
  }
  List items;
  for (const Node* const each : node.items) items.push_back(evaluate(*each, scope));
  at_ = node.at;
  if (node.op != Op::concat)
    return make_list(std::move(items), meter_, node.op == Op::list ? ListObject::Kind::list : ListObject::Kind::tuple);
  MarkedText out;
  for (const Value& each : items) append(out, to_text(each, meter_));
  return Value::text(std::move(out));
}

inline Value Interpreter::evaluate_arithmetic(const Node& node, Scope& scope) {
  const Value left = evaluate(*node.items[0], scope);
  if (node.op == Node::Op::arithmetic) {
    const Value right = evaluate(*node.items[1], scope);
    at_ = node.at;
    return operate(node.name, left, right, meter_);
  }
  at_ = node.at;
  const bool negates = node.op == Node::Op::negate;
  if (const auto number = left.as_integer()) return Value(negates ? compute("-", 0, *number) : *number, left.writer());
  if (const auto* number = left.as<double>()) return Value(negates ? -*number : *number, left.writer());
  fail_type(negates ? "\"-\" got" : "\"+\" got", left);
}

inline Value Interpreter::evaluate_compare(const Node& node, Scope& scope) {
  Value left = evaluate(*node.items[0], scope);
  for (std::size_t i = 0; i < node.operators.size(); ++i) {
    const std::string& symbol = node.operators[i];
    Value right = evaluate(*node.items[i + 1], scope);
    at_ = node.at;
    const bool holds = symbol == "in"       ? contains(right, left, meter_)
                       : symbol == "not in" ? !contains(right, left, meter_)
                                            : *test_relation(symbol, left, right, meter_);
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

inline Value Interpreter::evaluate_slice(const Value& value, const Node& slice, Scope& scope) {
  std::optional<std::int64_t> parts[3];
  for (std::size_t i = 0; i < 3; ++i) {
    if (!slice.items[i]) continue;
    const Value part = evaluate(*slice.items[i], scope);
    parts[i] = part.as_integer();
    at_ = slice.at;
    if (!parts[i] && !part.is_none()) fail_type("the bound of a slice is", part);
  }
  at_ = slice.at;
  if (value.is_undefined()) fail_undefined(value);
  if (value.is_safe()) refuse("a slice of a text that is marked safe");
  const auto length = length_of(value, meter_);
  if (!length) fail_type("a slice got", value);
  if (parts[2] == 0) fail("the step of a slice is 0");
  const SliceRange range(static_cast<std::int64_t>(*length), parts[0], parts[1], parts[2].value_or(1));
  auto out = slice_of(value, range, meter_);
  if (!out) fail_type("a slice got", value);
  return *std::move(out);
}

inline Value Interpreter::look_up(const Node& node, Scope& scope) {
  if (const Value* const found = scope.find(node.name, meter_)) return *found;
  for (const std::string_view name : {"range", "dict", "namespace", "raise_exception"})
    if (node.name == name) return FunctionValue{name};
  if (node.name == "strftime_now" && now_) return FunctionValue{"strftime_now"};
  for (const std::string_view name : {"lipsum", "cycler", "joiner", "self"})
    if (node.name == name) refuse("the variable " + node.name);
  return Value::undefined(node.name);
}

inline Value Interpreter::attribute(const Value& value, std::string_view name, bool or_item) {
  if (value.is_undefined()) fail_undefined(value);
  if (const auto* macro = value.as<MacroObject>(); macro && name == "name")
    return Value::text(macro->definition->name, kByTemplate);
  if (has_method(value, name)) {
    if (value.is_safe()) refuse("a method of a text that is marked safe");
    return Value(
        std::shared_ptr<const MethodObject>(std::make_shared<MethodObject>(MethodObject{value, std::string(name)})));
  }
  if (const auto* space = value.as<std::shared_ptr<NamespaceObject>>()) {
    const Value* const found = find((*space)->attributes, name, meter_);
    return found ? *found : Value::undefined(name);
  }
  if (const auto* loop = value.as<std::shared_ptr<LoopState>>()) {
    if (name == "cycle" || name == "changed")
      return Value(
          std::shared_ptr<const MethodObject>(std::make_shared<MethodObject>(MethodObject{value, std::string(name)})));
    const auto found = (*loop)->attribute(name);
    return found ? *found : Value::undefined(name);
  }
  const DictObject* const dict = value.as_dict();
  const Value* const found = dict && or_item ? find(*dict, name, meter_) : nullptr;
  return found ? *found : Value::undefined(name);
}

inline Value Interpreter::item(const Value& value, const Value& key) {
  if (value.is_undefined()) fail_undefined(value);
  if (const DictObject* const dict = value.as_dict()) {
    const Value* const found = is_hashable(key) ? find(*dict, key, meter_) : nullptr;
    if (found) return *found;
  } else if (const auto index = key.as_integer()) {
    if (value.is_safe()) refuse("an index of a text that is marked safe");
    const auto found = item_at(value, *index, meter_);
    return found ? *found : Value::undefined(std::to_string(*index));
  }
  const MarkedText* const name = key.as_text();
  return name ? attribute(value, name->bytes, false) : Value::undefined("an item");
}

inline Arguments Interpreter::evaluate_arguments(const Node& call, Scope& scope) {
  Arguments out;
  for (std::size_t i = 1; i < call.items.size(); ++i) out.positional.push_back(evaluate(*call.items[i], scope));
  for (const auto& [name, node] : call.named) out.named.emplace_back(name, evaluate(*node, scope));
  if (call.star)
    for (Value& each : iterate(evaluate(*call.star, scope), meter_)) out.positional.push_back(std::move(each));
  if (call.star_star) {
    const Value names = evaluate(*call.star_star, scope);
    at_ = call.star_star->at;
    if (!names.as_dict()) fail_type("\"**\" needs a dict, not", names);
    for (const auto& [name, value] : names.as_dict()->entries) {
      if (!name.as_text()) fail_type("the name of an argument is", name);
      out.named.emplace_back(name.as_text()->bytes, value);
    }
  }
  return out;
}

inline Value Interpreter::apply_filters(const Node& filters, Value value, Scope& scope) {
  const Meter::Level level(meter_);
  const Node* const inner = filters.items[0];
  if (inner && inner->op == Node::Op::filter)
    value = apply_filters(*inner, std::move(value), scope);
  else if (inner)
    value = evaluate(*inner, scope);
  const Arguments arguments = evaluate_arguments(filters, scope);
  at_ = filters.at;
  return call_filter(filters.name, value, arguments);
}

inline Value Interpreter::call_filter(std::string_view name, const Value& value, const Arguments& arguments) {
  meter_.charge();
  const auto named = [&](const NamedFilter& filter) { return filter.name == name; };
  const auto* filter = std::find_if(std::begin(kValueFilters), std::end(kValueFilters), named);
  FilterFunction function = filter == std::end(kValueFilters) ? nullptr : filter->function;
  if (!function) {
    filter = std::find_if(std::begin(kSequenceFilters), std::end(kSequenceFilters), named);
    if (filter != std::end(kSequenceFilters)) function = filter->function;
  }
  if (!function) refuse("the filter " + std::string(name));
  if (value.is_safe()) {
    constexpr std::string_view plain[] = {"safe",   "string", "length", "count", "default", "d",
                                          "tojson", "e",      "escape", "int",   "float"};
    if (std::find(std::begin(plain), std::end(plain), name) == std::end(plain))
      refuse("the filter " + std::string(name) + " of a text that is marked safe");
  }
  return function(*this, value, arguments);
}

inline bool Interpreter::call_test(std::string_view name, const Value& value, const Arguments& arguments) {
  meter_.charge();
  if (is_relation(name)) {
    const Parameters p(name, arguments, {"other"}, 1);
    return *test_relation(name, value, *p[0], meter_);
  }
  const auto holds = test_kind(name, value, meter_);
  if (!holds) refuse("the test " + std::string(name));
  const Parameters none(name, arguments, {});
  return *holds;
}

}  // namespace tenon::chat::detail
