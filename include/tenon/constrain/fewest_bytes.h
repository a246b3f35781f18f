// How short a text can be: what an answer needs to know that must end within so many tokens.
#pragma once
#include <algorithm>
#include <cstddef>
#include <functional>
#include <queue>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/constrain/expression.h"

namespace tenon::constrain {

// Bytes of the shortest text that an expression matches, calls counted with the shortest text of their rule. It is a
// property of the texts alone, not of how the expression is written, so some derivative of it has one byte less.
class FewestBytes {
 public:
  static constexpr int kEndless = Expressions::kEndless;  // no text, or none that is shorter

  // depth: of calls within one another, at most.
  FewestBytes(Expressions& expressions, std::span<const Expr> rules, int depth) : x_(expressions) {
    // rules_[d]: of each rule, with d more levels of calls below it. From where one more changes nothing, none does.
    for (int d = 0; d <= depth; ++d) {
      std::vector<int> bytes;
      known_.emplace_back();
      for (const Expr rule : rules) bytes.push_back(of(rule, d));
      if (d > 0 && bytes == rules_.back()) break;
      rules_.push_back(std::move(bytes));
    }
  }

  // With calls at most so deep within one another. Calls in last place count as the others do, though they take no
  // frame: then there is room for what was counted.
  int of(Expr e, int depth) {
    if (!x_.has_calls(e)) depth = 0;
    const auto level = static_cast<std::size_t>(depth);
    const auto of_boolean = [this](Expr boolean) { return search(boolean); };
    return measure(e, level, known_[std::min(level, known_.size() - 1)], of_boolean);
  }

  static int sum(int a, int b) { return a >= kEndless - b ? kEndless : a + b; }

 private:
  using Op = ExpressionArena::Op;
  using Node = ExpressionArena::Node;
  using Known = std::unordered_map<Expr, int>;

  // of_boolean: of intersections and complements.
  template <class OfBoolean>
  int measure(Expr e, std::size_t depth, Known& known, const OfBoolean& of_boolean) {
    if (e == Expressions::kNever) return kEndless;
    if (x_.nullable(e)) return 0;
    if (depth > 0 && !x_.has_calls(e)) return measure(e, 0, known_[0], of_boolean);
    if (const auto found = known.find(e); found != known.end()) return found->second;
    const Budget::Nesting nesting(x_.budget());
    x_.budget().check();
    const Node node = x_.at(e);
    int bytes = 1;
    switch (node.op) {
      case Op::call:
        bytes = depth == 0 ? kEndless : of_rule(node.a, depth - 1);
        break;
      case Op::repeat: {
        const long long all = static_cast<long long>(measure(node.a, depth, known, of_boolean)) * node.least;
        bytes = static_cast<int>(std::min<long long>(all, kEndless));
        break;
      }
      case Op::either:
        bytes = kEndless;
        for (int i = 0; i < node.count; ++i) {
          bytes = std::min(bytes, measure(x_.member(node, i), depth, known, of_boolean));
        }
        break;
      case Op::concat: {
        std::vector<Expr> chain = {e};  // up to what is known, which may be long
        Expr rest = node.b;
        const auto is_new = [&] { return x_.has_calls(rest) == node.calls && !known.contains(rest); };
        for (; x_.at(rest).op == Op::concat && is_new(); rest = x_.at(rest).b) chain.push_back(rest);
        for (bytes = measure(rest, depth, known, of_boolean); !chain.empty(); chain.pop_back()) {
          bytes = sum(bytes, measure(x_.at(chain.back()).a, depth, known, of_boolean));
          keep(known, chain.back(), bytes);
        }
        return bytes;
      }
      case Op::both:
      case Op::complement:
        return of_boolean(e);
      default:
        break;
    }
    keep(known, e, bytes);
    return bytes;
  }

  int of_rule(int rule, std::size_t depth) const {
    return rules_[std::min(depth, rules_.size() - 1)][static_cast<std::size_t>(rule)];
  }
  void keep(Known& known, Expr e, int bytes) {
    if (known.emplace(e, bytes).second) x_.budget().spend(sizeof(Known::value_type) + 24);
  }

  // Exact where nothing boolean is left, or it is known; else less, perhaps.
  int at_least(Expr e) {
    if (const auto found = known_[0].find(e); found != known_[0].end()) return found->second;
    return measure(e, 0, x_.at(e).boolean ? bounds_ : known_[0], [this](Expr boolean) { return bound(boolean); });
  }
  int bound(Expr boolean) {
    if (const auto found = known_[0].find(boolean); found != known_[0].end()) return found->second;
    if (const auto found = bounds_.find(boolean); found != bounds_.end()) return found->second;
    const Node node = x_.at(boolean);
    int bytes = 1;  // it is not nullable
    for (int i = 0; node.op == Op::both && i < node.count; ++i) bytes = std::max(bytes, at_least(x_.member(node, i)));
    keep(bounds_, boolean, bytes);
    return bytes;
  }

  // A* over derivatives (Hart, Nilsson and Raphael, 1968), the farthest first among equals. What it found is known from
  // then on of all expressions on the way.
  int search(Expr start) {
    if (const auto found = known_[0].find(start); found != known_[0].end()) return found->second;
    struct Place {
      int bytes;
      Expr from;
    };
    std::unordered_map<Expr, Place> places = {{start, {0, start}}};
    using Open = std::tuple<int, int, Expr>;  // bytes in all at least, those to come among them, from here
    std::priority_queue<Open, std::vector<Open>, std::greater<>> open;
    open.push({at_least(start), at_least(start), start});
    while (!open.empty()) {
      const auto [all, to_come, e] = open.top();
      open.pop();
      const int bytes = places.at(e).bytes;
      if (bytes + to_come < all) continue;  // a shorter way was found
      const auto exact = known_[0].find(e);
      if (x_.nullable(e) || (exact != known_[0].end() && e != start)) {
        for (Expr at = e; at != start;) {
          at = places.at(at).from;
          keep(known_[0], at, all - places.at(at).bytes);
        }
        return all;
      }
      for (const ByteSet& set : x_.byte_classes(e)) {
        const Expr next = x_.derivative(e, set.first());
        if (next == Expressions::kNever) continue;
        const auto [found, fresh] = places.try_emplace(next, Place{bytes + 1, e});
        if (!fresh && found->second.bytes <= bytes + 1) continue;
        found->second = {bytes + 1, e};
        const int more = at_least(next);
        if (more < kEndless) open.push({bytes + 1 + more, more, next});
      }
      x_.budget().check();
    }
    keep(known_[0], start, kEndless);
    return kEndless;
  }

  Expressions& x_;
  std::vector<Known> known_;             // [depth]; what has no calls is at 0
  Known bounds_;                         // of what holds intersections or complements
  std::vector<std::vector<int>> rules_;  // [depth][rule]
};

}  // namespace tenon::constrain
