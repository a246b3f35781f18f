// How short a text can be: what an answer needs to know that must end within so many tokens.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tenon/constrain/expression.h"

namespace tenon::constrain {

// Bytes of the shortest text that an expression matches, calls counted with the shortest text of their rule. It is a
// property of the texts alone, not of how the expression is written, so some derivative of it has one byte less.
//
// An intersection says how long its texts are only where all its derivatives are known. Those of the rules are looked
// at when this is made, as far as they are kMostDerivatives; of others it is the length of one way to the end, which
// may not be the shortest, but of which each byte, too, leads one nearer. What is asked later costs little, and depends
// on nothing that was asked before.
class FewestBytes {
 public:
  static constexpr int kEndless = Expressions::kEndless;   // no text, or none that is shorter
  static constexpr std::size_t kMostDerivatives = 16'384;  // 0.1 to 0.3 s of a core
  static constexpr std::size_t kLongestWay = 256;          // so that it costs 4 ms in a step of an engine

  // depth: of calls within one another, at most.
  FewestBytes(Expressions& expressions, std::span<const Expr> rules, Expr start, int depth)
      : x_(expressions), spent_(expressions.budget()) {
    std::vector<Expr> intersections;
    std::unordered_set<Expr> seen;
    for (const Expr rule : rules) look_into(rule, seen, intersections);
    look_into(start, seen, intersections);
    for (const Expr e : intersections) search(e);
    // rules_[d]: of each rule, with d more levels of calls below it. From where one more changes nothing, none does.
    for (int d = 0; d <= depth; ++d) {
      std::vector<int> bytes;
      for (const Expr rule : rules) bytes.push_back(measure(rule, d));
      if (d > 0 && bytes == rules_.back()) break;
      spent_.add(bytes.size() * sizeof(int));
      rules_.push_back(std::move(bytes));
    }
  }

  // With calls at most so deep within one another. Calls in last place count as the others do, though they take no
  // frame: then there is room for what was counted.
  int of(Expr e, int depth) { return measure(e, std::min(depth, static_cast<int>(rules_.size()))); }

  static int sum(int a, int b) { return a >= kEndless - b ? kEndless : a + b; }

 private:
  using Op = ExpressionArena::Op;
  using Node = ExpressionArena::Node;
  // Levels at which an expression has the same bytes: more levels never make it longer, so those between are like the
  // ends.
  struct Levels {
    int first, last, bytes;
  };

