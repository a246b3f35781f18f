// The automaton of a grammar: which bytes may come next. States are made when a text first reaches them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/constrain/characters.h"
#include "tenon/constrain/code_points.h"
#include "tenon/constrain/fewest_bytes.h"
#include "tenon/constrain/grammar.h"

namespace tenon::constrain {

/// A pushdown automaton over bytes, made on demand. A state is a set of configurations: the rest of the rule that is
/// being read, and a stack of the rests of its callers. Stacks share their frames. Every state but kDead can reach the
/// end of a text: a configuration that cannot is dropped when it arises.
/// Not thread-safe. Every call can throw Refused (unsupported, "too complex") where it makes states beyond a limit.
class Automaton {
 public:
  /// Number of a state, in the order of making.
  using State = std::int32_t;
  /// No text has this prefix.
  static constexpr State kDead = -1;
  static constexpr std::size_t kMostConfigurations = 256;  ///< in one state; more are refused as too complex

  /// The rest of a rule, and the stack of its callers.
  struct Configuration {
    Expr next;  ///< what the rule may still match
    int stack;  ///< number of a stack; 0: empty
    friend auto operator<=>(const Configuration&, const Configuration&) = default;
  };

  /// Errors: Refused; its kind is invalid_request if no text matches.
  explicit Automaton(std::unique_ptr<Grammar> grammar);

  /// Restarts the clock of ConstraintLimits::step_time.
  void begin_step() { grammar_->budget.begin_step(); }

  /// The state of the empty text.
  State start() const { return start_; }

  /// The state after the byte; kDead where the byte is not allowed.
  State step(State from, std::uint8_t byte);

  /// The byte that must come next.
  struct Forced {
    std::uint8_t byte;
    bool or_blank;  ///< the byte is not a blank, and a blank may stand there, too
  };
  /// Nothing where the text may end, or several bytes that are not blanks may come.
  std::optional<Forced> forced(State state);

  /// Whether a text chooses between a blank and other bytes here, outside of strings.
  bool may_be_blank(State state) { return !run(state) && step(state, ' ') != kDead; }

  /// Whether the text may end here.
  bool accepts(State state) const { return states_[static_cast<std::size_t>(state)].accepts; }

  /// Length in bytes of the shortest known continuation to the end (fewest_bytes.h). Some byte always decreases it by
  /// at least 1, within the limit of call depth.
  int distance(State state);

  /// Computes the tables of distance(), which is cheap afterwards. Refused, unsupported, where that takes longer than
  /// compiling may, or more than half of the memory. The other half is for states.
  void prepare_distances();

  /// Bounds on the number of JSON string characters, of any kind, that come next before anything else may.
  struct Run {
    int least, most;  ///< most: kUnbounded for no bound
  };
  /// The run at this state; empty where something else may come.
  std::optional<Run> run(State state) const;
  /// A set of characters, each of which may come next, up to `most` times in any order. Other texts may also be
  /// allowed. The largest set found.
  struct Loop {
    ByteSet characters;  ///< as in characters.h
    int most = 0;        ///< kUnbounded for no bound
  };
  /// A loop at the state. `byte`: the byte that led to the state. If it does not lead to the same state again, the
  /// characters that return to the state are not searched, since hardly any do.
  Loop loop(State state, std::uint8_t byte);
  /// The characters that lead from the state to itself; null where `byte`, which led to the state, does not.
  const ByteSet* staying(State state, std::uint8_t byte);
  /// Whether only the closing quote of a string can follow the run of the state.
  bool run_ends_in_quote(State state);
  /// The state that differs from this one only in the bounds of its run.
  State with_run(State state, Run bounds);

  /// The grammar; it lives as long as the automaton.
  const Grammar& grammar() const { return *grammar_; }
  /// Number of states made so far.
  std::size_t states() const { return states_.size(); }

 private:
  static constexpr State kUnknown = -2;

  // A rest of a rule below the top of a stack.
  struct Frame {
    Expr rest;
    int below, depth;
    int distance = -1;  // bytes to the end for its rest and all frames below; -1: unknown
  };
  struct StateData {
    std::vector<Configuration> configurations;
    std::array<std::uint8_t, 256> class_of{};
    std::vector<State> edges;  // by class; empty: not computed
    bool accepts = false;
    int distance = -1;  // -1: unknown
  };

  [[noreturn]] void refuse_dead();

  // Makes the states of the shortest texts in advance, so that the masks at the start of a text find them. Escapes and
  // non-ASCII characters are left out. State numbers are in the order of making, so the search is breadth first. Its
  // extent affects speed only.
  void explore();

  // Removes calls of rules that no text matches, and computes heights_.
  void trim();

  // Adds the configurations that can read a byte next: of this rule, of the rules it calls, and, where it may end, of
  // its callers.
  void close(Expr next, int stack, std::vector<Configuration>& out);

  // The characters that an expression matches.
  const ByteSet& repeated(Expr each);
  // The characters that lead from a state to itself.
  const ByteSet& loop_characters(State state);

  const Frame& frame(int stack) const { return frames_[static_cast<std::size_t>(stack)]; }
  // Whether every text of the expression on this stack exceeds the limit of call depth.
  bool is_too_deep(Expr next, int stack);

  // Bytes of the shortest text of `next`, within the call depth that the stack leaves.
  int fewest_of(Expr next, int stack);
  // Bytes of the shortest text of all frames of the stack.
  int distance_below(int stack);

  int push(Expr rest, int below);

  State state_of(std::vector<Configuration> configurations);

  void find_classes(State state);

  std::unique_ptr<Grammar> grammar_;
  Expressions& x_;
  Expr any_character_ = Expressions::kNever;
  std::unordered_map<Expr, bool> begins_with_quote_;
  std::unordered_map<Expr, ByteSet> repeated_;
  std::unordered_map<State, ByteSet> loops_;
  std::vector<int> heights_;  // [rule]: least call depth of its texts
  Expressions::Heights known_heights_;
  std::optional<FewestBytes> fewest_;
  std::vector<Frame> frames_;
  std::map<std::pair<Expr, int>, int> stacks_;
  std::vector<StateData> states_;
  std::map<std::vector<Configuration>, State> numbers_;
  State start_ = kDead;
};

}  // namespace tenon::constrain

#ifndef TENON_COMPILED
#include "tenon/constrain/automaton-inl.h"
#endif
