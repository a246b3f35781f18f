// A grammar at work: which bytes may come next. States are made when a text first leads there.
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

// A pushdown automaton over bytes. A state is a set of configurations: what may come in the rule that is being read,
// and what then in those that called it, on stacks that are held once each. From every state that is not dead some text
// leads to the end: what cannot be finished is left out when it arises.
class Automaton {
 public:
  using State = std::int32_t;
  static constexpr State kDead = -1;
  static constexpr std::size_t kMostConfigurations = 256;

  struct Configuration {
    Expr next;
    int stack;  // 0: nobody has called
    friend auto operator<=>(const Configuration&, const Configuration&) = default;
  };

  // Errors: Refused, invalid_request where no text matches.
  explicit Automaton(std::unique_ptr<Grammar> grammar);

  // ConstraintLimits::step_time begins anew.
  void begin_step() { grammar_->budget.begin_step(); }

  State start() const { return start_; }

  // kDead where the byte must not come.
  State step(State from, std::uint8_t byte);

  // Whether the text may end here.
  bool accepts(State state) const { return states_[static_cast<std::size_t>(state)].accepts; }

  // Bytes of the shortest way to the end that is known (fewest_bytes.h); some byte always leads one nearer, within the
  // depth of calls too.
  int distance(State state);

  // What distance() needs, so that it costs little from then on. Refused, unsupported, beyond what compiling may take
  // too, or half of the memory: the rest is for states.
  void prepare_distances();

  // A state in which characters of a JSON string come, any ones: so many at least and at most before something else
  // may.
  struct Run {
    int least, most;  // most: kUnbounded
  };
  std::optional<Run> run(State state) const;
  // A set of characters, any of which may come so many times, whatever else may come: the largest that was found.
  struct Loop {
    ByteSet characters;
    int most = 0;  // kUnbounded
  };
  // byte: that led to the state. Where it does not lead on to the same state hardly any other will.
  Loop loop(State state, std::uint8_t byte);
  // The characters that lead from the state to itself; nullptr where the byte, which led to it, does not.
  const ByteSet* staying(State state, std::uint8_t byte);
  // Whether what follows a run can only begin with the quote that ends a string.
  bool run_ends_in_quote(State state);
  // The same state but for the bounds of its run.
  State with_run(State state, Run bounds);

  const Grammar& grammar() const { return *grammar_; }
  std::size_t states() const { return states_.size(); }

 private:
  static constexpr State kUnknown = -2;

  struct Frame {
    Expr rest;
    int below, depth;
    int distance = -1;  // of its rest and all below it; -1: not asked yet
  };
  struct StateData {
    std::vector<Configuration> configurations;
    std::array<std::uint8_t, 256> class_of{};
    std::vector<State> edges;  // by class; empty: not looked at yet
    bool accepts = false;
    int distance = -1;  // not asked yet
  };

  [[noreturn]] void refuse_dead();

  // Makes the states that the shortest texts lead to, escapes and characters beyond ASCII aside: the masks of a text's
  // beginning find them made. State numbers are in the order of making, so this is breadth first. Nothing depends on
  // how far it gets.
  void explore();

  // Rules that no text matches are called no more; heights bound what a text needs of depth.
  void trim();

  // Adds what can be read from here: of this rule, of those that it calls, and where it may be over of those that
  // called it.
  void close(Expr next, int stack, std::vector<Configuration>& out);

  // The characters that an expression matches.
  const ByteSet& repeated(Expr each);
  // Those that lead from a state to itself.
  const ByteSet& leading_back(State state);

  const Frame& frame(int stack) const { return frames_[static_cast<std::size_t>(stack)]; }
  // Whether no text of the expression keeps within the depth, on that stack.
  bool is_too_deep(Expr next, int stack);

  int fewest_of(Expr next, int stack);
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
  std::vector<int> heights_;  // [rule]: how deep calls must go at least
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
