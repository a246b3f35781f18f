// Compiles grammars in llama.cpp's notation (GBNF).
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/constrain/expression.h"
#include "tenon/constrain/gbnf_parser.h"
#include "tenon/constrain/grammar.h"
#include "tenon/constrain/refused.h"

namespace tenon::constrain {
namespace detail {

using GbnfEdges = std::vector<std::vector<int>>;  // [rule]: rules that it names

// Depth-first walks over rules. No rule is visited twice.
struct GbnfWalk {
  explicit GbnfWalk(const GbnfEdges& e) : edges(e), steps(e.size(), Step::none), loops(e.size(), false) {}

  void from(int start) {
    if (steps[static_cast<std::size_t>(start)] != Step::none) return;
    std::vector<std::pair<std::size_t, std::size_t>> path;  // a rule, and how many of its edges were followed
    const auto begin = [&](std::size_t rule) {
      steps[rule] = Step::begun;
      path.emplace_back(rule, 0);
    };
    for (begin(static_cast<std::size_t>(start)); !path.empty();) {
      const std::size_t rule = path.back().first, edge = path.back().second++;
      if (edge < edges[rule].size()) {
        const auto next = static_cast<std::size_t>(edges[rule][edge]);
        if (steps[next] == Step::begun) loops[next] = true;
        if (steps[next] == Step::none) begin(next);
      } else {
        steps[rule] = Step::done;
        order.push_back(static_cast<int>(rule));
        path.pop_back();
      }
    }
  }

  enum class Step : std::uint8_t { none, begun, done };
  const GbnfEdges& edges;
  std::vector<Step> steps;
  std::vector<int> order;   // post-order: each rule after the rules that it leads to, except in cycles
  std::vector<bool> loops;  // [rule]: removing these rules breaks all cycles
};

// A left-linear system A_i = A_1 x_i1 | ... | A_n x_in | y_i, solved by elimination as a system of linear equations.
// The solution of A = A x | y is y x* (Arden, 1961).
class GbnfLeftRecursion {
 public:
  GbnfLeftRecursion(GbnfSource& source, std::size_t n) : source_(source), n_(n), tails_(n * n), rest_(n) {}

  // Adds an alternative of rule i: rule j and then `tail`, or one that starts with none of the rules.
  void add(std::size_t i, std::size_t j, int tail) { tails(i, j).push_back(tail); }
  void add(std::size_t i, int alternative) { rest_[i].push_back(alternative); }

  // [rule]: an item.
  std::vector<int> solve() {
    for (std::size_t k = 0; k < n_; ++k) {
      if (!tails(k, k).empty()) append_loop(k);
      for (std::size_t i = 0; i < n_; ++i) {
        if (i != k && !tails(i, k).empty()) substitute(k, i);
      }
    }
    std::vector<int> bodies;
    for (const std::vector<int>& alternatives : rest_) bodies.push_back(source_.choice(alternatives));
    return bodies;
  }

 private:
  std::vector<int>& tails(std::size_t i, std::size_t j) { return tails_[i * n_ + j]; }

  void append_loop(std::size_t k) {
    const int loop = source_.repeat(source_.choice(std::exchange(tails(k, k), {})), 0, kUnbounded);
    append(rest_[k], loop);
    for (std::size_t j = 0; j < n_; ++j) append(tails(k, j), loop);
  }
  // Replaces rule k at the start of alternatives of rule i by the alternatives of k.
  void substitute(std::size_t k, std::size_t i) {
    const int tail = source_.choice(std::exchange(tails(i, k), {}));
    const auto take = [&](const std::vector<int>& from, std::vector<int>& to) {
      if (!from.empty()) to.push_back(source_.sequence({source_.choice(from), tail}));
    };
    take(rest_[k], rest_[i]);
    for (std::size_t j = 0; j < n_; ++j) take(tails(k, j), tails(i, j));
  }
  void append(std::vector<int>& items, int last) {
    if (!items.empty()) items = {source_.sequence({source_.choice(items), last})};
  }

  GbnfSource& source_;
  const std::size_t n_;
  std::vector<std::vector<int>> tails_;  // [n, n] alternatives
  std::vector<std::vector<int>> rest_;   // [n] alternatives
};

class GbnfCompiler {
 public:
  GbnfCompiler(Grammar& grammar, GbnfSource& source) : grammar_(grammar), source_(source) {}

