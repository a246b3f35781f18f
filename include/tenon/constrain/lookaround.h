// Converts regular expressions with assertions (^, $, lookahead, lookbehind) to expressions.
//
// The rest of a program is an expression if it has no lookbehind and no loop around assertions. A lookahead is then the
// intersection of what follows with x.*, and its negation the intersection with the complement (Program::rest).
// Otherwise the program runs as a set of threads, which is a state of a machine. Each thread carries an obligation: an
// expression for the text to come, from its lookaheads, derived with each byte. A lookbehind is a set of threads of .*x
// that runs from the start of the text; it holds where one of them ends. Derivatives with locations: Varatalu, Veanes
// and Ernits, RE#, POPL 2025.
#pragma once
#include <algorithm>
#include <compare>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tenon/constrain/budget.h"
#include "tenon/constrain/expression.h"
#include "tenon/constrain/lookaround_program.h"
#include "tenon/constrain/refused.h"

namespace tenon::constrain {

/// The machine of a program that is not an expression throughout.
class LookaroundMachine final : public Expressions::Machine {
 public:
  /// The texts that a program matches as a whole. The machine is added to `all` only if one of its states is needed.
  static Expr start(Expressions& all, std::unique_ptr<Program> program, int entry, Expr any_text) {
    if (!program->has_start(entry) && program->rest(entry, true)) return *program->rest(entry, true);
    auto made = std::unique_ptr<LookaroundMachine>(new LookaroundMachine(all, std::move(program), any_text));
    LookaroundMachine& machine = *made;
    machine.number_ = all.add_machine(std::move(made));
    const int context = machine.first_context();
    Threads threads;
    machine.close(entry, Expressions::kAnything, machine.contexts_[static_cast<std::size_t>(context)], context,
                  threads);
    return all.live_part(machine.as_expression(std::move(threads), context));
  }

  Expr derivative(int state, int byte) override {
    const State& from = states_[static_cast<std::size_t>(state)];
    const int context = from.context == kNoContext ? kNoContext : next_context(from.context, byte);
    Threads next;
    for (const auto& [place, owed] : from.threads) step(place, owed, byte, context_of(context), context, next);
    return as_expression(std::move(next), context);
  }
  std::span<const Expr> parts(int state) const override { return states_[static_cast<std::size_t>(state)].parts; }

 private:
  static constexpr std::size_t kMostThreads = 4096;
  static constexpr int kNoContext = -1;  // no lookbehind can follow

  // The unread rest of a piece, and the step after the piece.
  struct Place {
    Expr rest;
    int next;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  using Threads = std::map<Place, Expr>;  // each with its obligation
  // State of the lookbehinds after the text so far.
  struct Context {
    std::vector<Threads> behinds;  // by number
    std::vector<Expr> holds;       // [lookbehind]: what the text to come must match for it to hold here
    bool first = false;            // nothing was read yet
    friend auto operator<=>(const Context& a, const Context& b) {
      if (const auto order = a.first <=> b.first; order != 0) return order;
      return a.behinds <=> b.behinds;
    }
    friend bool operator==(const Context& a, const Context& b) { return a.first == b.first && a.behinds == b.behinds; }
  };
  struct State {
    Threads threads;
    int context;
    std::vector<Expr> parts;
  };

  LookaroundMachine(Expressions& all, std::unique_ptr<Program> program, Expr any_text)
      : x_(all), program_(std::move(program)), any_text_(any_text) {}

  // ---------------------------------------------------------------- threads
  void step(const Place& place, Expr owed, int byte, const Context& context, int number, Threads& out) {
    const Expr rest = x_.derivative(place.rest, byte);
    if (rest == Expressions::kNever) return;
    const Expr still = x_.derivative(owed, byte);
    if (still == Expressions::kNever) return;
    if (rest != Expressions::kEmpty) add(out, {rest, place.next}, still);
    if (x_.nullable(rest)) close(place.next, still, context, number, out);
  }

  // Adds the places where a thread before step `pc` can read next. `number`: that of the context, if it has one
  // already.
  void close(int pc, Expr owed, const Context& context, int number, Threads& out) {
    std::map<int, Expr> seen;  // each with the union of its obligations
    std::vector<std::pair<int, Expr>> open = {{pc, owed}};
    while (!open.empty()) {
      x_.budget().check();
      const auto [at, due] = open.back();
      open.pop_back();
      const auto [known, fresh] = seen.try_emplace(at, due);
      if (!fresh) {
        const Expr both = x_.either(known->second, due);
        if (both == known->second) continue;
        known->second = both;
      }
      const Program::Step& s = program_->step(at);
      switch (s.kind) {
        case Program::Step::Kind::match:
          add(out, {Expressions::kEmpty, Program::kMatch}, due);
          break;
        case Program::Step::Kind::piece:
          add(out, {s.piece, s.next.front()}, due);
          if (x_.nullable(s.piece)) open.push_back({s.next.front(), due});
          break;
        case Program::Step::Kind::fork:
          for (const int next : s.next) open.push_back({next, due});
          break;
        case Program::Step::Kind::start:
          if (context.first) open.push_back({s.next.front(), due});
          break;
        case Program::Step::Kind::end:
          promise(s, Expressions::kEmpty, due, open);
          break;
        case Program::Step::Kind::ahead:
          promise(s, seen_ahead(s.look, context, number), due, open);
          break;
        case Program::Step::Kind::behind:
          promise(s, context.holds[static_cast<std::size_t>(s.look)], due, open);
          break;
      }
    }
  }
  void promise(const Program::Step& s, Expr what, Expr due, std::vector<std::pair<int, Expr>>& open) {
    const Expr all = x_.live_part(x_.both(due, s.negated ? x_.complement(what) : what));
    if (all != Expressions::kNever) open.push_back({s.next.front(), all});
  }
  // Two threads at one place become one, whose obligation is the union.
  void add(Threads& out, Place place, Expr owed) {
    const auto [found, fresh] = out.try_emplace(place, owed);
    if (!fresh) found->second = x_.either(found->second, owed);
    if (out.size() > kMostThreads) refuse_complex("lookarounds in a loop can be read in too many ways at once");
  }

