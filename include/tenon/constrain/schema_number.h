// Numbers between bounds and multiples, digit by digit.
#pragma once
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/constrain/byte_set.h"
#include "tenon/constrain/expression.h"
#include "tenon/constrain/refused.h"
#include "tenon/constrain/schema_decimal.h"

namespace tenon::constrain::schema {

/// One bound, and where the schema states it.
struct Bound {
  Decimal value;
  bool exclusive = false;  ///< the value itself is outside
  std::string at = {};     ///< JSON pointer

  Bound magnitude() const { return {value.magnitude(), exclusive, at}; }
};
/// A multipleOf, and where the schema states it.
struct Multiple {
  Decimal of;
  std::string at = {};
};

/// Conditions on numbers.
struct NumberShape {
  bool whole = false, broken = false;        ///< whole: integers only; broken: no integers
  std::optional<Bound> low = {}, high = {};  ///< lower and upper bound
  std::vector<Multiple> multiples = {};      ///< the number must be a multiple of each
  /// The values of enum and const. The other members apply too.
  std::optional<std::vector<Json>> values = {};
  std::string at = {};  ///< where the values are stated

  bool is_any() const { return !whole && !broken && !low && !high && multiples.empty() && !values; }
};

/// Whether `d` satisfies all but `values`.
inline bool within(const NumberShape& n, const Decimal& d) {
  if ((n.whole && !d.is_whole()) || (n.broken && d.is_whole())) return false;
  if (n.low && compare(d, n.low->value) < (n.low->exclusive ? 1 : 0)) return false;
  if (n.high && compare(d, n.high->value) > (n.high->exclusive ? -1 : 0)) return false;
  return std::all_of(n.multiples.begin(), n.multiples.end(), [&](const Multiple& m) { return is_multiple(d, m.of); });
}

/// Whether the bounds alone exclude all numbers.
inline bool none_within(const NumberShape& n) {
  if (n.whole && n.broken) return true;
  const int order = n.low && n.high ? compare(n.low->value, n.high->value) : -1;
  return order > 0 || (order == 0 && (n.low->exclusive || n.high->exclusive));
}
/// Numbers with this many digits stay distinct in every parser that reads doubles.
inline constexpr int kSafeDigits = 15;

/// Whether the shape has texts wherever it has values. The digits of texts are limited, so there may be values without
/// texts.
inline bool texts_tell(const NumberShape& n) {
  const bool cut = n.broken || !n.multiples.empty();  // limited to safe digits, as with an exclusive bound
  const auto short_enough = [&](const std::optional<Bound>& b) {
    if (!b || (n.whole && n.multiples.empty())) return true;
    const bool safe = b->value.whole().size() + 10 <= kSafeDigits;
    return b->value.fraction().size() <= 9 && (safe || n.whole || (!cut && (!b->exclusive || b->value.is_zero())));
  };
  return !n.is_any() && short_enough(n.low) && short_enough(n.high) &&
         std::all_of(n.multiples.begin(), n.multiples.end(),
                     [](const Multiple& m) { return m.of.fraction().size() <= 9; });
}

/// Place for the error that values may exist but none of their texts: the bound with the most digits.
inline std::string said_finest(const NumberShape& n) {
  const auto digits = [](const std::optional<Bound>& b) {
    return b ? b->value.whole().size() + b->value.fraction().size() : 0;
  };
  const auto& bound = digits(n.high) >= digits(n.low) ? n.high : n.low;
  return bound ? bound->at : n.multiples.empty() ? n.at : n.multiples.front().at;
}

/// Most digits of a number, so that a runaway model ends.
inline constexpr int kWholeDigits = 19, kFractionDigits = 17, kExponentDigits = 3;
// A number times 10^289, the largest exponent, is below 1e308: every double can hold it.
static_assert(kWholeDigits + 289 <= 308);
inline constexpr int kMostBoundDigits = 40;  ///< before or after the point

/// Writes the numbers of a shape.
class NumberText {
 public:
  NumberText(Expressions& expressions, const NumberShape& shape) : e_(expressions), n_(shape) {
    for (const bool is_low : {true, false}) {
      const auto& bound = is_low ? n_.low : n_.high;
      if (!bound) continue;
      const int size = static_cast<int>(bound->value.whole().size());
      const bool away_from_zero = bound->value.negative != is_low;
      if (away_from_zero && size <= kMostBoundDigits) whole_digits_ = std::max(whole_digits_, size + 1);
      // A number below an exclusive bound must not be read as the bound.
      if (n_.whole || !bound->exclusive || bound->value.is_zero()) continue;
      if (size >= kSafeDigits) {
        refuse_unsupported(bound->at, "an exclusive bound of " + std::to_string(kSafeDigits) +
                                          " digits or more, of numbers that are not whole");
      }
      fraction_digits_ = std::min(kSafeDigits - size, fraction_digits_);
    }
  }