  void compile(int root) {
    remove_left_recursion(root);
    const GbnfEdges edges = all_named(root, false);
    GbnfWalk walk(edges);
    walk.from(root);
    std::vector<int> uses(edges.size());
    for (const std::vector<int>& named : edges) {
      for (const int rule : named) ++uses[static_cast<std::size_t>(rule)];
    }
    parts_.assign(source_.items.size(), {});
    rules_.assign(edges.size(), {});
    numbers_.assign(edges.size(), -1);
    for (const int rule : walk.order) {
      if (walk.loops[static_cast<std::size_t>(rule)]) add_rule(static_cast<std::size_t>(rule));
    }
    for (const int number : walk.order) {
      const auto rule = static_cast<std::size_t>(number);
      const Part body = compiled(source_.rules[rule].body);
      if ((body.size > kMostInlined && uses[rule] > 1) || body.depth > kDeepestInlined) add_rule(rule);
      if (numbers_[rule] < 0)
        rules_[rule] = body;
      else
        grammar_.rules[static_cast<std::size_t>(numbers_[rule])] = body.expr;
      if (number == root) grammar_.start = body.expr;
    }
  }

 private:
  // A rule is inlined where it is named. Exceptions: a cycle needs it, it is deeper than kDeepestInlined, or it is
  // larger than kMostInlined and would be copied.
  static constexpr std::int64_t kMostInlined = 4096;
  static constexpr int kDeepestInlined = 64;
  static constexpr std::int64_t kMostSize = std::int64_t{1} << 40;
  static constexpr std::size_t kMostLeftRecursive = 16;

  struct Part {
    Expr expr = -1;         // -1: not compiled
    std::int64_t size = 0;  // number of states, about
    int depth = 0;
  };

  void add_rule(std::size_t rule) {
    if (numbers_[rule] >= 0) return;
    numbers_[rule] = grammar_.add_rule();
    rules_[rule] = {grammar_.expressions.call(numbers_[rule]), 1, 0};
  }

  Part compiled(int item) {
    const auto at = static_cast<std::size_t>(item);
    if (parts_[at].expr >= 0) return parts_[at];
    grammar_.budget.check();
    const GbnfItem& source = source_.items[at];
    if (source.kind == GbnfItem::Kind::text) return parts_[at] = {source.text, source.size, 0};
    if (source.kind == GbnfItem::Kind::rule) return parts_[at] = rules_[static_cast<std::size_t>(source.rule)];
    Part whole;
    std::vector<Expr> exprs;
    for (const int inner : source.parts) {
      const Part part = compiled(inner);
      exprs.push_back(part.expr);
      whole.size = std::min(whole.size + part.size, kMostSize);
      whole.depth = std::max(whole.depth, part.depth + 1);
    }
    Expressions& e = grammar_.expressions;
    switch (source.kind) {
      case GbnfItem::Kind::sequence:
        whole.expr = Expressions::kEmpty;
        for (auto part = exprs.rbegin(); part != exprs.rend(); ++part) whole.expr = e.concat(*part, whole.expr);
        break;
      case GbnfItem::Kind::choice:
        whole.expr = e.either(std::move(exprs));
        break;
      default:
        whole.expr = e.repeat(exprs.front(), source.least, source.most);
        whole.size = std::min(whole.size * std::max({source.least, source.most, 1}), kMostSize);
    }
    return parts_[at] = whole;
  }

  // Rules that an item names, with duplicates. `heads`: only those that a text may start with.
  std::vector<int> named(int body, bool heads) {
    std::vector<int> rules, items = {body};
    for (seen_.resize(source_.items.size()), ++seen_now_; !items.empty();) {
      const auto at = static_cast<std::size_t>(items.back());
      items.pop_back();
      if (std::exchange(seen_[at], seen_now_) == seen_now_) continue;
      const GbnfItem& item = source_.items[at];
      if (item.kind == GbnfItem::Kind::rule) rules.push_back(item.rule);
      for (const int part : item.parts) {
        items.push_back(part);
        if (heads && item.kind == GbnfItem::Kind::sequence && !nullable_[static_cast<std::size_t>(part)]) break;
      }
    }
    return rules;
  }
  // [rule]; empty for rules that `root` does not need.
  GbnfEdges all_named(int root, bool heads) {
    GbnfEdges all(source_.rules.size());
    for (std::size_t rule = 0; rule < all.size(); ++rule) all[rule] = named(source_.rules[rule].body, false);
    GbnfWalk walk(all);
    walk.from(root);
    GbnfEdges needed(all.size());
    for (const int rule : walk.order) {
      const auto at = static_cast<std::size_t>(rule);
      needed[at] = heads ? named(source_.rules[at].body, true) : std::move(all[at]);
    }
    return needed;
  }

  void find_nullable() {
    nullable_.assign(source_.items.size(), false);
    for (bool more = true; more;) {
      more = false;
      for (std::size_t at = 0; at < nullable_.size(); ++at) {
        grammar_.budget.check();
        if (nullable_[at] || !nullable(source_.items[at])) continue;
        nullable_[at] = more = true;
      }
    }
  }
  bool nullable(const GbnfItem& item) const {
    const auto is = [&](int part) -> bool { return nullable_[static_cast<std::size_t>(part)]; };
    switch (item.kind) {
      case GbnfItem::Kind::text:
        return grammar_.expressions.nullable(item.text);
      case GbnfItem::Kind::rule:
        return is(source_.rules[static_cast<std::size_t>(item.rule)].body);
      case GbnfItem::Kind::sequence:
        return std::ranges::all_of(item.parts, is);
      case GbnfItem::Kind::choice:
        return std::ranges::any_of(item.parts, is);
      default:
        return item.least == 0 || is(item.parts.front());
    }
  }

