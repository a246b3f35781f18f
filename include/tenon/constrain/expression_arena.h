// Regular expressions over bytes and calls of rules, each held once.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>
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
  explicit ExpressionArena(Budget& budget) : budget_(budget), known_(1024, Hash{this}, Same{this}) {
    make({.op = Op::never});
    make({.op = Op::empty, .nullable = true});
    make({.op = Op::complement, .nullable = true, .boolean = true, .a = kNever});
  }
  ExpressionArena(const ExpressionArena&) = delete;

  Expr bytes(const ByteSet& set) {
    if (set.empty()) return kNever;
    const auto [found, fresh] = set_numbers_.try_emplace(set, static_cast<int>(sets_.size()));
    if (fresh) sets_.push_back(set);
    return make({.op = Op::bytes, .a = found->second});
  }

  Expr literal(std::string_view text) {
    Expr all = kEmpty;
    for (auto byte = text.rbegin(); byte != text.rend(); ++byte) {
      all = concat(bytes(ByteSet::of(static_cast<unsigned char>(*byte))), all);
    }
    return all;
  }

  Expr concat(Expr a, Expr b) {
    if (a == kNever || b == kNever) return kNever;
    if (b == kEmpty) return a;
    std::vector<Expr> heads;  // of a chain that leans to the left
    for (; at(a).op == Op::concat; a = at(a).b) heads.push_back(at(a).a);
    if (a != kEmpty) heads.push_back(a);
    for (; !heads.empty(); heads.pop_back()) {
      const Expr head = heads.back();
      b = make({.op = Op::concat,
                .nullable = at(head).nullable && at(b).nullable,
                .boolean = at(head).boolean || at(b).boolean,
                .calls = at(head).calls || at(b).calls,
                .a = head,
                .b = b});
    }
    return b;
  }
  Expr concat(std::initializer_list<Expr> parts) {
    Expr all = kEmpty;
    for (auto part = std::rbegin(parts); part != std::rend(parts); ++part) all = concat(*part, all);
    return all;
  }

  Expr either(Expr a, Expr b) { return either(std::vector<Expr>{a, b}); }
  Expr either(std::vector<Expr> members) {
    flatten(Op::either, members);
    ByteSet set;  // single bytes are one set
    std::erase_if(members, [&](Expr e) {
      if (at(e).op == Op::bytes) set = set | set_of(e);
      return e == kNever || at(e).op == Op::bytes;
    });
    if (!set.empty()) members.push_back(bytes(set));
    sort(members);
    if (std::binary_search(members.begin(), members.end(), kAnything)) return kAnything;
    if (std::any_of(members.begin(), members.end(), [&](Expr e) { return e != kEmpty && at(e).nullable; }))
      std::erase(members, kEmpty);
    return of_several(Op::either, members, kNever);
  }

  Expr both(Expr a, Expr b) { return both(std::vector<Expr>{a, b}); }
  Expr both(std::vector<Expr> members) {
    flatten(Op::both, members);
    sort(members);
    std::erase(members, kAnything);
    ByteSet set = ByteSet::all();
    bool bytes_alone = false;
    for (const Expr e : members) {
      if (e == kNever) return kNever;
      if (e == kEmpty)
        return std::all_of(members.begin(), members.end(), [&](Expr other) { return at(other).nullable; }) ? kEmpty
                                                                                                           : kNever;
      if (at(e).op == Op::bytes) set = set & set_of(e), bytes_alone = true;
    }
    if (bytes_alone && std::all_of(members.begin(), members.end(), [&](Expr e) { return at(e).op == Op::bytes; }))
      return bytes(set);
    return of_several(Op::both, members, kAnything);
  }

  // Every text that is none of e's.
  Expr complement(Expr e) {
    if (e == kNever) return kAnything;
    if (at(e).op == Op::complement) return at(e).a;
    return make({.op = Op::complement, .nullable = !at(e).nullable, .boolean = true, .a = e});
  }

  // most: kUnbounded, or at least `least`
  Expr repeat(Expr e, int least, int most = kUnbounded) {
    if (most == 0 || e == kEmpty) return kEmpty;
    if (e == kNever) return least == 0 ? kEmpty : kNever;
    if (least == 1 && most == 1) return e;
    if (at(e).nullable) least = 0;
    if (e == kAnything) return kAnything;
    if (at(e).op == Op::repeat && at(e).least == 0 && at(e).most == kUnbounded) return e;
    return make({.op = Op::repeat,
                 .nullable = least == 0,
                 .boolean = at(e).boolean,
                 .calls = at(e).calls,
                 .a = e,
                 .least = least,
                 .most = most});
  }
  Expr optional(Expr e) { return either(kEmpty, e); }

  int add_machine(std::unique_ptr<Machine> machine) {
    machines_.push_back(std::move(machine));
    return static_cast<int>(machines_.size()) - 1;
  }
  Expr machine_state(int machine, int state, bool nullable) {
    return make({.op = Op::machine, .nullable = nullable, .boolean = true, .a = machine, .b = state});
  }

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
    std::size_t operator()(Expr e) const {
      const Node& n = all->at(e);
      std::uint64_t h = static_cast<std::uint64_t>(n.op) * 0x9e3779b97f4a7c15u;
      const auto add = [&](int value) {
        h = (h ^ static_cast<std::uint32_t>(value)) * 0xff51afd7ed558ccdu, h ^= h >> 32;
      };
      if (n.count > 0) {
        for (int i = 0; i < n.count; ++i) add(all->members_[static_cast<std::size_t>(n.a + i)]);
      } else {
        add(n.a), add(n.b), add(n.least), add(n.most);
      }
      return static_cast<std::size_t>(h);
    }
  };
  struct Same {
    const ExpressionArena* all;
    bool operator()(Expr left, Expr right) const {
      const Node &l = all->at(left), &r = all->at(right);
      if (l.op != r.op || l.count != r.count || l.least != r.least || l.most != r.most) return false;
      if (l.count == 0) return l.a == r.a && l.b == r.b;
      return std::equal(all->members_.begin() + l.a, all->members_.begin() + l.a + l.count,
                        all->members_.begin() + r.a);
    }
  };

  const Node& at(Expr e) const { return nodes_[static_cast<std::size_t>(e)]; }
  Expr member(const Node& node, int i) const { return members_[static_cast<std::size_t>(node.a + i)]; }
  const ByteSet& set_of(Expr e) const { return sets_[static_cast<std::size_t>(at(e).a)]; }

  // The node's number: it is kept where it is new.
  Expr make(const Node& node) {
    const Expr next = static_cast<Expr>(nodes_.size());
    nodes_.push_back(node);
    const auto [found, fresh] = known_.insert(next);
    if (!fresh) {
      nodes_.pop_back();
      return *found;
    }
    budget_.spend(sizeof(Node) + 48);
    return next;
  }

  Expr of_several(Op op, std::span<const Expr> members, Expr none) {
    if (members.empty()) return none;
    if (members.size() == 1) return members.front();
    Node node{.op = op,
              .nullable = op == Op::both,
              .boolean = op == Op::both,
              .a = static_cast<int>(members_.size()),
              .count = static_cast<int>(members.size())};
    for (const Expr e : members) {
      node.nullable = op == Op::both ? node.nullable && at(e).nullable : node.nullable || at(e).nullable;
      node.boolean |= at(e).boolean;
      node.calls |= at(e).calls;
    }
    members_.insert(members_.end(), members.begin(), members.end());
    const std::size_t before = nodes_.size();
    const Expr made = make(node);
    if (nodes_.size() == before)
      members_.resize(members_.size() - members.size());
    else
      budget_.spend(members.size() * sizeof(Expr));
    return made;
  }

  void flatten(Op op, std::vector<Expr>& members) const {
    for (std::size_t i = 0; i < members.size();) {
      const Node& node = at(members[i]);
      if (node.op != op) {
        ++i;
        continue;
      }
      members[i] = members.back();
      members.pop_back();
      members.insert(members.end(), members_.begin() + node.a, members_.begin() + node.a + node.count);
    }
  }
  static void sort(std::vector<Expr>& members) {
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
  }

  Budget& budget_;
  std::vector<Node> nodes_;
  std::vector<Expr> members_;
  std::vector<ByteSet> sets_;
  std::map<ByteSet, int> set_numbers_;
  std::unordered_set<Expr, Hash, Same> known_;
  std::vector<std::unique_ptr<Machine>> machines_;
};

}  // namespace tenon::constrain
