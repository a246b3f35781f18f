// Runs a template.
#pragma once
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/chat/render_fault.h"
#include "tenon/chat/syntax.h"
#include "tenon/chat/value.h"
#include "tenon/core/require.h"

namespace tenon::chat::detail {

// Variables of a block, in the scope around it.
class Scope {
 public:
  explicit Scope(Scope* outer) : outer_(outer) {}

  const Value* find(std::string_view name, Meter& meter) const {
    for (const Scope* scope = this; scope; scope = scope->outer_) {
      meter.charge(scope->variables_.size() / 8);
      for (const auto& [own, value] : scope->variables_)
        if (own == name) return &value;
    }
    return nullptr;
  }
  void set(std::string_view name, Value value, Meter& meter) {
    meter.charge(variables_.size() / 8);
    for (auto& [own, old] : variables_)
      if (own == name) return void(old = std::move(value));
    variables_.emplace_back(name, std::move(value));
  }
  // A macro was defined here, so the scope and those around it live until rendering ends.
  void keep() {
    for (Scope* scope = this; scope; scope = scope->outer_) scope->kept_ = true;
  }
  bool is_kept() const { return kept_; }

 private:
  Scope* outer_;
  bool kept_ = false;
  std::vector<std::pair<std::string, Value>> variables_;
};

class Interpreter;

// The items of a loop, and the variable `loop`. A test is evaluated when its item is needed.
class LoopState {
 public:
  explicit LoopState(List items) : items_(std::move(items)) {}

  // `scope` is where the loop stands: its test is evaluated there.
  void filter(Interpreter& interpreter, const Statement& loop, Scope& scope) {
    interpreter_ = &interpreter;
    loop_ = &loop;
    scope_ = &scope;
  }
  // Whether there is another item; then it becomes the current one.
  bool advance();
  const Value& current() const { return items_[at_]; }

  // An attribute: index, first, length and so on; empty where there is none of that name.
  std::optional<Value> attribute(std::string_view name);
  // Whether the arguments differ from those of the last call.
  bool changed(const List& arguments, Meter& meter);
  std::size_t index() const { return count_ - 1; }
  // The loop has ended: drops its items, so that a template cannot build a long chain of loops that hold each other.
  void finish() {
    last_.reset();
    items_.clear();
    seen_.clear();
    finished_ = true;
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  // Position of the next item that passes the test, or kNone.
  std::size_t peek();
  std::size_t length();

  List items_;
  std::size_t at_ = kNone, before_ = kNone, next_ = 0, count_ = 0;
  bool finished_ = false;
  std::optional<std::size_t> peeked_;
  List seen_;            // with a test: the items up to the current one
  bool passed_ = false;  // all items have passed the test
  std::optional<List> last_;
  Interpreter* interpreter_ = nullptr;
  const Statement* loop_ = nullptr;
  Scope* scope_ = nullptr;
};

// Runs one template once.
class Interpreter {
 public:
  // `now`: the clock of strftime_now; without one there is no such function.
  Interpreter(const SyntaxTree& tree, const Limits& limits, std::optional<std::chrono::local_seconds> now)
      : tree_(tree), meter_(limits), now_(now), globals_(nullptr), root_(&globals_) {}
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Sets a variable of the caller.
  void set(std::string_view name, Value value) { globals_.set(name, std::move(value), meter_); }
  // Error: PlacedFault.
  MarkedText run();

  Meter& meter() { return meter_; }

  Value evaluate(const Node& node, Scope& scope);
  Value call_filter(std::string_view name, const Value& value, const Arguments& arguments);
  bool call_test(std::string_view name, const Value& value, const Arguments& arguments);
  // value.name and value[key] of Jinja.
  Value attribute(const Value& value, std::string_view name, bool or_item = true);
  Value item(const Value& value, const Value& key);
  void assign(const Node& target, const Value& value, Scope& scope);

 private:
  enum class Flow { normal, break_loop, continue_loop };

  // Runs statements and appends their text.
  Flow run(const Body& body, Scope& scope, MarkedText& out);
  Flow run(const Statement& statement, Scope& scope, MarkedText& out);
  Flow run_loop(const Statement& loop, Scope& scope, MarkedText& out);
  Flow run_condition(const Statement& condition, Scope& scope, MarkedText& out);
  Flow run_capture(const Statement& statement, Scope& scope, MarkedText& out);
  void append(MarkedText& out, const MarkedText& text);
  Flow run_with(const Statement& with, Scope& scope, MarkedText& out);
  void run_call(const Statement& statement, Scope& scope, MarkedText& out);
  void retire(std::unique_ptr<Scope> scope);

  Value evaluate_compare(const Node& node, Scope& scope);
  Value evaluate_arithmetic(const Node& node, Scope& scope);
  Value evaluate_collection(const Node& node, Scope& scope);
  Value evaluate_slice(const Value& value, const Node& slice, Scope& scope);
  Value look_up(const Node& node, Scope& scope);
  Arguments evaluate_arguments(const Node& call, Scope& scope);
  Value apply_filters(const Node& filters, Value value, Scope& scope);

  Value call(const Value& callee, const Arguments& arguments);
  Value call_macro(const MacroObject& macro, const Arguments& arguments);
  void bind_parameters(const Statement& macro, const Arguments& arguments, Scope& scope);
  Value call_function(std::string_view name, const Arguments& arguments);
  Value call_loop_method(const MethodObject& method, const Arguments& arguments);

  friend class LoopState;

  const SyntaxTree& tree_;
  Meter meter_;
  std::optional<std::chrono::local_seconds> now_;
  Scope globals_, root_;
  std::size_t at_ = 0;  // place of the current expression or statement
  std::vector<std::unique_ptr<Scope>> scopes_;
  std::vector<std::shared_ptr<NamespaceObject>> namespaces_;
};

}  // namespace tenon::chat::detail
