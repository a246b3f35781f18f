// Length of the shortest text of an expression, for answers that must end within a number of tokens.
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

/// Bytes of the shortest text that an expression matches. Calls count with the shortest text of their rule. The result
/// depends on the set of texts only, not on how the expression is written. Some derivative therefore has one byte less.
///
/// The length of an intersection is exact only where all its derivatives are known. The constructor explores those of
/// the rules, up to kMostDerivatives. For other intersections the result is the length of one path to the end,
/// perhaps not the shortest. Each byte on the path decreases it too. Later queries are cheap and do not depend on
/// earlier ones.
class FewestBytes {
 public:
  static constexpr int kEndless = Expressions::kEndless;   ///< no text, no known one, or a longer one
  static constexpr std::size_t kMostDerivatives = 16'384;  ///< takes 0.1 to 0.3 s of one core
  static constexpr std::size_t kLongestWay = 256;          ///< limits the cost to 4 ms in a step of an engine

  /// `depth`: most levels of nested calls.
  FewestBytes(Expressions& expressions, std::span<const Expr> rules, Expr start, int depth);

  /// Bytes for `e` with at most `depth` levels of calls. A call in last position counts as a level, though it takes no
  /// frame: the counted text then fits in any case.
  int of(Expr e, int depth) { return measure(e, std::min(depth, static_cast<int>(rules_.size()))); }

  static int sum(int a, int b) { return a >= kEndless - b ? kEndless : a + b; }  ///< saturates at kEndless

 private:
  using Op = ExpressionArena::Op;
  using Node = ExpressionArena::Node;
  // A range of depths at which an expression has the same length. More levels never make it longer, so the depths
  // between the two ends have the same length.
  struct Levels {
    int first, last, bytes;
  };

  // Bytes for `e` at a call depth.
  int measure(Expr e, int depth);
  int measure_chain(Expr e, int depth);

  // Bytes for an expression without calls.
  int measure_without_calls(Expr e);

  int of_rule(int rule, int depth) const;
  static int times(int bytes, int count);

  // For expressions without calls.
  const int* known(Expr e) const;
  const int* known(Expr e, int depth) const;
  void keep(Expr e, int depth, int bytes);
  void keep(Expr e, int bytes) { keep(plain_, e, bytes); }
  void keep(std::unordered_map<Expr, int>& all, Expr e, int bytes);

  // Machine states are searched as intersections are.
  bool is_intersection(Expr e) const;

  // Appends the intersections and complements in `e`, including those after nullable parts.
  void collect_intersections(Expr e, std::unordered_set<Expr>& seen, std::vector<Expr>& out);

  struct Derivatives {
    std::vector<Expr> all;
    std::unordered_map<Expr, int> numbers;
    std::vector<std::pair<int, int>> leads;  // (to, from)

    int number(Expr e);
  };

  // Explores all derivatives of `e`, and of the intersections inside these. Keeps all results or none: exact lengths
  // and path lengths must not lead to one another.
  void search(Expr e);

  bool derive_all(Expr start, std::unordered_set<Expr>& seen, std::vector<Expr>& parts, std::vector<Expr>& kept);

  // Computes lengths backwards from the ends of texts.
  void measure_backwards(Derivatives& found, std::vector<Expr>& kept);

  // Length of a path for an intersection that was not explored: each step goes to the derivative with the smallest
  // lower bound. The path ends at the latest where the intersection falls apart into parts with fewer intersections.
  int path_length(Expr start);
  Expr nearest_derivative(Expr e);

  // Lower bound on the bytes of the texts of `e`. It uses no path lengths, because it would then depend on which are
  // known.
  int least_bytes(Expr e);

  static constexpr std::size_t kKept = sizeof(std::pair<const Expr, int>) + 24;

  Expressions& x_;
  Spent spent_;
  // Explored intersections and the expressions in their derivatives. Entries never change.
  std::unordered_map<Expr, int> exact_;
  std::unordered_map<Expr, int> plain_;                      // other expressions without calls
  std::unordered_map<Expr, int> bounds_;                     // lower bounds of expressions that were not explored
  std::unordered_map<Expr, std::vector<Levels>> by_levels_;  // expressions with calls
  std::vector<std::vector<int>> rules_;                      // [depth][rule]
  std::size_t searched_ = 0;
};

}  // namespace tenon::constrain

#ifndef TENON_COMPILED
#include "tenon/constrain/fewest_bytes-inl.h"
#endif
