// Runs the statements of templates, and calls macros and functions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/chat/evaluation.h"
#include "tenon/chat/interpreter.h"
#include "tenon/core/require.h"

namespace tenon::chat::detail {

inline Interpreter::~Interpreter() {
  for (const auto& space : namespaces_) space->attributes.entries.clear();
}

inline MarkedText Interpreter::run() {
  MarkedText out;
  try {
    run(tree_.body, root_, out);
  } catch (RenderFault& fault) {
    throw PlacedFault{std::move(fault), at_};
  }
  return out;
}

inline void Interpreter::append(MarkedText& out, const MarkedText& text) {
  meter_.charge_text(text.size());
  check_size(out.size() + text.size(), meter_);
  out.append(text);
}

// Keeps a scope in which a macro was defined.
inline void Interpreter::retire(std::unique_ptr<Scope> scope) {
  if (scope->is_kept()) scopes_.push_back(std::move(scope));
}

inline Interpreter::Flow Interpreter::run(const Body& body, Scope& scope, MarkedText& out) {
  for (const Statement* const statement : body)
    if (const Flow flow = run(*statement, scope, out); flow != Flow::normal) return flow;
  return Flow::normal;
}

inline Interpreter::Flow Interpreter::run(const Statement& statement, Scope& scope, MarkedText& out) {
  using Kind = Statement::Kind;
  const Meter::Level level(meter_);
  meter_.charge();
  at_ = statement.at;
  switch (statement.kind) {
    case Kind::output:
      for (const Node* const each : statement.outputs) append(out, to_text(evaluate(*each, scope), meter_));
      return Flow::normal;
    case Kind::loop:
      return run_loop(statement, scope, out);
    case Kind::condition:
      return run_condition(statement, scope, out);
    case Kind::assignment:
      assign(*statement.target, evaluate(*statement.value, scope), scope);
      return Flow::normal;
    case Kind::capture:
    case Kind::filter:
    case Kind::generation:
      return run_capture(statement, scope, out);
    case Kind::with:
      return run_with(statement, scope, out);
    case Kind::macro:
      scope.keep();
      scope.set(statement.name, MacroObject{&statement, &scope}, meter_);
      return Flow::normal;
    case Kind::call:
      run_call(statement, scope, out);
      return Flow::normal;
    case Kind::break_loop:
      return Flow::break_loop;
    case Kind::continue_loop:
      break;
  }
  return Flow::continue_loop;
}

inline Interpreter::Flow Interpreter::run_condition(const Statement& condition, Scope& scope, MarkedText& out) {
  for (const Statement::Branch& branch : condition.branches)
    if (is_true(evaluate(*branch.test, scope))) return run(branch.body, scope, out);
  return run(condition.otherwise, scope, out);
}

inline Interpreter::Flow Interpreter::run_loop(const Statement& loop, Scope& scope, MarkedText& out) {
  struct Finish {
    std::shared_ptr<LoopState> state;
    ~Finish() { state->finish(); }
  };
  const Value value = evaluate(*loop.value, scope);
  at_ = loop.value->at;
  const auto state = std::make_shared<LoopState>(iterate(value, meter_));
  const Finish finish{state};
  state->filter(*this, loop, scope);
  bool completed = false;  // the body ran to its end once; otherwise jinja2 runs the else block
  while (state->advance()) {
    auto inner = std::make_unique<Scope>(&scope);
    meter_.charge();
    inner->set("loop", state, meter_);
    assign(*loop.target, state->current(), *inner);
    const Flow flow = run(loop.body, *inner, out);
    retire(std::move(inner));
    if (flow == Flow::break_loop) break;
    completed = completed || flow == Flow::normal;
  }
  if (completed || loop.otherwise.empty()) return Flow::normal;
  auto inner = std::make_unique<Scope>(&scope);
  const Flow flow = run(loop.otherwise, *inner, out);
  retire(std::move(inner));
  return flow;
}

// Blocks whose text is a value: set, filter and generation.
inline Interpreter::Flow Interpreter::run_capture(const Statement& statement, Scope& scope, MarkedText& out) {
  auto inner = std::make_unique<Scope>(&scope);
  MarkedText text;
  const Flow flow = run(statement.body, *inner, text);
  if (flow == Flow::normal) {
    Value value = Value::text(std::move(text));
    if (statement.value) value = apply_filters(*statement.value, std::move(value), *inner);
    if (statement.kind == Statement::Kind::capture)
      assign(*statement.target, value, scope);
    else
      append(out, to_text(value, meter_));
  }
  retire(std::move(inner));
  return flow;
}

inline Interpreter::Flow Interpreter::run_with(const Statement& with, Scope& scope, MarkedText& out) {
  auto inner = std::make_unique<Scope>(&scope);
  for (std::size_t i = 0; i < with.outputs.size(); i += 2)
    assign(*with.outputs[i], evaluate(*with.outputs[i + 1], scope), *inner);
  const Flow flow = run(with.body, *inner, out);
  retire(std::move(inner));
  return flow;
}

inline void Interpreter::run_call(const Statement& statement, Scope& scope, MarkedText& out) {
  const Node& node = *statement.value;
  const Value callee = evaluate(*node.items[0], scope);
  Arguments arguments = evaluate_arguments(node, scope);
  scope.keep();
  arguments.named.emplace_back("caller", MacroObject{&statement, &scope});
  at_ = node.at;
  append(out, to_text(call(callee, arguments), meter_));
}

inline void Interpreter::assign(const Node& target, const Value& value, Scope& scope) {
  const Meter::Level level(meter_);
  at_ = target.at;
  if (target.op == Node::Op::name) return scope.set(target.name, value, meter_);
  if (target.op == Node::Op::attribute) {
    const Value owner = look_up(*target.items[0], scope);
    const auto* space = owner.as<std::shared_ptr<NamespaceObject>>();
    if (!space) fail("only attributes of a namespace can be set");
    return set_entry((*space)->attributes, Value::text(target.name, kByTemplate), value, meter_);
  }
  const List items = iterate(value, meter_);
  if (items.size() != target.items.size())
    fail(std::to_string(target.items.size()) + " variables are set from " + std::to_string(items.size()) + " values");
  for (std::size_t i = 0; i < items.size(); ++i) assign(*target.items[i], items[i], scope);
}

// ---------------------------------------------------------------- calls
inline Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  meter_.charge_items(arguments.positional.size() + arguments.named.size());
  if (callee.is_undefined()) fail_undefined(callee);
  if (const auto* macro = callee.as<MacroObject>()) return call_macro(*macro, arguments);
  if (const auto* function = callee.as<FunctionValue>()) return call_function(function->name, arguments);
  const MethodObject* const method = callee.as_method();
  if (!method) fail_type("cannot call", callee);
  if (method->self.as<std::shared_ptr<LoopState>>()) return call_loop_method(*method, arguments);
  if (const MarkedText* const text = method->self.as_text())
    return TextMethods(*text, method->name, arguments, meter_).call();
  return call_container_method(method->self, method->name, arguments, meter_);
}