  /// Each value that the shape allows, without `values`. If anything bounds it, the text has no exponent.
  Expr text() {
    if (n_.whole && n_.broken) return Expressions::kNever;
    const bool free = !n_.whole && !n_.broken && !n_.low && !n_.high && n_.multiples.empty();
    return e_.live_part(free ? unbounded() : e_.either(positive(), negative()));
  }

 private:
  Expr one(int first, int last) { return first > last ? Expressions::kNever : e_.bytes(ByteSet::range(first, last)); }
  Expr digit() { return one('0', '9'); }
  Expr digits(int least, int most) { return e_.repeat(digit(), least, most); }
  // Without leading zeros.
  Expr whole(int most) { return e_.either(e_.literal("0"), e_.concat(one('1', '9'), digits(0, most - 1))); }
  Expr fraction() { return e_.concat(e_.literal("."), digits(1, fraction_digits_)); }
  Expr broken_fraction() {
    return e_.concat(e_.literal("."), e_.both(digits(1, fraction_digits_), some_digit_not_zero()));
  }
  Expr some_digit_not_zero() {
    return e_.concat({e_.repeat(e_.literal("0"), 0), one('1', '9'), e_.repeat(digit(), 0)});
  }

  Expr unbounded() {
    const Expr up = e_.either(
        {digits(1, 2), e_.concat(one('0', '1'), digits(2, 2)), e_.concat({e_.literal("2"), one('0', '8'), digit()})});
    const Expr down = e_.concat(e_.literal("-"), digits(1, kExponentDigits));
    const Expr power = e_.either(down, e_.concat(e_.optional(e_.literal("+")), up));
    const Expr exponent = e_.optional(e_.concat(e_.bytes(ByteSet::of('e') | ByteSet::of('E')), power));
    const Expr more = e_.concat(e_.optional(fraction()), exponent);
    const Expr not_zero = e_.either(e_.concat({one('1', '9'), digits(0, whole_digits_ - 1), more}),
                                    e_.concat({e_.literal("0"), broken_fraction(), exponent}));
    return e_.either(e_.concat(whole(whole_digits_), more), e_.concat(e_.literal("-"), not_zero));
  }

  Expr positive() {
    if (n_.high && n_.high->value.negative) return Expressions::kNever;
    std::vector<Expr> all = {unsigned_text()};
    if (n_.low && !n_.low->value.negative) all.push_back(bounded(*n_.low, true));
    if (n_.high) all.push_back(bounded(*n_.high, false));
    return e_.both(std::move(all));
  }
  Expr negative() {
    if (n_.low && (!n_.low->value.negative)) return Expressions::kNever;
    std::vector<Expr> all = {unsigned_text(), at_least({Decimal{}, true})};  // no -0
    if (n_.high && n_.high->value.negative) all.push_back(bounded(n_.high->magnitude(), true));
    if (n_.low) all.push_back(bounded(n_.low->magnitude(), false));
    return e_.concat(e_.literal("-"), e_.both(std::move(all)));
  }

  Expr unsigned_text() {
    const Expr behind = n_.whole ? Expressions::kEmpty : n_.broken ? broken_fraction() : e_.optional(fraction());
    std::vector<Expr> all = {e_.concat(whole(whole_digits_), behind)};
    // With more digits, a parser of doubles would lose the last.
    if (!n_.whole && (n_.broken || !n_.multiples.empty())) {
      all.push_back(e_.either(digits(1, kUnbounded), e_.repeat(e_.bytes(ByteSet::all()), 0, kSafeDigits + 1)));
    }
    for (const Multiple& m : n_.multiples) all.push_back(multiple(m));
    return e_.both(std::move(all));
  }

