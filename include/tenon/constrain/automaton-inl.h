#pragma once
#include <algorithm>
#include <array>
#include <chrono>
#include <span>

#include "tenon/constrain/automaton.h"
#include "tenon/core/require.h"

namespace tenon::constrain {

TENON_INLINE Automaton::Automaton(std::unique_ptr<Grammar> grammar)
    : grammar_(std::move(grammar)), x_(grammar_->expressions) {
  frames_.push_back({Expressions::kEmpty, 0, 0});
  trim();
  any_character_ = any_character(x_, Spelling::json);
  std::vector<Configuration> first;
  close(grammar_->start, 0, first);
  start_ = state_of(std::move(first));
  if (start_ == kDead) refuse_dead();
  for (int byte = 0; byte < 256; ++byte)
    step(start_, static_cast<std::uint8_t>(byte));  // refuses a grammar that is too complex early
  explore();
  grammar_->budget.compiled();
}

TENON_INLINE Automaton::State Automaton::step(State from, std::uint8_t byte) {
  const std::size_t at = static_cast<std::size_t>(from);
  if (states_[at].edges.empty()) find_classes(from);
  const std::size_t edge = states_[at].class_of[byte];
  const State known = states_[at].edges[edge];
  if (known != kUnknown) return known;
  std::vector<Configuration> next;
  for (std::size_t i = 0; i < states_[at].configurations.size(); ++i) {  // step() may reallocate states_
    const Configuration c = states_[at].configurations[i];
    close(x_.derivative(c.next, byte), c.stack, next);
  }
  const State to = state_of(std::move(next));
  states_[at].edges[edge] = to;
  return to;
}

TENON_INLINE std::optional<Automaton::Forced> Automaton::forced(State state) {
  constexpr std::size_t kMostClasses = 3;  // the byte, a blank, and all that may not come
  if (accepts(state)) return std::nullopt;
  const std::size_t at = static_cast<std::size_t>(state);
  if (states_[at].edges.empty()) find_classes(state);
  const std::size_t classes = states_[at].edges.size();
  if (classes > kMostClasses) return std::nullopt;
  std::array<int, kMostClasses> sizes{}, members{};
  for (int byte = 0; byte < 256; ++byte) {
    const std::size_t of = states_[at].class_of[static_cast<std::size_t>(byte)];
    ++sizes[of];
    members[of] = byte;
  }
  std::optional<std::uint8_t> other;
  bool blank = false;
  for (std::size_t i = 0; i < classes; ++i) {
    const auto byte = static_cast<std::uint8_t>(members[i]);
    if (step(state, byte) == kDead) continue;
    if (sizes[i] != 1 || (byte != ' ' && other)) return std::nullopt;
    if (byte == ' ')
      blank = true;
    else
      other = byte;
  }
  return Forced{other.value_or(' '), blank && other.has_value()};
}

TENON_INLINE int Automaton::distance(State state) {
  int& known = states_[static_cast<std::size_t>(state)].distance;
  if (known >= 0) return known;
  if (!fewest_) fewest_.emplace(x_, grammar_->rules, grammar_->start, grammar_->budget.limits().depth);
  int best = FewestBytes::kEndless;
  for (const Configuration& c : states_[static_cast<std::size_t>(state)].configurations) {
    best = std::min(best, FewestBytes::sum(fewest_of(c.next, c.stack), distance_below(c.stack)));
  }
  return known = best;
}

TENON_INLINE void Automaton::prepare_distances() {
  Budget& budget = grammar_->budget;
  budget.begin_preparing();
  if (distance(start_) == FewestBytes::kEndless)
    refuse_complex("the length of its shortest text could not be determined");
  if (budget.bytes() > budget.limits().bytes / 2) {
    refuse_complex("to end within a token limit it needs more than " + std::to_string(budget.limits().bytes >> 21) +
                   " MiB");
  }
  budget.compiled();
}

TENON_INLINE std::optional<Automaton::Run> Automaton::run(State state) const {
  const auto& all = states_[static_cast<std::size_t>(state)].configurations;
  const auto run = all.size() == 1 ? x_.leading_repeat(all.front().next) : std::nullopt;
  if (!run || run->each != any_character_) return std::nullopt;
  return Run{run->least, run->most};
}

TENON_INLINE Automaton::Loop Automaton::loop(State state, std::uint8_t byte) {
  Loop best;
  for (const Configuration& c : states_[static_cast<std::size_t>(state)].configurations) {
    x_.for_leading_repeats(c.next, [&](const Expressions::Repeat& repeat) {
      if (is_too_deep(repeat.rest, c.stack)) return;
      const ByteSet& characters = repeated(repeat.each);
      if (characters.count() > best.characters.count()) best = {characters, repeat.most};
    });
  }
  if (best.most == kUnbounded) return best;
  const ByteSet* const back = staying(state, byte);
  return back ? Loop{*back, kUnbounded} : best;
}

TENON_INLINE const ByteSet* Automaton::staying(State state, std::uint8_t byte) {
  return step(state, byte) == state ? &loop_characters(state) : nullptr;
}

TENON_INLINE bool Automaton::run_ends_in_quote(State state) {
  const auto run = x_.leading_repeat(states_[static_cast<std::size_t>(state)].configurations.front().next);
  if (const auto known = begins_with_quote_.find(run->rest); known != begins_with_quote_.end()) return known->second;
  bool quote = !x_.has_calls(run->rest) && !x_.nullable(run->rest);
  for (const ByteSet& bytes : x_.byte_classes(run->rest)) {
    quote = quote && (bytes == ByteSet::of('"') || x_.derivative(run->rest, bytes.first()) == Expressions::kNever);
  }
  begins_with_quote_.emplace(run->rest, quote);
  return quote;
}

TENON_INLINE Automaton::State Automaton::with_run(State state, Run bounds) {
  const Configuration c = states_[static_cast<std::size_t>(state)].configurations.front();
  const auto run = x_.leading_repeat(c.next);
  std::vector<Configuration> next;
  close(x_.concat(x_.repeat(run->each, bounds.least, bounds.most), run->rest), c.stack, next);
  return state_of(std::move(next));
}

TENON_INLINE void Automaton::refuse_dead() {
  if (x_.height(grammar_->start, heights_, known_heights_) == Expressions::kEndless) {
    refuse_invalid("#", "unsatisfiable: no text matches");
  }
  refuse_complex("rules call one another more than " + std::to_string(grammar_->budget.limits().depth) +
                 " deep in every text");
}

TENON_INLINE void Automaton::explore() {
  constexpr std::size_t kStates = 256;  // and at most 20 ms
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  for (State s = 0; static_cast<std::size_t>(s) < states_.size() && states_.size() < kStates; ++s) {
    if (std::chrono::steady_clock::now() > end) return;
    for (int byte = ' '; byte < 0x7f; ++byte) {
      if (byte != '\\') step(s, static_cast<std::uint8_t>(byte));
    }
  }
}

TENON_INLINE void Automaton::trim() {
  heights_.assign(grammar_->rules.size(), Expressions::kEndless);
  for (bool changed = true; changed;) {
    changed = false;
    Expressions::Heights known;
    for (std::size_t r = heights_.size(); r-- > 0;) {  // most rules call rules that come later
      grammar_->budget.check();
      const int height = x_.height(grammar_->rules[r], heights_, known);
      if (height >= heights_[r]) continue;
      heights_[r] = height;
      changed = true;
    }
  }
  std::vector<bool> dead;
  for (const int height : heights_) dead.push_back(height == Expressions::kEndless);
  Expressions::Rebuilt known;
  for (Expr& body : grammar_->rules) body = x_.live_part(x_.without(body, dead, known));
  grammar_->start = x_.live_part(x_.without(grammar_->start, dead, known));
}

TENON_INLINE void Automaton::close(Expr next, int stack, std::vector<Configuration>& out) {
  std::vector<Configuration> open;
  const auto reach = [&](Expr e, int s) {
    while (e == Expressions::kEmpty && s != 0) e = frame(s).rest, s = frame(s).below;
    open.push_back({e, s});
  };
  reach(next, stack);
  while (!open.empty()) {
    const Configuration c = open.back();
    open.pop_back();
    if (c.next == Expressions::kNever || is_too_deep(c.next, c.stack)) continue;
    if (std::find(out.begin(), out.end(), c) != out.end()) continue;
    out.push_back(c);
    if (out.size() > kMostConfigurations) refuse_complex("a text can be read in too many ways at once");
    if (c.stack != 0 && x_.nullable(c.next)) reach(frame(c.stack).rest, frame(c.stack).below);
    if (!x_.has_calls(c.next)) continue;
    std::vector<Expressions::Call> calls;
    x_.first_calls(c.next, calls);
    for (const Expressions::Call& call : calls) {
      if (is_too_deep(call.rest, c.stack)) continue;  // other calls may fit
      reach(grammar_->rules[static_cast<std::size_t>(call.rule)],
            call.rest == Expressions::kEmpty ? c.stack : push(call.rest, c.stack));
    }
  }
}

TENON_INLINE const ByteSet& Automaton::repeated(Expr each) {
  const auto [found, fresh] = repeated_.try_emplace(each);
  if (fresh) grammar_->budget.spend(sizeof(*found) + 32);
  const auto derive = [&](Expr e, int byte) { return x_.derivative(e, byte); };
  const auto is_end = [&](Expr e) { return x_.nullable(e); };
  if (fresh) found->second = CharactersBetween(each, Expressions::kNever, derive, is_end).find();
  return found->second;
}

TENON_INLINE const ByteSet& Automaton::loop_characters(State state) {
  const auto [found, fresh] = loops_.try_emplace(state);
  if (fresh) grammar_->budget.spend(sizeof(*found) + 32);
  const auto next = [&](State from, int byte) { return step(from, static_cast<std::uint8_t>(byte)); };
  const auto is_end = [&](State to) { return to == state; };
  if (fresh) found->second = CharactersBetween(state, kDead, next, is_end).find();
  return found->second;
}

TENON_INLINE bool Automaton::is_too_deep(Expr next, int stack) {
  return frame(stack).depth + x_.height(next, heights_, known_heights_) > grammar_->budget.limits().depth;
}

TENON_INLINE int Automaton::fewest_of(Expr next, int stack) {
  return fewest_->of(next, grammar_->budget.limits().depth - frame(stack).depth);
}

TENON_INLINE int Automaton::distance_below(int stack) {
  if (stack == 0) return 0;
  Frame& f = frames_[static_cast<std::size_t>(stack)];
  if (f.distance < 0) f.distance = FewestBytes::sum(fewest_of(f.rest, f.below), distance_below(f.below));
  return f.distance;
}

TENON_INLINE int Automaton::push(Expr rest, int below) {
  const auto [found, fresh] = stacks_.try_emplace({rest, below}, static_cast<int>(frames_.size()));
  if (fresh) {
    frames_.push_back({rest, below, frame(below).depth + 1});
    grammar_->budget.spend(sizeof(Frame) + 64);
  }
  return found->second;
}

TENON_INLINE Automaton::State Automaton::state_of(std::vector<Configuration> configurations) {
  if (configurations.empty()) return kDead;
  std::sort(configurations.begin(), configurations.end());
  const auto [found, fresh] = numbers_.try_emplace(std::move(configurations), static_cast<State>(states_.size()));
  if (!fresh) return found->second;
  StateData& made = states_.emplace_back();
  made.configurations = found->first;
  for (const Configuration& c : made.configurations) made.accepts |= c.stack == 0 && x_.nullable(c.next);
  grammar_->budget.spend(sizeof(StateData) + 2 * made.configurations.size() * sizeof(Configuration) + 96);
  return found->second;
}

TENON_INLINE void Automaton::find_classes(State state) {
  std::vector<ByteSet> classes = {ByteSet::all()};
  for (const Configuration& c : states_[static_cast<std::size_t>(state)].configurations) {
    for (const ByteSet& set : x_.byte_classes(c.next)) refine(classes, set);
  }
  StateData& data = states_[static_cast<std::size_t>(state)];
  for (std::size_t i = 0; i < classes.size(); ++i) {
    classes[i].for_each(
        [&](int byte) { data.class_of[static_cast<std::size_t>(byte)] = static_cast<std::uint8_t>(i); });
  }
  data.edges.assign(classes.size(), kUnknown);
  grammar_->budget.spend(classes.size() * sizeof(State));
}

}  // namespace tenon::constrain
