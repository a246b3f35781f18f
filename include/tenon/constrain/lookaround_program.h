// A pattern as a program: pieces that read text, and assertions between them.
#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/constrain/budget.h"
#include "tenon/constrain/expression.h"
#include "tenon/constrain/pattern.h"
#include "tenon/constrain/refused.h"

namespace tenon::constrain {

/// The steps of a pattern. Each step comes after the steps that follow it in the pattern, except in loops.
class Program {
 public:
  /// One step: a piece, an assertion, a fork, or the end.
  struct Step {
    enum class Kind { match, piece, fork, start, end, ahead, behind };
    Kind kind = Kind::match;
    Expr piece = Expressions::kEmpty;  ///< Kind::piece: what it reads
    bool negated = false;              ///< lookarounds
    int look = 0;                      ///< lookahead: its first step; lookbehind: its number in behinds()
    std::vector<int> next = {};        ///< several for a fork
  };
  /// The step that ends a match.
  static constexpr int kMatch = 0;
  static constexpr std::size_t kMostSteps = 20'000;  ///< of one program; more are refused as too complex

  /// `any_text`: all texts in the spelling of the pattern.
  Program(Expressions& all, Expr any_text) : x_(all), any_text_(any_text) { add({}); }

  /// Emits the steps of `p`, followed by step `next`. Returns its first step. Refused, unsupported, over kMostSteps.
  int emit(const PatternNode& p, int next) {
    const Budget::Nesting nesting(x_.budget());
    x_.budget().check();
    using Kind = PatternNode::Kind;
    switch (p.kind) {
      case Kind::plain:
        return p.plain == Expressions::kEmpty ? next
                                              : add({.kind = Step::Kind::piece, .piece = p.plain, .next = {next}});
      case Kind::start:
        return add({.kind = Step::Kind::start, .next = {next}});
      case Kind::end:
        return add({.kind = Step::Kind::end, .next = {next}});
      case Kind::ahead: {
        const int look = ahead(p.parts.front());
        if (depth_ > 0) aheads_in_behinds_.push_back({look, p.at});
        return add({.kind = Step::Kind::ahead, .negated = p.negated, .look = look, .next = {next}});
      }
      case Kind::behind:
        return add({.kind = Step::Kind::behind, .negated = p.negated, .look = behind(p.parts.front()), .next = {next}});
      case Kind::sequence:
        for (auto part = p.parts.rbegin(); part != p.parts.rend(); ++part) next = emit(*part, next);
        return next;
      case Kind::either: {
        Step fork{.kind = Step::Kind::fork};
        for (const PatternNode& part : p.parts) fork.next.push_back(emit(part, next));
        return add(std::move(fork));
      }
      case Kind::repeat:
        return emit_repeat(p, next);
    }
    return next;
  }

  /// Call it after all steps are emitted. refuse(at): called for an unsupported lookahead inside a lookbehind, with its
  /// character.
  template <class Refuse>
  void finish(Refuse&& refuse) {
    find_needs();
    for (const bool first : {true, false}) {
      std::vector<std::optional<Expr>>& rest = rest_[first];
      for (std::size_t i = 0; i < steps_.size(); ++i) {
        x_.budget().check();
        rest.push_back(rest_of(steps_[i], rest, first));
      }
    }
    for (const auto& [look, at] : aheads_in_behinds_) {
      if (!rest(look, false) || has_start(look)) refuse(at);
    }
  }

  const Step& step(int pc) const { return steps_[static_cast<std::size_t>(pc)]; }
  const std::vector<int>& behinds() const { return behinds_; }  ///< their first steps, inner ones first
  /// The language of the text from a step on, if it does not depend on the text before. `first`: nothing was read yet;
  /// the alternatives with ^ at that place are then not included.
  const std::optional<Expr>& rest(int pc, bool first) const { return rest_[first][static_cast<std::size_t>(pc)]; }
  /// Whether a lookbehind can be reached from the step.
  bool looks_behind(int pc) const { return looks_behind_[static_cast<std::size_t>(pc)]; }
  /// Whether ^ can be reached from the step.
  bool has_start(int pc) const { return has_start_[static_cast<std::size_t>(pc)]; }

 private:
  int add(Step step) {
    if (steps_.size() >= kMostSteps)
      refuse_complex("a repetition of assertions of more than " + std::to_string(kMostSteps) + " steps");
    x_.budget().spend(sizeof(Step) + 32 + step.next.size() * sizeof(int));
    steps_.push_back(std::move(step));
    return static_cast<int>(steps_.size()) - 1;
  }

