#pragma once
#include <algorithm>
#include <utility>

#include "tenon/constrain/expression.h"
#include "tenon/core/require.h"

namespace tenon::constrain {

TENON_INLINE void Expressions::first_calls(Expr e, std::vector<Call>& out) {
  if (!at(e).calls) return;
  const Budget::Nesting nesting(budget_);
  const Node node = at(e);
  switch (node.op) {
    case Op::call:
      out.push_back({node.a, kEmpty});
      break;
    case Op::concat:
      for_first_parts(e, [&](Expr head, Expr rest) {
        std::vector<Call> heads;
        first_calls(head, heads);
        for (const Call& call : heads) out.push_back({call.rule, concat(call.rest, rest)});
      });
      break;
    case Op::either:
      for (int i = 0; i < node.count; ++i) first_calls(member(node, i), out);
      break;
    case Op::repeat: {
      std::vector<Call> heads;
      first_calls(node.a, heads);
      const Expr rest = rest_of_repeat(node);
      for (const Call& head : heads) out.push_back({head.rule, concat(head.rest, rest)});
      break;
    }
    default:
      break;
  }
}

TENON_INLINE std::vector<ByteSet> Expressions::byte_classes(Expr e) const {
  std::vector<int> sets;
  std::unordered_set<Expr> seen;
  first_sets(e, seen, sets);
  std::sort(sets.begin(), sets.end());
  sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
  std::vector<ByteSet> classes = {ByteSet::all()};
  for (const int s : sets) refine(classes, sets_[static_cast<std::size_t>(s)]);
  return classes;
}

TENON_INLINE Expr Expressions::live_part(Expr e) {
  if (!at(e).boolean) return e;
  if (const auto found = live_parts_.find(e); found != live_parts_.end()) return found->second;
  const Budget::Nesting nesting(budget_);
  const Node node = at(e);
  Expr live = e;
  switch (node.op) {
    case Op::both:
    case Op::complement:
    case Op::machine:
      live = is_live(e) ? e : kNever;
      break;
    case Op::concat: {
      std::vector<Expr> chain = chain_of(e, [&](Expr rest) { return !live_parts_.contains(rest); });
      live = live_part(at(chain.back()).b);
      for (; !chain.empty(); chain.pop_back()) {
        live = concat(live_part(at(chain.back()).a), live);
        keep_live_part(chain.back(), live);
      }
      return live;
    }
    case Op::either: {
      std::vector<Expr> members;
      for (int i = 0; i < node.count; ++i) members.push_back(live_part(member(node, i)));
      live = either(std::move(members));
      break;
    }
    case Op::repeat:
      live = repeat(live_part(node.a), node.least, node.most);
      break;
    default:
      break;
  }
  keep_live_part(e, live);
  return live;
}

TENON_INLINE std::optional<Expressions::Repeat> Expressions::leading_repeat(Expr e) const {
  const bool chain = at(e).op == Op::concat;
  const Node& head = chain ? at(at(e).a) : at(e);
  if (head.op != Op::repeat) return std::nullopt;
  return Repeat{head.a, head.least, head.most, chain ? at(e).b : kEmpty};
}

TENON_INLINE int Expressions::height(Expr e, std::span<const int> rules, Heights& known) const {
  if (!at(e).calls) return e == kNever ? kEndless : 0;
  if (const auto found = known.find(e); found != known.end()) return found->second;
  const Budget::Nesting nesting(budget_);
  budget_.check();
  const Node& node = at(e);
  int height = 0;
  switch (node.op) {
    case Op::call:
      height = std::min(rules[static_cast<std::size_t>(node.a)] + 1, kEndless);
      break;
    case Op::repeat:
      height = node.least == 0 ? 0 : this->height(node.a, rules, known);
      break;
    case Op::either:
      height = kEndless;
      for (int i = 0; i < node.count; ++i) height = std::min(height, this->height(member(node, i), rules, known));
      break;
    case Op::concat: {
      std::vector<Expr> chain = chain_of(e, [&](Expr rest) { return at(rest).calls && !known.contains(rest); });
      height = this->height(at(chain.back()).b, rules, known);
      for (; !chain.empty(); chain.pop_back()) {
        height = std::max(height, this->height(at(chain.back()).a, rules, known));
        known.emplace(chain.back(), height);
      }
      break;
    }
    default:
      break;
  }
  known.emplace(e, height);
  return height;
}

TENON_INLINE Expr Expressions::without(Expr e, const std::vector<bool>& dead, Rebuilt& known) {
  if (!at(e).calls) return e;
  if (const auto found = known.find(e); found != known.end()) return found->second;
  const Budget::Nesting nesting(budget_);
  const Node node = at(e);
  Expr rebuilt = e;
  switch (node.op) {
    case Op::call:
      rebuilt = dead[static_cast<std::size_t>(node.a)] ? kNever : e;
      break;
    case Op::repeat:
      rebuilt = repeat(without(node.a, dead, known), node.least, node.most);
      break;
    case Op::either: {
      std::vector<Expr> members;
      for (int i = 0; i < node.count; ++i) members.push_back(without(member(node, i), dead, known));
      rebuilt = either(std::move(members));
      break;
    }
    case Op::concat: {
      std::vector<Expr> chain = chain_of(e, [&](Expr rest) { return at(rest).calls && !known.contains(rest); });
      rebuilt = without(at(chain.back()).b, dead, known);
      for (; !chain.empty(); chain.pop_back()) {
        budget_.check();
        rebuilt = concat(without(at(chain.back()).a, dead, known), rebuilt);
        known.emplace(chain.back(), rebuilt);
      }
      return rebuilt;
    }
    default:
      break;
  }
  known.emplace(e, rebuilt);
  return rebuilt;
}

TENON_INLINE Expr Expressions::rest_of_repeat(const Node& node) {
  return repeat(node.a, std::max(node.least - 1, 0), node.most == kUnbounded ? kUnbounded : node.most - 1);
}

TENON_INLINE void Expressions::keep_live_part(Expr e, Expr live) {
  if (live_parts_.emplace(e, live).second) budget_.spend(kEntryBytes);
}

TENON_INLINE void Expressions::keep_live(Expr e, bool live) {
  if (live_.insert_or_assign(e, live).second) budget_.spend(kEntryBytes);
}

TENON_INLINE Expr Expressions::derive(Expr e, int byte) {
  const Node node = at(e);
  switch (node.op) {
    case Op::never:
    case Op::empty:
    case Op::call:
      return kNever;
    case Op::bytes:
      return set_of(e).has(byte) ? kEmpty : kNever;
    default:
      break;
  }
  const std::uint64_t asked = static_cast<std::uint64_t>(e) << 8 | static_cast<std::uint64_t>(byte);
  if (const auto found = derivatives_.find(asked); found != derivatives_.end()) return found->second;
  const Budget::Nesting nesting(budget_);
  budget_.check();
  Expr result = kNever;
  switch (node.op) {
    case Op::concat: {
      std::vector<Expr> parts;
      for_first_parts(e, [&](Expr first, Expr rest) {
        const Expr head = derive(first, byte);
        if (head != kNever) parts.push_back(concat(head, rest));
      });
      result = either(std::move(parts));
      break;
    }
    case Op::either:
    case Op::both: {
      std::vector<Expr> parts;
      for (int i = 0; i < node.count; ++i) parts.push_back(derive(member(node, i), byte));
      result = node.op == Op::either ? either(std::move(parts)) : both(std::move(parts));
      break;
    }
    case Op::complement:
      result = complement(derive(node.a, byte));
      break;
    case Op::repeat: {
      const Expr head = derive(node.a, byte);
      result = head == kNever ? kNever : concat(head, rest_of_repeat(node));
      break;
    }
    case Op::machine:
      result = machines_[static_cast<std::size_t>(node.a)]->derivative(node.b, byte);
      break;
    default:
      break;
  }
  if (derivatives_.size() > kMostDerivatives) {
    spent_on_derivatives_.take(derivatives_.size() * kEntryBytes);
    derivatives_.clear();
  }
  spent_on_derivatives_.add(kEntryBytes);
  derivatives_.emplace(asked, result);
  return result;
}

TENON_INLINE void Expressions::first_sets(Expr e, std::unordered_set<Expr>& seen, std::vector<int>& out) const {
  const Node& node = at(e);
  if (node.op == Op::bytes) return out.push_back(node.a);
  if (!seen.insert(e).second) return;
  const Budget::Nesting nesting(budget_);
  switch (node.op) {
    case Op::complement:
    case Op::repeat:
      first_sets(node.a, seen, out);
      break;
    case Op::concat:
      for_first_parts(e, [&](Expr head, Expr) { first_sets(head, seen, out); });
      break;
    case Op::either:
    case Op::both:
      for (int i = 0; i < node.count; ++i) first_sets(member(node, i), seen, out);
      break;
    case Op::machine:
      for (const Expr part : machines_[static_cast<std::size_t>(node.a)]->parts(node.b)) first_sets(part, seen, out);
      break;
    default:
      break;
  }
}

TENON_INLINE bool Expressions::is_live(Expr start) {
  if (const auto known = live_.find(start); known != live_.end()) return known->second;
  std::vector<std::pair<Expr, Expr>> seen = {{start, start}};  // each with the expression it was found from
  std::unordered_map<Expr, std::size_t> places = {{start, 0}};
  std::vector<std::size_t> newest;  // found by depth-first steps
  std::vector<bool> done = {false};
  Spent spent(budget_);  // on these four
  const auto conclude = [&](Expr e) {
    for (;;) {
      keep_live(e, true);
      if (e == start) return true;
      e = seen[places.at(e)].second;
    }
  };
  std::size_t oldest = 0;
  for (bool deep = true;; deep = !deep) {
    while (oldest < done.size() && done[oldest]) ++oldest;
    while (!newest.empty() && done[newest.back()]) newest.pop_back();
    if (oldest == done.size()) break;
    const std::size_t place = deep && !newest.empty() ? newest.back() : oldest;
    done[place] = true;
    const Expr e = seen[place].first;
    if (at(e).nullable) return conclude(e);
    for (const ByteSet& bytes : byte_classes(e)) {
      const Expr next = derive(e, bytes.first());
      if (next == kNever) continue;
      const auto known = live_.find(next);
      if (known != live_.end() && !known->second) continue;
      const auto [found, fresh] = places.try_emplace(next, seen.size());
      if (deep && (fresh || !done[found->second])) {
        newest.push_back(found->second);
        spent.add(sizeof(newest.front()));
      }
      if (fresh) {
        done.push_back(false);
        seen.push_back({next, e});
        spent.add(kEntryBytes + sizeof(seen.front()) + 1);
      }
      if (known != live_.end() || at(next).nullable) return conclude(next);
    }
    budget_.check();
  }
  for (const auto& [e, from] : seen) keep_live(e, false);
  return false;
}

}  // namespace tenon::constrain
