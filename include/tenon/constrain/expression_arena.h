// Regular expressions over bytes and calls of rules. Equal expressions are stored once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tenon/constrain/budget.h"
#include "tenon/constrain/byte_set.h"
#include "tenon/constrain/refused.h"

namespace tenon::constrain {

using Expr = std::int32_t;  ///< number of an expression in its ExpressionArena
/// Upper bound of a repetition without limit.
inline constexpr int kUnbounded = -1;
class FewestBytes;

/// Makes and stores expressions. Two expressions are equal if their numbers are: they are simplified when they are
/// made, and the members of unions and intersections are sorted. Counted repetitions are not unrolled. Intersections
/// and complements contain no calls.
class ExpressionArena {
  friend class FewestBytes;

 public:
  static constexpr Expr kNever = 0;     ///< matches no text
  static constexpr Expr kEmpty = 1;     ///< matches the empty text
  static constexpr Expr kAnything = 2;  ///< matches every text

  /// A language whose derivatives are computed elsewhere. Its states are expressions, which intersections,
  /// complements and repetitions may contain. The machine itself contains no calls.
  class Machine {
   public:
    virtual ~Machine() = default;
    /// The derivative of a state, as an expression of the arena.
    virtual Expr derivative(int state, int byte) = 0;
    /// Bytes with equal derivatives of all these parts lead to the same state.
    virtual std::span<const Expr> parts(int state) const = 0;
  };

  /// The budget must outlive the arena.
  explicit ExpressionArena(Budget& budget);
  ExpressionArena(const ExpressionArena&) = delete;

  /// One byte of the set; kNever for the empty set.
  Expr bytes(const ByteSet& set);

  /// Exactly this text.
  Expr literal(std::string_view text);

  /// A text of `a`, then one of `b`.
  Expr concat(Expr a, Expr b);
  Expr concat(std::initializer_list<Expr> parts);

  /// Union.
  Expr either(Expr a, Expr b) { return either(std::vector<Expr>{a, b}); }
  Expr either(std::vector<Expr> members);

  /// Intersection.
  Expr both(Expr a, Expr b) { return both(std::vector<Expr>{a, b}); }
  Expr both(std::vector<Expr> members);

  /// Every text that is not a text of `e`.
  Expr complement(Expr e);

  /// `least` to `most` texts of `e`. most: kUnbounded, or at least `least`.
  Expr repeat(Expr e, int least, int most = kUnbounded);
  Expr optional(Expr e) { return either(kEmpty, e); }  ///< the empty text or a text of `e`

  /// Registers a machine and returns its number.
  int add_machine(std::unique_ptr<Machine> machine);
  /// The expression of a state of the machine.
  Expr machine_state(int machine, int state, bool nullable);

  /// A text of the rule with this number.
  Expr call(int rule) { return make({.op = Op::call, .calls = true, .a = rule}); }

  /// Whether the empty text matches.
  bool nullable(Expr e) const { return at(e).nullable; }
  /// Whether the expression contains calls.
  bool has_calls(Expr e) const { return at(e).calls; }

  /// Number of expressions.
  std::size_t size() const { return nodes_.size(); }
  Budget& budget() { return budget_; }  ///< charged for every expression

 protected:
  enum class Op : std::uint8_t { never, empty, bytes, concat, either, both, complement, repeat, call, machine };

  struct Node {
    Op op = Op::never;
    // boolean: contains intersections, complements or machine states.
    bool nullable = false, boolean = false, calls = false;
    // Operands: expressions; bytes: a set; call: a rule; machine: its number and state; either, both: first index in
    // members_.
    int a = 0, b = 0;
    int count = 0;            // number of members
    int least = 0, most = 0;  // repeat
  };

  struct Hash {
    const ExpressionArena* all;
    std::size_t operator()(Expr e) const;
  };
  struct Same {
    const ExpressionArena* all;
    bool operator()(Expr left, Expr right) const;
  };

  const Node& at(Expr e) const { return nodes_[static_cast<std::size_t>(e)]; }
  Expr member(const Node& node, int i) const { return members_[static_cast<std::size_t>(node.a + i)]; }
  const ByteSet& set_of(Expr e) const { return sets_[static_cast<std::size_t>(at(e).a)]; }

  // The number of the node, which is stored if it is new.
  Expr make(const Node& node);

  // A union or intersection of members; `none` without members.
  Expr of_several(Op op, std::span<const Expr> members, Expr none);

  void flatten(Op op, std::vector<Expr>& members) const;
  static void sort(std::vector<Expr>& members);

  Budget& budget_;
  std::vector<Node> nodes_;
  std::vector<Expr> members_;
  std::vector<ByteSet> sets_;
  std::map<ByteSet, int> set_numbers_;
  std::unordered_set<Expr, Hash, Same> known_;
  std::vector<std::unique_ptr<Machine>> machines_;
};

}  // namespace tenon::constrain

#ifndef TENON_COMPILED
#include "tenon/constrain/expression_arena-inl.h"
#endif
