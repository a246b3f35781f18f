// What expressions match: their derivatives (Brzozowski, 1964; Owens, Reppy and Turon, 2009), and what follows from
// them.
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

class Expressions : public ExpressionArena {
 public:
  using ExpressionArena::ExpressionArena;

  struct Call {
    int rule;
    Expr rest;  // what comes behind it
  };

  // What may follow this byte, calls aside; kNever where no text begins with it.
  Expr derivative(Expr e, int byte) { return at(e).boolean ? live_part(derive(e, byte)) : derive(e, byte); }

  // The rules that may come first, with what follows each.
  void first_calls(Expr e, std::vector<Call>& out);

  // Sets of bytes that derivatives need not tell apart: they cover all bytes and do not overlap.
  std::vector<ByteSet> byte_classes(Expr e) const;

  // e without what can match no text; kNever where nothing is left. Calls count as matching something.
  Expr live_part(Expr e);

  // A repetition that e begins with, and what comes behind it.
  struct Repeat {
    Expr each;
    int least, most;
    Expr rest;
  };
  std::optional<Repeat> leading_repeat(Expr e) const;

  // Those of the alternatives that e is.
  template <class Visit>
  void for_leading_repeats(Expr e, Visit&& visit) const {
    if (const auto found = leading_repeat(e)) visit(*found);
    const Node node = at(e);  // a visit may make expressions
    for (int i = 0; node.op == Op::either && i < node.count; ++i) {
      if (const auto found = leading_repeat(member(node, i))) visit(*found);
    }
  }

  // How deep rules must call one another, at least, in a text that e matches, by what each rule needs: 0 where no call
  // is needed, kEndless where there is no such text. known: what has been found for these rules before.
  static constexpr int kEndless = 1 << 30;
  using Heights = std::unordered_map<Expr, int>;
  int height(Expr e, std::span<const int> rules, Heights& known) const;

  // e without the texts that need one of the dead rules.
  using Rebuilt = std::unordered_map<Expr, Expr>;
  Expr without(Expr e, const std::vector<bool>& dead, Rebuilt& known);

 private:
  // A concatenation and those that it ends in, the longest first, as far as they are open: deep ones are worked on from
  // the end, and not by recursion.
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

  // The parts of a chain that a text may begin with, each with what follows it: as far as those before may be empty.
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

  // Whether any text matches: a search for a derivative that the empty text matches. All derivatives of a dead
  // expression are dead; the path to the end of a live one is remembered. The search takes the oldest and the newest
  // open expression in turn: the oldest reach short texts, the newest reach long ones where breadth explodes
  // (uniqueItems with minItems).
  bool is_live(Expr start);

  static constexpr std::size_t kEntryBytes = 48;  // of the tables below, about: a node, and a pointer to it
  static constexpr std::size_t kMostDerivatives = 1 << 20;
  static constexpr int kMostEmptyParts = 4096;  // what comes of them grows with the square

  std::unordered_map<std::uint64_t, Expr> derivatives_;
  Spent spent_on_derivatives_{budget_};
  std::unordered_map<Expr, Expr> live_parts_;
  std::unordered_map<Expr, bool> live_;
};

}  // namespace tenon::constrain

#ifndef TENON_COMPILED
#include "tenon/constrain/expression-inl.h"
#endif
