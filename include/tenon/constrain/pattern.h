// A parsed regular expression: a tree of assertions around expressions.
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tenon/constrain/expression.h"

namespace tenon::constrain {

/// A node of the tree. A node without assertions (^, $, lookarounds) is a single expression, `plain`. Other nodes have
/// parts.
struct PatternNode {
  enum class Kind { plain, sequence, either, repeat, start, end, ahead, behind };

  Kind kind = Kind::plain;
  Expr plain = Expressions::kEmpty;     ///< Kind::plain
  bool negated = false;                 ///< lookarounds
  int least = 0, most = 0;              ///< repeat; most: kUnbounded for no bound
  std::size_t at = 0;                   ///< lookarounds: index of the first character, from 0
  std::vector<PatternNode> parts = {};  ///< the branches, terms or body

  static PatternNode of(Expr e) { return {.plain = e}; }
  static PatternNode anchor(Kind kind) { return {.kind = kind}; }
  static PatternNode look(Kind kind, bool negated, PatternNode body, std::size_t at) {
    PatternNode look{.kind = kind, .negated = negated, .at = at};
    look.parts.push_back(std::move(body));
    return look;
  }
  bool is_plain() const { return kind == Kind::plain; }
};

/// Union of branches. Branches without assertions become one expression.
inline PatternNode either_of(Expressions& all, std::vector<PatternNode> branches) {
  if (branches.size() == 1) return std::move(branches.front());
  std::vector<Expr> plain;
  std::vector<PatternNode> parts;
  for (PatternNode& branch : branches) {
    if (branch.is_plain())
      plain.push_back(branch.plain);
    else
      parts.push_back(std::move(branch));
  }
  PatternNode rest = PatternNode::of(all.either(std::move(plain)));
  if (parts.empty()) return rest;
  if (rest.plain != Expressions::kNever) parts.push_back(std::move(rest));
  return parts.size() == 1 ? std::move(parts.front())
                           : PatternNode{.kind = PatternNode::Kind::either, .parts = std::move(parts)};
}

/// Repetition of `body`.
inline PatternNode repeat_of(Expressions& all, PatternNode body, int least, int most) {
  if (most == 0) return PatternNode::of(Expressions::kEmpty);
  if (body.is_plain()) return PatternNode::of(all.repeat(body.plain, least, most));
  if (least == 1 && most == 1) return body;
  PatternNode repeat{.kind = PatternNode::Kind::repeat, .least = least, .most = most};
  repeat.parts.push_back(std::move(body));
  return repeat;
}

/// Collects the terms of a sequence. Adjacent expressions become one.
class PatternSequence {
 public:
  explicit PatternSequence(Expressions& all) : all_(all) {}

  /// Appends a term.
  void add(PatternNode term) {
    if (term.is_plain()) return plain_.push_back(term.plain);
    close_plain();
    parts_.push_back(std::move(term));
  }
  /// The sequence. Call it once.
  PatternNode take() {
    close_plain();
    if (parts_.empty()) return PatternNode::of(Expressions::kEmpty);
    if (parts_.size() == 1) return std::move(parts_.front());
    return {.kind = PatternNode::Kind::sequence, .parts = std::move(parts_)};
  }

 private:
  void close_plain() {
    if (plain_.empty()) return;
    Expr joined = Expressions::kEmpty;
    for (; !plain_.empty(); plain_.pop_back()) joined = all_.concat(plain_.back(), joined);
    parts_.push_back(PatternNode::of(joined));
  }

  Expressions& all_;
  std::vector<Expr> plain_;
  std::vector<PatternNode> parts_;
};

}  // namespace tenon::constrain