inline Value Interpreter::call_macro(const MacroObject& macro, const Arguments& arguments) {
  const Meter::Level level(meter_);
  auto scope = std::make_unique<Scope>(macro.scope);
  bind_parameters(*macro.definition, arguments, *scope);
  MarkedText out;
  run(macro.definition->body, *scope, out);
  retire(std::move(scope));
  return Value::text(std::move(out));
}

inline void Interpreter::bind_parameters(const Statement& macro, const Arguments& arguments, Scope& scope) {
  const std::vector<std::string>& names = macro.parameters;
  const List& given = arguments.positional;
  std::vector<std::pair<std::string, Value>> named = arguments.named;
  meter_.charge(names.size() * named.size() / 8);
  const auto take = [&](std::string_view name) -> std::optional<Value> {
    for (auto each = named.begin(); each != named.end(); ++each) {
      if (each->first != name) continue;
      Value value = std::move(each->second);
      named.erase(each);
      return value;
    }
    return std::nullopt;
  };
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::optional<Value> value = i < given.size() ? std::optional(given[i]) : take(names[i]);
    const std::size_t without = names.size() - macro.defaults.size();
    if (!value) value = i < without ? Value::undefined(names[i]) : evaluate(*macro.defaults[i - without], scope);
    scope.set(names[i], *std::move(value), meter_);
  }
  const bool has_parameter = std::find(names.begin(), names.end(), "caller") != names.end();
  if (macro.takes_caller && !has_parameter)
    scope.set("caller", take("caller").value_or(Value::undefined("caller")), meter_);
  if (macro.takes_kwargs) {
    DictObject rest;
    for (auto& [name, value] : named) set_entry(rest, Value::text(name, kByTemplate), std::move(value), meter_);
    scope.set("kwargs", make_dict(std::move(rest), meter_), meter_);
  } else if (!named.empty()) {
    fail("the macro \"" + macro.name + "\" has no parameter \"" + named.front().first + "\"");
  }
  const auto rest = given.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), given.size()));
  if (macro.takes_varargs)
    scope.set("varargs", make_tuple(List(rest, given.end()), meter_), meter_);
  else if (rest != given.end())
    fail("the macro \"" + macro.name + "\" takes at most " + std::to_string(names.size()) + " arguments");
}

