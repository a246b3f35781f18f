// Derivatives of expressions (Brzozowski, 1964; Owens, Reppy and Turon, 2009) and what follows from them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tenon/constrain/budget.h"
#include "tenon/constrain/byte_set.h"
#include "tenon/constrain/expression_arena.h"
#include "tenon/constrain/refused.h"

namespace tenon::constrain {

/// Expressions with their derivatives. Results are cached.
class Expressions : public ExpressionArena {
 public:
  using ExpressionArena::ExpressionArena;

  /// A call of a rule, and what follows it.
  struct Call {
    int rule;   ///< as in ExpressionArena::call
    Expr rest;  ///< what follows the call
  };

  /// The expression of what may follow the byte, without calls. kNever where no text starts with the byte.
  Expr derivative(Expr e, int byte) { return at(e).boolean ? live_part(derive(e, byte)) : derive(e, byte); }

  /// Appends the rules that may come first, each with what follows it.
  void first_calls(Expr e, std::vector<Call>& out);

  /// A partition of all bytes. Bytes of one set have the same derivative.
  std::vector<ByteSet> byte_classes(Expr e) const;

  /// `e` without the parts that match no text; kNever where nothing is left. Calls count as matching.
  Expr live_part(Expr e);

  /// A repetition at the start of an expression, and what follows it.
  struct Repeat {
    Expr each;        ///< what is repeated
    int least, most;  ///< bounds on the number of repetitions; most may be kUnbounded
    Expr rest;        ///< what follows the repetitions
  };
  /// The repetition that `e` starts with, if any.
  std::optional<Repeat> leading_repeat(Expr e) const;

  /// Calls visit(Repeat) for each alternative of `e` that starts with a repetition.
  template <class Visit>
  void for_leading_repeats(Expr e, Visit&& visit) const {
    if (const auto found = leading_repeat(e)) visit(*found);
    const Node node = at(e);  // a visit may add expressions
    for (int i = 0; node.op == Op::either && i < node.count; ++i) {
      if (const auto found = leading_repeat(member(node, i))) visit(*found);
    }
  }

  static constexpr int kEndless = 1 << 30;  ///< height of an expression without texts
  using Heights = std::unordered_map<Expr, int>;
  /// Least call depth of the texts of `e`, given that of each rule. 0 where no call is needed, kEndless where no text
  /// matches. `known`: results of earlier calls with the same rules.
  int height(Expr e, std::span<const int> rules, Heights& known) const;

  using Rebuilt = std::unordered_map<Expr, Expr>;
  /// `e` without the texts that need a dead rule. `known`: results of earlier calls with the same rules.
  Expr without(Expr e, const std::vector<bool>& dead, Rebuilt& known);

 private:
  // The concatenation `e` and the concatenations it ends in, longest first, as far as is_open(rest). Long chains are
  // processed from the end instead of by recursion.
  template <class IsOpen>
  std::vector<Expr> chain_of(Expr e, IsOpen&& is_open) const {
    std::vector<Expr> chain = {e};
    for (Expr rest = at(e).b; at(rest).op == Op::concat && is_open(rest); rest = at(rest).b) chain.push_back(rest);
    return chain;
  }

  Expr rest_of_repeat(const Node& node);

  void keep_live_part(Expr e, Expr live);
  void keep_live(Expr e, bool live);

  Expr derive(Expr e, int byte);

  // Visits the parts of a chain that a text may start with, each with what follows it. A part counts if all parts
  // before it are nullable.
  template <class Visit>
  void for_first_parts(Expr chain, Visit&& visit) const {
    for (int parts = 0;; ++parts) {
      if (at(chain).op != Op::concat) return visit(chain, kEmpty);
      const Expr head = at(chain).a, rest = at(chain).b;
      visit(head, rest);
      if (!at(head).nullable) return;
      if (parts == kMostEmptyParts)
        refuse_complex("more than " + std::to_string(kMostEmptyParts) + " parts in a row may be missing");
      chain = rest;
    }
  }

  void first_sets(Expr e, std::unordered_set<Expr>& seen, std::vector<int>& out) const;

  // Whether any text matches: a search for a nullable derivative. All derivatives of a dead expression are dead; the
  // path to the end of a live one is remembered. The search alternates between the oldest and the newest open
  // expression. The oldest finds short texts; the newest finds long ones where breadth explodes (uniqueItems with
  // minItems).
  bool is_live(Expr start);

  static constexpr std::size_t kEntryBytes = 48;  // entry of the tables below, about: a node and a pointer to it
  static constexpr std::size_t kMostDerivatives = 1 << 20;
  static constexpr int kMostEmptyParts = 4096;  // the results grow with the square

  std::unordered_map<std::uint64_t, Expr> derivatives_;
  Spent spent_on_derivatives_{budget_};
  std::unordered_map<Expr, Expr> live_parts_;
  std::unordered_map<Expr, bool> live_;
};

}  // namespace tenon::constrain

#ifndef TENON_COMPILED
#include "tenon/constrain/expression-inl.h"
#endif