  // Numbers with a fraction must satisfy the bound as doubles, too: 9007199254740993.0 is read as a smaller number.
  Expr bounded(const Bound& bound, bool from_below) {
    const auto text = [&](const Bound& b) { return from_below ? at_least(b) : at_most(b); };
    const Expr exact = text(bound);
    if (n_.whole || bound.exclusive || !bound.value.is_whole()) return exact;
    const Expr read = text({double_at(bound.value, from_below), false, bound.at});
    return read == exact ? exact : e_.both(exact, e_.either(digits(1, kUnbounded), read));
  }
  Expr at_least(const Bound& bound) {
    const std::string whole = bound.value.whole(), fraction_part = bound.value.fraction();
    if (static_cast<int>(whole.size()) > kMostBoundDigits || fraction_part.size() > kMostBoundDigits) {
      refuse_unsupported(bound.at, "a bound of more than " + std::to_string(kMostBoundDigits) + " digits");
    }
    Expr behind = e_.optional(fraction());
    if (!fraction_part.empty())
      behind = e_.concat(e_.literal("."), fraction_above(fraction_part, bound.exclusive));
    else if (bound.exclusive)
      behind = broken_fraction();
    return e_.either(e_.concat(greater(whole), e_.optional(fraction())), e_.concat(e_.literal(whole), behind));
  }
  Expr at_most(const Bound& bound) {
    const std::string whole = bound.value.whole(), fraction_part = bound.value.fraction();
    if (static_cast<int>(whole.size()) > whole_digits_) return Expressions::kAnything;
    Expr behind = Expressions::kNever;
    if (!fraction_part.empty())
      behind = e_.optional(e_.concat(e_.literal("."), fraction_below(fraction_part, bound.exclusive)));
    else if (!bound.exclusive)
      behind = e_.optional(e_.concat(e_.literal("."), e_.repeat(e_.literal("0"), 1)));
    return e_.either(e_.concat(less(whole), e_.optional(fraction())), e_.concat(e_.literal(whole), behind));
  }

  Expr greater(const std::string& than) {
    const int size = static_cast<int>(than.size());
    const Expr longer = size < whole_digits_ && than != "0" ? e_.concat(one('1', '9'), digits(size, whole_digits_ - 1))
                                                            : Expressions::kNever;
    Expr same_size = Expressions::kNever;
    for (int i = size - 1; i >= 0; --i) {
      const char d = than[static_cast<std::size_t>(i)];
      same_size =
          e_.either(e_.concat(one(d + 1, '9'), digits(size - 1 - i, size - 1 - i)), e_.concat(one(d, d), same_size));
    }
    if (than == "0") same_size = e_.concat(one('1', '9'), digits(0, whole_digits_ - 1));
    return e_.either(longer, same_size);
  }
  Expr less(const std::string& than) {
    const int size = static_cast<int>(than.size());
    Expr same_size = Expressions::kNever;
    for (int i = size - 1; i >= 0; --i) {
      const char d = than[static_cast<std::size_t>(i)];
      const char least = i == 0 && size > 1 ? '1' : '0';
      same_size =
          e_.either(e_.concat(one(least, d - 1), digits(size - 1 - i, size - 1 - i)), e_.concat(one(d, d), same_size));
    }
    return size > 1 ? e_.either(whole(size - 1), same_size) : same_size;
  }

  // Fraction digits that are greater than these.
  Expr fraction_above(const std::string& than, bool exclusive) {
    Expr above = exclusive ? some_digit_not_zero() : e_.repeat(digit(), 0);
    for (auto d = than.rbegin(); d != than.rend(); ++d) {
      above = e_.either(e_.concat(one(*d + 1, '9'), e_.repeat(digit(), 0)), e_.concat(one(*d, *d), above));
    }
    return above;
  }
  Expr fraction_below(const std::string& than, bool exclusive) {
    Expr below = exclusive ? Expressions::kNever : e_.repeat(e_.literal("0"), 0);
    for (auto d = than.rbegin(); d != than.rend(); ++d) {
      below = e_.either(
          {e_.concat(one('0', *d - 1), e_.repeat(digit(), 0)), e_.concat(one(*d, *d), below), Expressions::kEmpty});
    }
    return below;
  }