  // The texts to come for which a lookahead holds.
  Expr seen_ahead(int entry, const Context& context, int number) {
    const Budget::Nesting nesting(x_.budget());
    const auto& rest = program_->rest(entry, context.first);
    if (rest && !(context.first && program_->has_start(entry))) return *rest;
    Threads threads;
    close(entry, Expressions::kAnything, context, number, threads);
    return as_expression(std::move(threads), number);
  }

  // ---------------------------------------------------------------- contexts
  const Context& context_of(int context) const {
    static const Context none;
    return context == kNoContext ? none : contexts_[static_cast<std::size_t>(context)];
  }
  int first_context() {
    Context made;
    made.first = true;
    for (const int entry : program_->behinds()) {
      Threads threads;
      close(entry, Expressions::kAnything, made, kNoContext, threads);
      behind(made, std::move(threads));
    }
    return number_of(std::move(made));
  }
  int next_context(int from, int byte) {
    Context made;
    for (std::size_t i = 0; i < program_->behinds().size(); ++i) {
      Threads threads;
      const Threads& before = contexts_[static_cast<std::size_t>(from)].behinds[i];
      for (const auto& [place, owed] : before) step(place, owed, byte, made, kNoContext, threads);
      behind(made, std::move(threads));
    }
    return number_of(std::move(made));
  }
  void behind(Context& context, Threads threads) const {
    const auto ended = threads.find({Expressions::kEmpty, Program::kMatch});
    context.holds.push_back(ended == threads.end() ? Expressions::kNever : ended->second);
    context.behinds.push_back(std::move(threads));
  }
  int number_of(Context context) {
    const auto found = context_numbers_.find(context);
    if (found != context_numbers_.end()) return found->second;
    std::size_t threads = 0;
    for (const Threads& each : context.behinds) threads += each.size();
    x_.budget().spend(2 * (sizeof(Context) + threads * kThreadBytes) + 64);
    const int number = static_cast<int>(contexts_.size());
    contexts_.push_back(context);
    context_numbers_.emplace(std::move(context), number);
    return number;
  }

  // ---------------------------------------------------------------- states
  // Joins threads whose rest is an expression. The other threads become a state.
  Expr as_expression(Threads threads, int context) {
    const bool first = context_of(context).first;
    std::vector<Expr> ways;
    bool looks_behind = first;
    for (auto thread = threads.begin(); thread != threads.end();) {
      const auto& [place, owed] = *thread;
      const auto& rest = program_->rest(place.next, first);
      if (!rest) {
        looks_behind = looks_behind || program_->looks_behind(place.next);
        ++thread;
        continue;
      }
      ways.push_back(x_.both(owed, x_.concat(place.rest, *rest)));
      thread = threads.erase(thread);
    }
    if (std::find(ways.begin(), ways.end(), any_text_) != ways.end()) return any_text_;  // it matches any text
    if (!threads.empty()) ways.push_back(state_of(std::move(threads), looks_behind ? context : kNoContext));
    return x_.either(std::move(ways));
  }
  Expr state_of(Threads threads, int context) {
    std::pair<Threads, int> key(std::move(threads), context);
    const auto found = state_numbers_.find(key);
    const bool fresh = found == state_numbers_.end();
    const int number = fresh ? static_cast<int>(states_.size()) : found->second;
    if (fresh) {
      State made{key.first, context, {}};
      const auto add_parts = [&](const Threads& of) {
        for (const auto& [place, owed] : of) made.parts.push_back(place.rest), made.parts.push_back(owed);
      };
      add_parts(made.threads);
      for (const Threads& each : context_of(context).behinds) add_parts(each);
      std::sort(made.parts.begin(), made.parts.end());
      made.parts.erase(std::unique(made.parts.begin(), made.parts.end()), made.parts.end());
      x_.budget().spend(sizeof(State) + 128 + 2 * made.threads.size() * kThreadBytes +
                        made.parts.size() * sizeof(Expr));
      states_.push_back(std::move(made));
      state_numbers_.emplace(std::move(key), number);
    }
    // Never nullable: a thread that may end here has an expression as its rest.
    return x_.machine_state(number_, number, false);
  }

  static constexpr std::size_t kThreadBytes = sizeof(Threads::value_type) + 40;

  Expressions& x_;
  const std::unique_ptr<const Program> program_;
  const Expr any_text_;
  int number_ = 0;
  std::deque<Context> contexts_;  // references stay valid
  std::map<Context, int> context_numbers_;
  std::deque<State> states_;
  std::map<std::pair<Threads, int>, int> state_numbers_;
};

}  // namespace tenon::constrain