  int measure(Expr e, int depth) {
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
      default:  // either: nothing else holds calls
        for (int i = 0; i < node.count; ++i) bytes = std::min(bytes, measure(x_.member(node, i), depth));
    }
    keep(e, depth, bytes);
    return bytes;
  }
  int measure_chain(Expr e, int depth) {
    std::vector<Expr> chain = {e};  // up to what is known, which may be long
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

  int measure_without_calls(Expr e) {
    if (x_.nullable(e)) return 0;
    if (const int* found = known(e)) return *found;
    const Node node = x_.at(e);
    if (node.op == Op::bytes) return 1;
    if (is_intersection(e)) return walk(e);
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

  int of_rule(int rule, int depth) const {
    return rules_[std::min(static_cast<std::size_t>(depth), rules_.size() - 1)][static_cast<std::size_t>(rule)];
  }
  static int times(int bytes, int count) {
    return static_cast<int>(std::min<long long>(static_cast<long long>(bytes) * count, kEndless));
  }

  // Of what has no calls.
  const int* known(Expr e) const {
    for (const auto* all : {&exact_, &plain_}) {
      if (const auto found = all->find(e); found != all->end()) return &found->second;
    }
    return nullptr;
  }
  const int* known(Expr e, int depth) const {
    const auto found = by_levels_.find(e);
    if (found == by_levels_.end()) return nullptr;
    for (const Levels& levels : found->second) {
      if (levels.first <= depth && depth <= levels.last) return &levels.bytes;
    }
    return nullptr;
  }
  void keep(Expr e, int depth, int bytes) {
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
  void keep(Expr e, int bytes) { keep(plain_, e, bytes); }
  void keep(std::unordered_map<Expr, int>& all, Expr e, int bytes) {
    if (all.emplace(e, bytes).second) spent_.add(kKept);
  }

  // States of machines are searched as intersections are.
  bool is_intersection(Expr e) const {
    const Op op = x_.at(e).op;
    return op == Op::both || op == Op::complement || op == Op::machine;
  }

  // The intersections and complements in e, those behind what may be left out too.
  void look_into(Expr e, std::unordered_set<Expr>& seen, std::vector<Expr>& out) {
    for (; x_.at(e).boolean && seen.insert(e).second; e = x_.at(e).b) {
      if (is_intersection(e)) return out.push_back(e);
      const Budget::Nesting nesting(x_.budget());
      x_.budget().check();
      const Node node = x_.at(e);
      for (int i = 0; i < node.count; ++i) look_into(x_.member(node, i), seen, out);
      if (node.op == Op::repeat || node.op == Op::concat) look_into(node.a, seen, out);
      if (node.op != Op::concat) return;
    }
  }

  struct Derivatives {
    std::vector<Expr> all;
    std::unordered_map<Expr, int> numbers;
    std::vector<std::pair<int, int>> leads;  // to, from

    int number(Expr e) {
      const auto [found, fresh] = numbers.try_emplace(e, static_cast<int>(all.size()));
      if (fresh) all.push_back(e);
      return found->second;
    }
  };

  // All derivatives of e, and of parts of those, which what follows e may take from one another. All or none is kept:
  // else what is counted in one way would lead to what is counted in the other.
  void search(Expr e) {
    std::vector<Expr> open = {e}, found;
    std::unordered_set<Expr> seen;
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (exact_.contains(open[i])) continue;
      if (derive_all(open[i], seen, open, found)) continue;
      for (const Expr each : found) exact_.erase(each), spent_.take(kKept);
      return;
    }
  }

  bool derive_all(Expr start, std::unordered_set<Expr>& seen, std::vector<Expr>& parts, std::vector<Expr>& kept) {
    Derivatives found;
    Spent meanwhile(x_.budget());
    found.number(start);
    for (std::size_t i = 0; i < found.all.size(); ++i) {
      const Expr e = found.all[i];
      if (!x_.at(e).boolean || exact_.contains(e)) continue;
      if (++searched_ > kMostDerivatives) return false;
      if (!is_intersection(e)) look_into(e, seen, parts);
      for (const ByteSet& set : x_.byte_classes(e)) {
        const Expr next = x_.derivative(e, set.first());
        if (next != Expressions::kNever) found.leads.push_back({found.number(next), static_cast<int>(i)});
      }
      meanwhile.add(128);
      x_.budget().check();
    }
    count_back(found, kept);
    return true;
  }

  // From the ends of texts.
  void count_back(Derivatives& found, std::vector<Expr>& kept) {
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

  // Of an intersection that was not searched: the way on which it may be nearest each time. It ends, at the latest,
  // where a part of it is taken apart, which holds fewer intersections.
  int walk(Expr start) {
    std::vector<Expr> way;
    std::unordered_set<Expr> seen;
    int bytes = kEndless;
    for (Expr e = start;; e = nearest(e)) {
      if (x_.nullable(e) || !is_intersection(e) || known(e)) {
        bytes = measure_without_calls(e);
        break;
      }
      if (!seen.insert(e).second) break;
      way.push_back(e);
      if (way.size() > kLongestWay) {  // from others on it the end may be near enough
        keep(start, kEndless);
        return kEndless;
      }
      x_.budget().check();
    }
    for (; !way.empty(); way.pop_back()) keep(way.back(), bytes = sum(bytes, 1));
    return bytes;
  }
  Expr nearest(Expr e) {
    std::vector<ByteSet> classes = x_.byte_classes(e);
    std::sort(classes.begin(), classes.end(), [](const ByteSet& a, const ByteSet& b) { return a.first() < b.first(); });
    Expr best = Expressions::kNever;
    int least = kEndless;
    for (const ByteSet& set : classes) {
      const Expr next = x_.derivative(e, set.first());
      if (next == Expressions::kNever) continue;
      const int bytes = at_least(next);
      if (best == Expressions::kNever || bytes < least) best = next, least = bytes;
    }
    return best;
  }

  // Bytes of its texts at least; it asks for no ways, or it would say more when these are known.
  int at_least(Expr e) {
    if (x_.nullable(e)) return 0;
    if (!x_.at(e).boolean) return measure_without_calls(e);
    for (const auto* all : {&exact_, &bounds_}) {
      if (const auto found = all->find(e); found != all->end()) return found->second;
    }
    const Budget::Nesting nesting(x_.budget());
    const Node node = x_.at(e);
    int bytes = node.op == Op::either ? kEndless : 1;
    for (int i = 0; i < node.count; ++i) {
      const int of_member = at_least(x_.member(node, i));
      bytes = node.op == Op::either ? std::min(bytes, of_member) : std::max(bytes, of_member);
    }
    if (node.op == Op::concat) bytes = sum(at_least(node.a), at_least(node.b));
    if (node.op == Op::repeat) bytes = times(at_least(node.a), node.least);
    keep(bounds_, e, bytes);
    return bytes;
  }

  static constexpr std::size_t kKept = sizeof(std::pair<const Expr, int>) + 24;

  Expressions& x_;
  Spent spent_;
  std::unordered_map<Expr, int>
      exact_;  // intersections, and what is made of them, that were searched; fixed from then on
  std::unordered_map<Expr, int> plain_;                      // else what has no calls
  std::unordered_map<Expr, int> bounds_;                     // of what was not searched
  std::unordered_map<Expr, std::vector<Levels>> by_levels_;  // what has calls
  std::vector<std::vector<int>> rules_;                      // [depth][rule]
  std::size_t searched_ = 0;
};

}  // namespace tenon::constrain
