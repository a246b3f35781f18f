// What parts of a pattern match, by where in the text they stand: ^ and $ anywhere in a regular expression.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "tenon/constrain/expression.h"

namespace tenon::constrain {

// What a part of a pattern matches, by where its match stands in the text: ^ and $ ask whether there is text before and
// behind. Whatever it matches with text around it, it also matches without: the rules below rest on that.
struct Placed {
  Expr inner;  // text before and behind
  Expr first;  // text behind only
  Expr last;   // text before only
  Expr alone;  // neither

  static Placed anywhere(Expr e) { return {e, e, e, e}; }
  bool anchored() const { return first != inner || last != inner || alone != inner; }
};

// The algebra of them. No anchor needs to be refused: in the middle of a pattern it says that what precedes it, or
// follows it, is empty.
class PlacedExpressions {
 public:
  explicit PlacedExpressions(Expressions& all) : all_(all) {}

  Placed concat(const Placed& a, const Placed& b) {
    Placed c = Placed::anywhere(all_.concat(a.inner, b.inner));
    if (!a.anchored() && !b.anchored()) return c;
    // Both not empty; or one is, and the other stands where both do.
    std::vector<Expr> first = {all_.concat(a.first, b.inner)}, last = {all_.concat(a.inner, b.last)};
    std::vector<Expr> alone = {all_.concat(a.first, b.last)};
    if (empty(a.first) && b.first != b.inner) first.push_back(b.first);
    if (empty(b.last) && a.last != a.inner) last.push_back(a.last);
    if (empty(a.first) && b.alone != b.last) alone.push_back(b.alone);
    if (empty(b.last) && a.alone != a.first) alone.push_back(a.alone);
    if (empty(a.alone) && empty(b.alone)) alone.push_back(Expressions::kEmpty);
    c.first = all_.either(std::move(first));
    c.last = all_.either(std::move(last));
    c.alone = all_.either(std::move(alone));
    return c;
  }

  Placed either(const std::vector<Placed>& branches) {
    const auto of = [&](Expr Placed::*place) {
      std::vector<Expr> members;
      for (const Placed& branch : branches) members.push_back(branch.*place);
      return all_.either(std::move(members));
    };
    const Expr inner = of(&Placed::inner);
    if (std::none_of(branches.begin(), branches.end(), [](const Placed& p) { return p.anchored(); }))
      return Placed::anywhere(inner);
    return {inner, of(&Placed::first), of(&Placed::last), of(&Placed::alone)};
  }

  Placed repeat(const Placed& p, int least, int most) {
    const Expr inner = all_.repeat(p.inner, least, most);
    if (!p.anchored() || most == 0) return Placed::anywhere(inner);
    return {inner, repeat(p.first, p.first, p.inner, p.inner, least, most),
            repeat(p.last, p.inner, p.inner, p.last, least, most),
            repeat(p.alone, p.first, p.inner, p.last, least, most)};
  }

  // The texts in which a match is found.
  Expr search(const Placed& p, Expr any_text) {
    std::vector<Expr> found = {all_.concat({any_text, p.inner, any_text})};
    if (p.first != p.inner) found.push_back(all_.concat(p.first, any_text));
    if (p.last != p.inner) found.push_back(all_.concat(any_text, p.last));
    if (p.alone != p.first && p.alone != p.last) found.push_back(p.alone);
    return all_.either(std::move(found));
  }

 private:
  bool empty(Expr e) const { return all_.nullable(e); }

  // Repetitions, by where they stand: the only one, and of several that are not empty the first, those between and the
  // last. Where one may be empty beside others that are not, so many may that `least` asks for no more than one.
  // Where two are equal, one stands for both: a tree of them would double with every level.
  Expr repeat(Expr only, Expr first, Expr inner, Expr last, int least, int most) {
    const int needed = empty(first) || empty(last) ? 1 : std::max(least, 1);
    std::vector<Expr> ways;
    if (least == 0 || empty(only)) ways.push_back(Expressions::kEmpty);
    if (most == 1) {
      ways.push_back(only);
    } else {
      const Expr between = all_.repeat(inner, std::max(needed - 2, 0), most == kUnbounded ? kUnbounded : most - 2);
      if (needed > 1)
        ways.push_back(all_.concat({first, between, last}));
      else if (only == first)
        ways.push_back(all_.concat(first, all_.optional(all_.concat(between, last))));
      else if (only == last)
        ways.push_back(all_.concat(all_.optional(all_.concat(first, between)), last));
      else
        ways.insert(ways.end(), {only, all_.concat({first, between, last})});
    }
    return all_.either(std::move(ways));
  }

  Expressions& all_;
};

}  // namespace tenon::constrain