inline Value Interpreter::call_function(std::string_view name, const Arguments& arguments) {
  if (name == "raise_exception") {
    const Parameters p(name, arguments, {"message"}, 1);
    fail(to_text(*p[0], meter_).bytes);
  }
  if (name == "strftime_now") {
    const MarkedText format = Parameters(name, arguments, {"format"}, 1).text(0);
    return Value::text(format_time(format.bytes, *now_, meter_), format.writer());
  }
  if (name == "range") {
    const Parameters p(name, arguments, {"start", "stop", "step"}, 1);
    const bool one = !p[1];
    ListObject range{.kind = ListObject::Kind::range};
    range.start = one ? 0 : p.integer(0, 0);
    range.stop = one ? p.integer(0, 0) : p.integer(1, 0);
    range.stride = p.integer(2, 1);
    if (range.stride == 0) fail("the step of a range is 0");
    constexpr std::int64_t most = 100'000;  // as in the sandbox of jinja2
    for (std::int64_t at = range.start; range.stride > 0 ? at < range.stop : at > range.stop;) {
      if (static_cast<std::int64_t>(range.items.size()) == most)
        fail("a range has at most " + std::to_string(most) + " items");
      range.items.push_back(at);
      if (__builtin_add_overflow(at, range.stride, &at)) break;
    }
    meter_.charge_items(range.items.size());
    return Value(std::shared_ptr<const ListObject>(std::make_shared<ListObject>(std::move(range))));
  }
  DictObject dict;  // of dict() or namespace()
  if (arguments.positional.size() > 1) fail(std::string(name) + " takes at most 1 argument without a name");
  if (!arguments.positional.empty()) {
    const Value& from = arguments.positional[0];
    if (const DictObject* const other = from.as_dict()) {
      meter_.charge_items(2 * other->entries.size());
      dict.entries = other->entries;
    } else {
      for (const Value& pair : iterate(from, meter_)) {
        const List parts = iterate(pair, meter_);
        if (parts.size() != 2 || !is_hashable(parts[0])) fail(std::string(name) + " needs pairs of a key and a value");
        set_entry(dict, parts[0], parts[1], meter_);
      }
    }
  }
  for (const auto& [key, value] : arguments.named) set_entry(dict, Value::text(key, kByTemplate), value, meter_);
  if (name == "dict") return make_dict(std::move(dict), meter_);
  namespaces_.push_back(std::make_shared<NamespaceObject>(NamespaceObject{std::move(dict)}));
  return namespaces_.back();
}

// ---------------------------------------------------------------- loops
inline Value Interpreter::call_loop_method(const MethodObject& method, const Arguments& arguments) {
  const auto& loop = *method.self.as<std::shared_ptr<LoopState>>();
  if (!arguments.named.empty()) fail(method.name + " takes no argument with a name");
  if (method.name == "changed") return loop->changed(arguments.positional, meter_);
  if (arguments.positional.empty()) fail("cycle needs a value");
  return arguments.positional[loop->index() % arguments.positional.size()];
}

inline std::size_t LoopState::peek() {
  if (peeked_) return *peeked_;
  std::size_t found = kNone;
  while (next_ < items_.size() && found == kNone) {
    const std::size_t at = next_++;
    if (loop_->test && !passed_) {
      Scope inner(scope_);
      interpreter_->assign(*loop_->target, items_[at], inner);
      if (!is_true(interpreter_->evaluate(*loop_->test, inner))) continue;
    }
    found = at;
  }
  peeked_ = found;
  return found;
}

inline bool LoopState::advance() {
  const std::size_t next = peek();
  peeked_.reset();
  if (next == kNone) return false;
  before_ = at_;
  at_ = next;
  ++count_;
  if (loop_->test && !passed_) seen_.push_back(items_[at_]);
  return true;
}

inline std::size_t LoopState::length() {
  if (!loop_->test || passed_) return items_.size();
  // Tests all remaining items. The items already seen and those that pass replace the list.
  List all = std::move(seen_);
  for (std::size_t at = peek(); at != kNone; at = peek()) {
    all.push_back(items_[at]);
    peeked_.reset();
  }
  items_ = std::move(all);
  passed_ = true;
  peeked_.reset();
  next_ = count_;
  at_ = count_ - 1;
  before_ = count_ > 1 ? count_ - 2 : kNone;
  return items_.size();
}

inline std::optional<Value> LoopState::attribute(std::string_view name) {
  if (finished_) refuse("the variable \"loop\" after its loop");
  const auto number = [](std::size_t value) { return Value(static_cast<std::int64_t>(value)); };
  if (name == "index") return number(count_);
  if (name == "index0") return number(count_ - 1);
  if (name == "first") return Value(count_ == 1);
  if (name == "last") return Value(peek() == kNone);
  if (name == "length") return number(length());
  if (name == "revindex") return number(length() - count_ + 1);
  if (name == "revindex0") return number(length() - count_);
  if (name == "depth") return number(1);
  if (name == "depth0") return number(0);
  if (name == "previtem") return before_ == kNone ? Value::undefined("the item before the first") : items_[before_];
  if (name == "nextitem") {
    const std::size_t next = peek();
    return next == kNone ? Value::undefined("the item after the last") : items_[next];
  }
  return std::nullopt;
}

inline bool LoopState::changed(const List& arguments, Meter& meter) {
  if (finished_) refuse("the variable \"loop\" after its loop");
  bool same = last_ && last_->size() == arguments.size();
  for (std::size_t i = 0; same && i < arguments.size(); ++i) same = are_equal((*last_)[i], arguments[i], meter);
  if (!same) last_ = arguments;
  return !same;
}

}  // namespace tenon::chat::detail
