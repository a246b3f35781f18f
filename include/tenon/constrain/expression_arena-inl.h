#pragma once
#include <algorithm>
#include <iterator>
#include <utility>

#include "tenon/constrain/expression_arena.h"
#include "tenon/core/require.h"

namespace tenon::constrain {

TENON_INLINE ExpressionArena::ExpressionArena(Budget& budget) : budget_(budget), known_(1024, Hash{this}, Same{this}) {
  make({.op = Op::never});
  make({.op = Op::empty, .nullable = true});
  make({.op = Op::complement, .nullable = true, .boolean = true, .a = kNever});
}

TENON_INLINE Expr ExpressionArena::bytes(const ByteSet& set) {
  if (set.empty()) return kNever;
  const auto [found, fresh] = set_numbers_.try_emplace(set, static_cast<int>(sets_.size()));
  if (fresh) sets_.push_back(set);
  return make({.op = Op::bytes, .a = found->second});
}

TENON_INLINE Expr ExpressionArena::literal(std::string_view text) {
  Expr all = kEmpty;
  for (auto byte = text.rbegin(); byte != text.rend(); ++byte) {
    all = concat(bytes(ByteSet::of(static_cast<unsigned char>(*byte))), all);
  }
  return all;
}

TENON_INLINE Expr ExpressionArena::concat(Expr a, Expr b) {
  if (a == kNever || b == kNever) return kNever;
  if (b == kEmpty) return a;
  std::vector<Expr> heads;  // heads of a left-nested chain
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

TENON_INLINE Expr ExpressionArena::concat(std::initializer_list<Expr> parts) {
  Expr all = kEmpty;
  for (auto part = std::rbegin(parts); part != std::rend(parts); ++part) all = concat(*part, all);
  return all;
}

TENON_INLINE Expr ExpressionArena::either(std::vector<Expr> members) {
  flatten(Op::either, members);
  ByteSet set;  // bytes become one set
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

TENON_INLINE Expr ExpressionArena::both(std::vector<Expr> members) {
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

TENON_INLINE Expr ExpressionArena::complement(Expr e) {
  if (e == kNever) return kAnything;
  if (at(e).op == Op::complement) return at(e).a;
  return make({.op = Op::complement, .nullable = !at(e).nullable, .boolean = true, .a = e});
}

TENON_INLINE Expr ExpressionArena::repeat(Expr e, int least, int most) {
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

TENON_INLINE int ExpressionArena::add_machine(std::unique_ptr<Machine> machine) {
  machines_.push_back(std::move(machine));
  return static_cast<int>(machines_.size()) - 1;
}

TENON_INLINE Expr ExpressionArena::machine_state(int machine, int state, bool nullable) {
  return make({.op = Op::machine, .nullable = nullable, .boolean = true, .a = machine, .b = state});
}

TENON_INLINE std::size_t ExpressionArena::Hash::operator()(Expr e) const {
  const Node& n = all->at(e);
  std::uint64_t h = static_cast<std::uint64_t>(n.op) * 0x9e3779b97f4a7c15u;
  const auto add = [&](int value) { h = (h ^ static_cast<std::uint32_t>(value)) * 0xff51afd7ed558ccdu, h ^= h >> 32; };
  if (n.count > 0) {
    for (int i = 0; i < n.count; ++i) add(all->members_[static_cast<std::size_t>(n.a + i)]);
  } else {
    add(n.a), add(n.b), add(n.least), add(n.most);
  }
  return static_cast<std::size_t>(h);
}

TENON_INLINE bool ExpressionArena::Same::operator()(Expr left, Expr right) const {
  const Node &l = all->at(left), &r = all->at(right);
  if (l.op != r.op || l.count != r.count || l.least != r.least || l.most != r.most) return false;
  if (l.count == 0) return l.a == r.a && l.b == r.b;
  return std::equal(all->members_.begin() + l.a, all->members_.begin() + l.a + l.count, all->members_.begin() + r.a);
}

TENON_INLINE Expr ExpressionArena::make(const Node& node) {
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

TENON_INLINE Expr ExpressionArena::of_several(Op op, std::span<const Expr> members, Expr none) {
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

TENON_INLINE void ExpressionArena::flatten(Op op, std::vector<Expr>& members) const {
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

TENON_INLINE void ExpressionArena::sort(std::vector<Expr>& members) {
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
}

}  // namespace tenon::constrain