  void remove_left_recursion(int root) {
    find_nullable();
    const GbnfEdges edges = all_named(root, true);
    GbnfEdges reversed(edges.size());
    GbnfWalk walk(edges);
    for (std::size_t rule = 0; rule < edges.size(); ++rule) {
      walk.from(static_cast<int>(rule));
      for (const int head : edges[rule]) reversed[static_cast<std::size_t>(head)].push_back(static_cast<int>(rule));
    }
    if (std::ranges::find(walk.loops, true) == walk.loops.end()) return;
    GbnfWalk back(reversed);  // finds one strongly connected component at a time (Kosaraju and Sharir)
    std::reverse(walk.order.begin(), walk.order.end());
    for (const int rule : walk.order) {
      const std::size_t before = back.order.size();
      back.from(rule);
      const std::vector<int> component(back.order.begin() + static_cast<std::ptrdiff_t>(before), back.order.end());
      const std::vector<int>& heads = edges[static_cast<std::size_t>(rule)];
      if (component.size() > 1 || std::ranges::find(heads, rule) != heads.end()) rewrite(component);
    }
    find_nullable();  // includes the new items
    const GbnfEdges left = all_named(root, true);
    GbnfWalk again(left);
    for (const int rule : walk.order) again.from(rule);
    const auto loop = std::ranges::find(again.loops, true);
    if (loop != again.loops.end()) refuse_left_recursion(static_cast<int>(loop - again.loops.begin()));
  }

  [[noreturn]] void refuse_left_recursion(int rule) {
    const GbnfRule& refused = source_.rule(rule);
    refuse_unsupported(gbnf_line(refused.line),
                       "left recursion of rule \"" + refused.name + "\" other than at the beginning of an alternative");
  }

  // Rewrites the rules of a component so that none starts with one of them.
  void rewrite(const std::vector<int>& component) {
    if (component.size() > kMostLeftRecursive) refuse_complex("left recursion through more than 16 rules");
    const auto place = [&](int rule) {
      return static_cast<std::size_t>(std::ranges::find(component, rule) - component.begin());
    };
    const std::size_t n = component.size();
    GbnfLeftRecursion system(source_, n);
    for (std::size_t i = 0; i < n; ++i) {
      const int body = source_.rule(component[i]).body;
      const bool several = source_.at(body).kind == GbnfItem::Kind::choice;
      const std::vector<int> alternatives = several ? source_.at(body).parts : std::vector<int>{body};
      for (const int alternative : alternatives) {
        const GbnfItem item = source_.at(alternative);
        const bool sequence = item.kind == GbnfItem::Kind::sequence;
        const GbnfItem& head = sequence ? source_.at(item.parts.front()) : item;
        const std::size_t j = head.kind == GbnfItem::Kind::rule ? place(head.rule) : n;
        if (j < n) {
          system.add(i, j,
                     source_.sequence(sequence ? std::vector<int>(item.parts.begin() + 1, item.parts.end())
                                               : std::vector<int>{}));
          continue;
        }
        for (const int rule : named(alternative, true)) {
          if (place(rule) < n) refuse_left_recursion(component[i]);
        }
        system.add(i, alternative);
      }
    }
    const std::vector<int> bodies = system.solve();
    for (std::size_t i = 0; i < n; ++i) source_.rule(component[i]).body = bodies[i];
  }

  Grammar& grammar_;
  GbnfSource& source_;
  std::vector<bool> nullable_;       // [item]: whether it matches the empty text
  std::vector<Part> parts_;          // [item]
  std::vector<Part> rules_;          // [rule]: what replaces its name
  std::vector<int> numbers_;         // [rule]: its number in Grammar::rules; -1: inlined
  std::vector<std::uint32_t> seen_;  // [item]
  std::uint32_t seen_now_ = 0;
};

}  // namespace detail

/// Compiles a grammar in GBNF. The start is the rule `root`. Left recursion is rewritten where it is at the start of
/// alternatives.
/// Throws Refused at a line ("line 3"): invalid_request if the text is not a grammar; unsupported for other left
/// recursion, and where it is too complex.
inline void compile_gbnf(Grammar& grammar, std::string_view text) {
  detail::GbnfSource source(grammar.budget);
  const int root = detail::GbnfParser(grammar.expressions, text, source).parse();
  detail::GbnfCompiler(grammar, source).compile(root);
}

}  // namespace tenon::constrain