  struct Ratio {
    std::uint64_t k = 0;  // value: k * 10^(zeros - places)
    int zeros = 0, places = 0;
  };
  // A whole number is a multiple of a ratio if it is a multiple of the numerator in lowest terms.
  Ratio ratio(const Multiple& multiple) const {
    const Decimal& m = multiple.of;
    Ratio r{.zeros = std::max(m.last_place(), 0), .places = std::max(-m.last_place(), 0)};
    for (const char c : m.digits) r.k = 10 * r.k + static_cast<std::uint64_t>(c - '0');
    if (n_.whole) {
      for (const unsigned prime : {2u, 5u}) {
        for (int i = 0; i < r.places && r.k % prime == 0; ++i) r.k /= prime;
      }
      r.places = 0;
      for (; r.k % 10 == 0; r.k /= 10) ++r.zeros;
    }
    if (r.k > 1000 || r.zeros > 15 || r.places > 15)
      refuse_unsupported(multiple.at, "multipleOf beyond 1000 times or parts of a power of ten");
    return r;
  }

  // One state for each remainder and each number of digits that may follow.
  Expr multiple(const Multiple& m) {
    const Ratio r = ratio(m);
    const std::size_t k = r.k;
    const std::vector<Expr> end = ends(r);
    const int places = std::clamp(static_cast<int>(10000 / k), 7, kWholeDigits);
    const int most = n_.low || n_.high ? std::max(places, whole_digits_) : places;
    std::vector<Expr> rest(k, Expressions::kNever);  // by remainder
    rest = end;
    std::vector<Expr> next(k);
    for (int i = 1; i < most; ++i) {
      for (std::size_t left = 0; left < k; ++left) next[left] = e_.either(end[left], step(rest, left, 0));
      std::swap(rest, next);
    }
    const Expr zero = e_.concat(e_.literal("0"), r.zeros > 0 ? whole_end() : end[0]);
    return e_.either(zero, step(rest, 0, 1));
  }
  Expr step(const std::vector<Expr>& rest, std::size_t left, int least) {
    e_.budget().check();
    std::vector<Expr> ways;
    for (int d = least; d < 10; ++d) {
      ways.push_back(e_.concat(one('0' + d, '0' + d), rest[(10 * left + static_cast<std::size_t>(d)) % rest.size()]));
    }
    return e_.either(std::move(ways));
  }
  Expr whole_end() { return n_.whole ? Expressions::kEmpty : e_.optional(e_.literal(".0")); }
  // The text that may follow the whole digits, by their remainder.
  std::vector<Expr> ends(const Ratio& r) {
    const std::size_t k = r.k;
    std::vector<Expr> end(k, Expressions::kNever);
    if (r.places == 0) {
      end[0] = e_.concat(e_.literal(std::string(static_cast<std::size_t>(r.zeros), '0')), whole_end());
      return end;
    }
    std::vector<Expr> rest = end, next = end;  // by remainder, with i places read
    for (int i = r.places; i >= 0; --i) {
      std::uint64_t power = 1;
      for (int j = i; j < r.places; ++j) power = power * 10 % k;
      for (std::size_t left = 0; left < k; ++left) {
        const Expr stop = left * power % k == 0 ? Expressions::kEmpty : Expressions::kNever;
        const Expr more = i < r.places ? step(rest, left, 0) : Expressions::kNever;
        next[left] = e_.either(stop, i == 0 ? e_.concat(e_.literal("."), more) : more);
      }
      std::swap(rest, next);
    }
    return rest;
  }

  Expressions& e_;
  const NumberShape& n_;
  int whole_digits_ = kWholeDigits, fraction_digits_ = kFractionDigits;
};

}  // namespace tenon::constrain::schema
