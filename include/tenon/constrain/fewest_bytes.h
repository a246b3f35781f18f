// How short a text can be: what an answer needs to know that must end within so many tokens.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
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
  FewestBytes(Expressions& expressions, std::span<const Expr> rules, Expr start, int depth);

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

  int measure(Expr e, int depth);
  int measure_chain(Expr e, int depth);

  int measure_without_calls(Expr e);

  int of_rule(int rule, int depth) const;
  static int times(int bytes, int count);

  // Of what has no calls.
  const int* known(Expr e) const;
  const int* known(Expr e, int depth) const;
  void keep(Expr e, int depth, int bytes);
  void keep(Expr e, int bytes) { keep(plain_, e, bytes); }
  void keep(std::unordered_map<Expr, int>& all, Expr e, int bytes);

  // States of machines are searched as intersections are.
  bool is_intersection(Expr e) const;

  // The intersections and complements in e, those behind what may be left out too.
  void look_into(Expr e, std::unordered_set<Expr>& seen, std::vector<Expr>& out);

  struct Derivatives {
    std::vector<Expr> all;
    std::unordered_map<Expr, int> numbers;
    std::vector<std::pair<int, int>> leads;  // to, from

    int number(Expr e);
  };

  // All derivatives of e, and of parts of those, which what follows e may take from one another. All or none is kept:
  // else what is counted in one way would lead to what is counted in the other.
  void search(Expr e);

  bool derive_all(Expr start, std::unordered_set<Expr>& seen, std::vector<Expr>& parts, std::vector<Expr>& kept);

  // From the ends of texts.
  void count_back(Derivatives& found, std::vector<Expr>& kept);

  // Of an intersection that was not searched: the way on which it may be nearest each time. It ends, at the latest,
  // where a part of it is taken apart, which holds fewer intersections.
  int walk(Expr start);
  Expr nearest(Expr e);

  // Bytes of its texts at least; it asks for no ways, or it would say more when these are known.
  int at_least(Expr e);

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

#ifndef TENON_COMPILED
#include "tenon/constrain/fewest_bytes-inl.h"
#endif