  int emit_repeat(const PatternNode& p, int next) {
    const PatternNode& body = p.parts.front();
    if (p.most == kUnbounded) {
      const int loop = add({.kind = Step::Kind::fork});
      const int again = emit(body, loop);
      steps_[static_cast<std::size_t>(loop)].next = {again, next};
      next = loop;
    } else {
      const int end = next;
      for (int i = p.least; i < p.most; ++i) {
        const int once = emit(body, next);
        next = add({.kind = Step::Kind::fork, .next = {once, end}});
      }
    }
    for (int i = 0; i < p.least; ++i) next = emit(body, next);
    return next;
  }

  // A lookahead: the text to come starts with the body.
  int ahead(const PatternNode& body) {
    const auto emitted = [&] {
      return emit(body, add({.kind = Step::Kind::piece, .piece = Expressions::kAnything, .next = {kMatch}}));
    };
    if (!body.is_plain()) return emitted();
    const auto found = plain_aheads_.find(body.plain);
    return found != plain_aheads_.end() ? found->second : plain_aheads_.emplace(body.plain, emitted()).first->second;
  }
  // A lookbehind: the text so far ends with the body.
  int behind(const PatternNode& body) {
    const auto emitted = [&] {
      ++depth_;
      const int entry = emit(body, kMatch);
      --depth_;
      behinds_.push_back(add({.kind = Step::Kind::piece, .piece = any_text_, .next = {entry}}));
      return static_cast<int>(behinds_.size()) - 1;
    };
    if (!body.is_plain()) return emitted();
    const auto found = plain_behinds_.find(body.plain);
    return found != plain_behinds_.end() ? found->second : plain_behinds_.emplace(body.plain, emitted()).first->second;
  }

  // Finds the steps from which a lookbehind or ^ can be reached.
  void find_needs() {
    looks_behind_.assign(steps_.size(), false);
    has_start_.assign(steps_.size(), false);
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = 0; i < steps_.size(); ++i) {
        x_.budget().check();
        const Step& s = steps_[i];
        bool behind = s.kind == Step::Kind::behind, start = s.kind == Step::Kind::start;
        const auto reach = [&](int pc) { behind = behind || looks_behind(pc), start = start || has_start(pc); };
        for (const int next : s.next) reach(next);
        if (s.kind == Step::Kind::ahead) reach(s.look);
        if (s.kind == Step::Kind::behind) start = start || has_start(behinds_[static_cast<std::size_t>(s.look)]);
        changed = changed || behind != looks_behind_[i] || start != has_start_[i];
        looks_behind_[i] = behind, has_start_[i] = start;
      }
    }
  }

  // Following steps come earlier, except in loops, which have no rest.
  std::optional<Expr> rest_of(const Step& s, const std::vector<std::optional<Expr>>& known, bool first) {
    std::vector<Expr> rests;
    for (const int next : s.next) {
      if (static_cast<std::size_t>(next) >= known.size() || !known[static_cast<std::size_t>(next)]) return std::nullopt;
      rests.push_back(*known[static_cast<std::size_t>(next)]);
    }
    switch (s.kind) {
      case Step::Kind::match:
        return Expressions::kEmpty;
      case Step::Kind::piece:
        return x_.concat(s.piece, rests.front());
      case Step::Kind::fork:
        return x_.either(std::move(rests));
      case Step::Kind::start:
        return Expressions::kNever;
      case Step::Kind::end:
        return x_.both(Expressions::kEmpty, rests.front());
      case Step::Kind::behind:
        return std::nullopt;
      case Step::Kind::ahead:
        break;
    }
    const std::optional<Expr>& seen = known[static_cast<std::size_t>(s.look)];
    if (!seen || (first && has_start(s.look))) return std::nullopt;
    return x_.both(s.negated ? x_.complement(*seen) : *seen, rests.front());
  }

  Expressions& x_;
  const Expr any_text_;
  std::vector<Step> steps_;
  std::vector<int> behinds_;
  int depth_ = 0;                                               // of nested lookbehinds
  std::vector<std::pair<int, std::size_t>> aheads_in_behinds_;  // first step, character
  std::map<Expr, int> plain_aheads_, plain_behinds_;
  std::vector<bool> looks_behind_, has_start_;
  std::vector<std::optional<Expr>> rest_[2];  // [first][step]
};

}  // namespace tenon::constrain
