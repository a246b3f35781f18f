#pragma once
#include <functional>

#include "tenon/constrain/fewest_bytes.h"
#include "tenon/core/require.h"

namespace tenon::constrain {

TENON_INLINE FewestBytes::FewestBytes(Expressions& expressions, std::span<const Expr> rules, Expr start, int depth)
    : x_(expressions), spent_(expressions.budget()) {
  std::vector<Expr> intersections;
  std::unordered_set<Expr> seen;
  for (const Expr rule : rules) collect_intersections(rule, seen, intersections);
  collect_intersections(start, seen, intersections);
  for (const Expr e : intersections) search(e);
  // rules_[d]: bytes of each rule with d more levels of calls. If one more level changes nothing, no further level
  // does.
  for (int d = 0; d <= depth; ++d) {
    std::vector<int> bytes;
    for (const Expr rule : rules) bytes.push_back(measure(rule, d));
    if (d > 0 && bytes == rules_.back()) break;
    spent_.add(bytes.size() * sizeof(int));
    rules_.push_back(std::move(bytes));
  }
}

TENON_INLINE int FewestBytes::measure(Expr e, int depth) {
  if (e == Expressions::kNever) return kEndless;
  if (x_.nullable(e)) return 0;
  if (!x_.has_calls(e)) return measure_without_calls(e);
  if (const int* found = known(e, depth)) return *found;
  const Budget::Nesting nesting(x_.budget());
  x_.budget().check();
  const Node node = x_.at(e);
  int bytes = kEndless;
  switch (node.op) {
    case Op::call:
      return depth == 0 ? kEndless : of_rule(node.a, depth - 1);
    case Op::concat:
      return measure_chain(e, depth);
    case Op::repeat:
      bytes = times(measure(node.a, depth), node.least);
      break;
    default:  // either; nothing else contains calls
      for (int i = 0; i < node.count; ++i) bytes = std::min(bytes, measure(x_.member(node, i), depth));
  }
  keep(e, depth, bytes);
  return bytes;
}

TENON_INLINE int FewestBytes::measure_chain(Expr e, int depth) {
  std::vector<Expr> chain = {e};  // up to the first known rest; may be long
  Expr rest = x_.at(e).b;
  for (; x_.at(rest).op == Op::concat && x_.has_calls(rest) && !known(rest, depth); rest = x_.at(rest).b)
    chain.push_back(rest);
  int bytes = measure(rest, depth);
  for (; !chain.empty(); chain.pop_back()) {
    bytes = sum(bytes, measure(x_.at(chain.back()).a, depth));
    keep(chain.back(), depth, bytes);
  }
  return bytes;
}

TENON_INLINE int FewestBytes::measure_without_calls(Expr e) {
  if (x_.nullable(e)) return 0;
  if (const int* found = known(e)) return *found;
  const Node node = x_.at(e);
  if (node.op == Op::bytes) return 1;
  if (is_intersection(e)) return path_length(e);
  const Budget::Nesting nesting(x_.budget());
  x_.budget().check();
  int bytes = kEndless;
  switch (node.op) {
    case Op::concat: {
      std::vector<Expr> chain = {e};
      Expr rest = node.b;
      for (; x_.at(rest).op == Op::concat && !known(rest); rest = x_.at(rest).b) chain.push_back(rest);
      for (bytes = measure_without_calls(rest); !chain.empty(); chain.pop_back()) {
        bytes = sum(bytes, measure_without_calls(x_.at(chain.back()).a));
        keep(chain.back(), bytes);
      }
      return bytes;
    }
    case Op::repeat:
      bytes = times(measure_without_calls(node.a), node.least);
      break;
    case Op::either:
      for (int i = 0; i < node.count; ++i) bytes = std::min(bytes, measure_without_calls(x_.member(node, i)));
      break;
    default:
      break;
  }
  keep(e, bytes);
  return bytes;
}

TENON_INLINE int FewestBytes::of_rule(int rule, int depth) const {
  return rules_[std::min(static_cast<std::size_t>(depth), rules_.size() - 1)][static_cast<std::size_t>(rule)];
}

TENON_INLINE int FewestBytes::times(int bytes, int count) {
  return static_cast<int>(std::min<long long>(static_cast<long long>(bytes) * count, kEndless));
}

TENON_INLINE const int* FewestBytes::known(Expr e) const {
  for (const auto* all : {&exact_, &plain_}) {
    if (const auto found = all->find(e); found != all->end()) return &found->second;
  }
  return nullptr;
}

TENON_INLINE const int* FewestBytes::known(Expr e, int depth) const {
  const auto found = by_levels_.find(e);
  if (found == by_levels_.end()) return nullptr;
  for (const Levels& levels : found->second) {
    if (levels.first <= depth && depth <= levels.last) return &levels.bytes;
  }
  return nullptr;
}

TENON_INLINE void FewestBytes::keep(Expr e, int depth, int bytes) {
  const auto [found, fresh] = by_levels_.try_emplace(e);
  if (fresh) spent_.add(sizeof(*found) + 32);
  for (Levels& levels : found->second) {
    if (levels.bytes != bytes) continue;
    levels.first = std::min(levels.first, depth), levels.last = std::max(levels.last, depth);
    return;
  }
  spent_.add(sizeof(Levels) + 24);
  found->second.push_back({depth, depth, bytes});
}

TENON_INLINE void FewestBytes::keep(std::unordered_map<Expr, int>& all, Expr e, int bytes) {
  if (all.emplace(e, bytes).second) spent_.add(kKept);
}

TENON_INLINE bool FewestBytes::is_intersection(Expr e) const {
  const Op op = x_.at(e).op;
  return op == Op::both || op == Op::complement || op == Op::machine;
}

TENON_INLINE void FewestBytes::collect_intersections(Expr e, std::unordered_set<Expr>& seen, std::vector<Expr>& out) {
  for (; x_.at(e).boolean && seen.insert(e).second; e = x_.at(e).b) {
    if (is_intersection(e)) return out.push_back(e);
    const Budget::Nesting nesting(x_.budget());
    x_.budget().check();
    const Node node = x_.at(e);
    for (int i = 0; i < node.count; ++i) collect_intersections(x_.member(node, i), seen, out);
    if (node.op == Op::repeat || node.op == Op::concat) collect_intersections(node.a, seen, out);
    if (node.op != Op::concat) return;
  }
}

TENON_INLINE int FewestBytes::Derivatives::number(Expr e) {
  const auto [found, fresh] = numbers.try_emplace(e, static_cast<int>(all.size()));
  if (fresh) all.push_back(e);
  return found->second;
}

TENON_INLINE void FewestBytes::search(Expr e) {
  std::vector<Expr> open = {e}, found;
  std::unordered_set<Expr> seen;
  for (std::size_t i = 0; i < open.size(); ++i) {
    if (exact_.contains(open[i])) continue;
    if (derive_all(open[i], seen, open, found)) continue;
    for (const Expr each : found) exact_.erase(each), spent_.take(kKept);
    return;
  }
}

TENON_INLINE bool FewestBytes::derive_all(Expr start, std::unordered_set<Expr>& seen, std::vector<Expr>& parts,
                                          std::vector<Expr>& kept) {
  Derivatives found;
  Spent meanwhile(x_.budget());
  found.number(start);
  for (std::size_t i = 0; i < found.all.size(); ++i) {
    const Expr e = found.all[i];
    if (!x_.at(e).boolean || exact_.contains(e)) continue;
    if (++searched_ > kMostDerivatives) return false;
    if (!is_intersection(e)) collect_intersections(e, seen, parts);
    for (const ByteSet& set : x_.byte_classes(e)) {
      const Expr next = x_.derivative(e, set.first());
      if (next != Expressions::kNever) found.leads.push_back({found.number(next), static_cast<int>(i)});
    }
    meanwhile.add(128);
    x_.budget().check();
  }
  measure_backwards(found, kept);
  return true;
}

TENON_INLINE void FewestBytes::measure_backwards(Derivatives& found, std::vector<Expr>& kept) {
  std::sort(found.leads.begin(), found.leads.end());
  std::vector<int> bytes(found.all.size(), kEndless);
  using Open = std::pair<int, int>;  // bytes, number
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open;
  for (std::size_t i = 0; i < found.all.size(); ++i) {
    const Expr e = found.all[i];
    if (!x_.nullable(e) && x_.at(e).boolean && !exact_.contains(e)) continue;
    open.push({bytes[i] = measure_without_calls(e), static_cast<int>(i)});
  }
  while (!open.empty()) {
    const auto [least, at] = open.top();
    open.pop();
    if (least > bytes[static_cast<std::size_t>(at)]) continue;
    auto lead = std::lower_bound(found.leads.begin(), found.leads.end(), std::pair(at, 0));
    for (; lead != found.leads.end() && lead->first == at; ++lead) {
      int& so_far = bytes[static_cast<std::size_t>(lead->second)];
      if (so_far > least + 1) open.push({so_far = least + 1, lead->second});
    }
    x_.budget().check();
  }
  for (std::size_t i = 0; i < found.all.size(); ++i) {
    const Expr e = found.all[i];
    if (!x_.at(e).boolean || exact_.contains(e)) continue;
    keep(exact_, e, bytes[i]);
    kept.push_back(e);
  }
}

TENON_INLINE int FewestBytes::path_length(Expr start) {
  std::vector<Expr> way;
  std::unordered_set<Expr> seen;
  int bytes = kEndless;
  for (Expr e = start;; e = nearest_derivative(e)) {
    if (x_.nullable(e) || !is_intersection(e) || known(e)) {
      bytes = measure_without_calls(e);
      break;
    }
    if (!seen.insert(e).second) break;
    way.push_back(e);
    if (way.size() > kLongestWay) {  // later starts on this path may be near enough to the end
      keep(start, kEndless);
      return kEndless;
    }
    x_.budget().check();
  }
  for (; !way.empty(); way.pop_back()) keep(way.back(), bytes = sum(bytes, 1));
  return bytes;
}

TENON_INLINE Expr FewestBytes::nearest_derivative(Expr e) {
  std::vector<ByteSet> classes = x_.byte_classes(e);
  std::sort(classes.begin(), classes.end(), [](const ByteSet& a, const ByteSet& b) { return a.first() < b.first(); });
  Expr best = Expressions::kNever;
  int least = kEndless;
  for (const ByteSet& set : classes) {
    const Expr next = x_.derivative(e, set.first());
    if (next == Expressions::kNever) continue;
    const int bytes = least_bytes(next);
    if (best == Expressions::kNever || bytes < least) best = next, least = bytes;
  }
  return best;
}

TENON_INLINE int FewestBytes::least_bytes(Expr e) {
  if (x_.nullable(e)) return 0;
  if (!x_.at(e).boolean) return measure_without_calls(e);
  for (const auto* all : {&exact_, &bounds_}) {
    if (const auto found = all->find(e); found != all->end()) return found->second;
  }
  const Budget::Nesting nesting(x_.budget());
  const Node node = x_.at(e);
  int bytes = node.op == Op::either ? kEndless : 1;
  for (int i = 0; i < node.count; ++i) {
    const int of_member = least_bytes(x_.member(node, i));
    bytes = node.op == Op::either ? std::min(bytes, of_member) : std::max(bytes, of_member);
  }
  if (node.op == Op::concat) bytes = sum(least_bytes(node.a), least_bytes(node.b));
  if (node.op == Op::repeat) bytes = times(least_bytes(node.a), node.least);
  keep(bounds_, e, bytes);
  return bytes;
}

}  // namespace tenon::constrain
