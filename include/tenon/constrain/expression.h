// What expressions match: their derivatives (Brzozowski, 1964; Owens, Reppy and Turon, 2009), and what follows from
// them.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
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
  void first_calls(Expr e, std::vector<Call>& out) {
    if (!at(e).calls) return;
    const Budget::Nesting nesting(budget_);
    const Node node = at(e);
    switch (node.op) {
      case Op::call:
        out.push_back({node.a, kEmpty});
        break;
      case Op::concat:
        for_first_parts(e, [&](Expr head, Expr rest) {
          std::vector<Call> heads;
          first_calls(head, heads);
          for (const Call& call : heads) out.push_back({call.rule, concat(call.rest, rest)});
        });
        break;
      case Op::either:
        for (int i = 0; i < node.count; ++i) first_calls(member(node, i), out);
        break;
      case Op::repeat: {
        std::vector<Call> heads;
        first_calls(node.a, heads);
        const Expr rest = rest_of_repeat(node);
        for (const Call& head : heads) out.push_back({head.rule, concat(head.rest, rest)});
        break;
      }
      default:
        break;
    }
  }

  // Sets of bytes that derivatives need not tell apart: they cover all bytes and do not overlap.
  std::vector<ByteSet> byte_classes(Expr e) const {
    std::vector<int> sets;
    std::unordered_set<Expr> seen;
    first_sets(e, seen, sets);
    std::sort(sets.begin(), sets.end());
    sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
    std::vector<ByteSet> classes = {ByteSet::all()};
    for (const int s : sets) refine(classes, sets_[static_cast<std::size_t>(s)]);
    return classes;
  }

  // e without what can match no text; kNever where nothing is left. Calls count as matching something.
  Expr live_part(Expr e) {
    if (!at(e).boolean) return e;
    if (const auto found = live_parts_.find(e); found != live_parts_.end()) return found->second;
    const Budget::Nesting nesting(budget_);
    const Node node = at(e);
    Expr live = e;
    switch (node.op) {
      case Op::both:
      case Op::complement:
      case Op::machine:
        live = is_live(e) ? e : kNever;
        break;
      case Op::concat: {
        std::vector<Expr> chain = chain_of(e, [&](Expr rest) { return !live_parts_.contains(rest); });
        live = live_part(at(chain.back()).b);
        for (; !chain.empty(); chain.pop_back()) {
          live = concat(live_part(at(chain.back()).a), live);
          keep_live_part(chain.back(), live);
        }
        return live;
      }
      case Op::either: {
        std::vector<Expr> members;
        for (int i = 0; i < node.count; ++i) members.push_back(live_part(member(node, i)));
        live = either(std::move(members));
        break;
      }
      case Op::repeat:
        live = repeat(live_part(node.a), node.least, node.most);
        break;
      default:
        break;
    }
    keep_live_part(e, live);
    return live;
  }

  // A repetition that e begins with, and what comes behind it.
  struct Repeat {
    Expr each;
    int least, most;
    Expr rest;
  };
  std::optional<Repeat> leading_repeat(Expr e) const {
    const bool chain = at(e).op == Op::concat;
    const Node& head = chain ? at(at(e).a) : at(e);
    if (head.op != Op::repeat) return std::nullopt;
    return Repeat{head.a, head.least, head.most, chain ? at(e).b : kEmpty};
  }

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
  int height(Expr e, std::span<const int> rules, Heights& known) const {
    if (!at(e).calls) return e == kNever ? kEndless : 0;
    if (const auto found = known.find(e); found != known.end()) return found->second;
    const Budget::Nesting nesting(budget_);
    budget_.check();
    const Node& node = at(e);
    int height = 0;
    switch (node.op) {
      case Op::call:
        height = std::min(rules[static_cast<std::size_t>(node.a)] + 1, kEndless);
        break;
      case Op::repeat:
        height = node.least == 0 ? 0 : this->height(node.a, rules, known);
        break;
      case Op::either:
        height = kEndless;
        for (int i = 0; i < node.count; ++i) height = std::min(height, this->height(member(node, i), rules, known));
        break;
      case Op::concat: {
        std::vector<Expr> chain = chain_of(e, [&](Expr rest) { return at(rest).calls && !known.contains(rest); });
        height = this->height(at(chain.back()).b, rules, known);
        for (; !chain.empty(); chain.pop_back()) {
          height = std::max(height, this->height(at(chain.back()).a, rules, known));
          known.emplace(chain.back(), height);
        }
        break;
      }
      default:
        break;
    }
    known.emplace(e, height);
    return height;
  }

  // e without the texts that need one of the dead rules.
  using Rebuilt = std::unordered_map<Expr, Expr>;
  Expr without(Expr e, const std::vector<bool>& dead, Rebuilt& known) {
    if (!at(e).calls) return e;
    if (const auto found = known.find(e); found != known.end()) return found->second;
    const Budget::Nesting nesting(budget_);
    const Node node = at(e);
    Expr rebuilt = e;
    switch (node.op) {
      case Op::call:
        rebuilt = dead[static_cast<std::size_t>(node.a)] ? kNever : e;
        break;
      case Op::repeat:
        rebuilt = repeat(without(node.a, dead, known), node.least, node.most);
        break;
      case Op::either: {
        std::vector<Expr> members;
        for (int i = 0; i < node.count; ++i) members.push_back(without(member(node, i), dead, known));
        rebuilt = either(std::move(members));
        break;
      }
      case Op::concat: {
        std::vector<Expr> chain = chain_of(e, [&](Expr rest) { return at(rest).calls && !known.contains(rest); });
        rebuilt = without(at(chain.back()).b, dead, known);
        for (; !chain.empty(); chain.pop_back()) {
          budget_.check();
          rebuilt = concat(without(at(chain.back()).a, dead, known), rebuilt);
          known.emplace(chain.back(), rebuilt);
        }
        return rebuilt;
      }
      default:
        break;
    }
    known.emplace(e, rebuilt);
    return rebuilt;
  }

 private:
  // A concatenation and those that it ends in, the longest first, as far as they are open: deep ones are worked on from
  // the end, and not by recursion.
  template <class IsOpen>
  std::vector<Expr> chain_of(Expr e, IsOpen&& is_open) const {
    std::vector<Expr> chain = {e};
    for (Expr rest = at(e).b; at(rest).op == Op::concat && is_open(rest); rest = at(rest).b) chain.push_back(rest);
    return chain;
  }

  Expr rest_of_repeat(const Node& node) {
    return repeat(node.a, std::max(node.least - 1, 0), node.most == kUnbounded ? kUnbounded : node.most - 1);
  }

  void keep_live_part(Expr e, Expr live) {
    if (live_parts_.emplace(e, live).second) budget_.spend(kEntryBytes);
  }
  void keep_live(Expr e, bool live) {
    if (live_.insert_or_assign(e, live).second) budget_.spend(kEntryBytes);
  }

  Expr derive(Expr e, int byte) {
    const Node node = at(e);
    switch (node.op) {
      case Op::never:
      case Op::empty:
      case Op::call:
        return kNever;
      case Op::bytes:
        return set_of(e).has(byte) ? kEmpty : kNever;
      default:
        break;
    }
    const std::uint64_t asked = static_cast<std::uint64_t>(e) << 8 | static_cast<std::uint64_t>(byte);
    if (const auto found = derivatives_.find(asked); found != derivatives_.end()) return found->second;
    const Budget::Nesting nesting(budget_);
    budget_.check();
    Expr result = kNever;
    switch (node.op) {
      case Op::concat: {
        std::vector<Expr> parts;
        for_first_parts(e, [&](Expr first, Expr rest) {
          const Expr head = derive(first, byte);
          if (head != kNever) parts.push_back(concat(head, rest));
        });
        result = either(std::move(parts));
        break;
      }
      case Op::either:
      case Op::both: {
        std::vector<Expr> parts;
        for (int i = 0; i < node.count; ++i) parts.push_back(derive(member(node, i), byte));
        result = node.op == Op::either ? either(std::move(parts)) : both(std::move(parts));
        break;
      }
      case Op::complement:
        result = complement(derive(node.a, byte));
        break;
      case Op::repeat: {
        const Expr head = derive(node.a, byte);
        result = head == kNever ? kNever : concat(head, rest_of_repeat(node));
        break;
      }
      case Op::machine:
        result = machines_[static_cast<std::size_t>(node.a)]->derivative(node.b, byte);
        break;
      default:
        break;
    }
    if (derivatives_.size() > kMostDerivatives) {
      spent_on_derivatives_.take(derivatives_.size() * kEntryBytes);
      derivatives_.clear();
    }
    spent_on_derivatives_.add(kEntryBytes);
    derivatives_.emplace(asked, result);
    return result;
  }

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

  void first_sets(Expr e, std::unordered_set<Expr>& seen, std::vector<int>& out) const {
    const Node& node = at(e);
    if (node.op == Op::bytes) return out.push_back(node.a);
    if (!seen.insert(e).second) return;
    const Budget::Nesting nesting(budget_);
    switch (node.op) {
      case Op::complement:
      case Op::repeat:
        first_sets(node.a, seen, out);
        break;
      case Op::concat:
        for_first_parts(e, [&](Expr head, Expr) { first_sets(head, seen, out); });
        break;
      case Op::either:
      case Op::both:
        for (int i = 0; i < node.count; ++i) first_sets(member(node, i), seen, out);
        break;
      case Op::machine:
        for (const Expr part : machines_[static_cast<std::size_t>(node.a)]->parts(node.b)) first_sets(part, seen, out);
        break;
      default:
        break;
    }
  }

  // Whether any text matches: a search for a derivative that the empty text matches. All derivatives of a dead
  // expression are dead; the path to the end of a live one is remembered. The search takes the oldest and the newest
  // open expression in turn: the oldest reach short texts, the newest reach long ones where breadth explodes
  // (uniqueItems with minItems).
  bool is_live(Expr start) {
    if (const auto known = live_.find(start); known != live_.end()) return known->second;
    std::vector<std::pair<Expr, Expr>> seen = {{start, start}};  // with what each was found from
    std::unordered_map<Expr, std::size_t> places = {{start, 0}};
    std::vector<std::size_t> newest;  // found by the turns that search in depth
    std::vector<bool> done = {false};
    Spent spent(budget_);  // on these four
    const auto conclude = [&](Expr e) {
      for (;;) {
        keep_live(e, true);
        if (e == start) return true;
        e = seen[places.at(e)].second;
      }
    };
    std::size_t oldest = 0;
    for (bool deep = true;; deep = !deep) {
      while (oldest < done.size() && done[oldest]) ++oldest;
      while (!newest.empty() && done[newest.back()]) newest.pop_back();
      if (oldest == done.size()) break;
      const std::size_t place = deep && !newest.empty() ? newest.back() : oldest;
      done[place] = true;
      const Expr e = seen[place].first;
      if (at(e).nullable) return conclude(e);
      for (const ByteSet& bytes : byte_classes(e)) {
        const Expr next = derive(e, bytes.first());
        if (next == kNever) continue;
        const auto known = live_.find(next);
        if (known != live_.end() && !known->second) continue;
        const auto [found, fresh] = places.try_emplace(next, seen.size());
        if (deep && (fresh || !done[found->second])) {
          newest.push_back(found->second);
          spent.add(sizeof(newest.front()));
        }
        if (fresh) {
          done.push_back(false);
          seen.push_back({next, e});
          spent.add(kEntryBytes + sizeof(seen.front()) + 1);
        }
        if (known != live_.end() || at(next).nullable) return conclude(next);
      }
      budget_.check();
    }
    for (const auto& [e, from] : seen) keep_live(e, false);
    return false;
  }

  static constexpr std::size_t kEntryBytes = 48;  // of the tables below, about: a node, and a pointer to it
  static constexpr std::size_t kMostDerivatives = 1 << 20;
  static constexpr int kMostEmptyParts = 4096;  // what comes of them grows with the square

  std::unordered_map<std::uint64_t, Expr> derivatives_;
  Spent spent_on_derivatives_{budget_};
  std::unordered_map<Expr, Expr> live_parts_;
  std::unordered_map<Expr, bool> live_;
};

}  // namespace tenon::constrain
