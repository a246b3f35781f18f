// Regular expressions over bytes and calls of rules, each held once.
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

using Expr = std::int32_t;  // a number of an ExpressionArena
inline constexpr int kUnbounded = -1;
class FewestBytes;

// Expressions are equal where their numbers are: they are simplified as they are made, and members of unions and
// intersections sorted. Counted repetitions are not unrolled. Intersections and complements hold no calls.
class ExpressionArena {
  friend class FewestBytes;

 public:
  static constexpr Expr kNever = 0;     // no text
  static constexpr Expr kEmpty = 1;     // the empty text
  static constexpr Expr kAnything = 2;  // all texts

  // A language whose derivatives are computed elsewhere; its states are expressions. Intersections and complements may
  // hold them, repetitions and calls stay outside.
  class Machine {
   public:
    virtual ~Machine() = default;
    virtual Expr derivative(int state, int byte) = 0;
    // Bytes with the same derivatives of all these parts lead to the same state.
    virtual std::span<const Expr> parts(int state) const = 0;
  };

  // The budget outlives this.
  explicit ExpressionArena(Budget& budget);
  ExpressionArena(const ExpressionArena&) = delete;

  Expr bytes(const ByteSet& set);

  Expr literal(std::string_view text);

  Expr concat(Expr a, Expr b);
  Expr concat(std::initializer_list<Expr> parts);

  Expr either(Expr a, Expr b) { return either(std::vector<Expr>{a, b}); }
  Expr either(std::vector<Expr> members);

  Expr both(Expr a, Expr b) { return both(std::vector<Expr>{a, b}); }
  Expr both(std::vector<Expr> members);

  // Every text that is none of e's.
  Expr complement(Expr e);

  // most: kUnbounded, or at least `least`
  Expr repeat(Expr e, int least, int most = kUnbounded);
  Expr optional(Expr e) { return either(kEmpty, e); }

  int add_machine(std::unique_ptr<Machine> machine);
  Expr machine_state(int machine, int state, bool nullable);

  // What the rule of that number matches.
  Expr call(int rule) { return make({.op = Op::call, .calls = true, .a = rule}); }

  bool nullable(Expr e) const { return at(e).nullable; }
  bool has_calls(Expr e) const { return at(e).calls; }

  std::size_t size() const { return nodes_.size(); }
  Budget& budget() { return budget_; }

 protected:
  enum class Op : std::uint8_t { never, empty, bytes, concat, either, both, complement, repeat, call, machine };

  struct Node {
    Op op = Op::never;
    bool nullable = false, boolean = false,
         calls = false;  // boolean: holds intersections, complements or states of machines
    int a = 0, b = 0;  // expressions; bytes: a set; call: a rule; machine: it and its state; either, both: the first of
                       // members_
    int count = 0;     // of members
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

  // The node's number: it is kept where it is new.
  Expr make(const Node& node);

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
