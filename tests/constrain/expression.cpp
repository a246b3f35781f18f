#include "tenon/constrain/expression.h"

#include <algorithm>
#include <bitset>
#include <boost/test/unit_test.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "../core/random.h"
#include "../io/scratch.h"

BOOST_AUTO_TEST_SUITE(constrain_expression)

using namespace tenon;
using namespace tenon::constrain;
using tenon::test::mentions;
using tenon::test::Random;
using tenon::test::refusal;

namespace {
constexpr Expr kNever = Expressions::kNever, kEmpty = Expressions::kEmpty, kAnything = Expressions::kAnything;

struct Arena {
  explicit Arena(ConstraintLimits limits = {}) : budget(limits), all(budget) {}
  Expr of(char byte) { return all.bytes(ByteSet::of(byte)); }
  bool matches(Expr e, std::string_view text) {
    for (const char byte : text) e = all.derivative(e, static_cast<unsigned char>(byte));
    return all.nullable(e);
  }

  Budget budget;
  Expressions all;
};

// All texts of up to four letters a and b, by number.
const std::vector<std::string>& short_texts() {
  static const std::vector<std::string> texts = [] {
    std::vector<std::string> made = {""};
    for (std::size_t i = 0; made[i].size() < 4; ++i) {
      for (const char letter : {'a', 'b'}) made.push_back(made[i] + letter);
    }
    return made;
  }();
  return texts;
}
// A language restricted to those texts. For every operation, short texts result from short texts only.
using Language = std::bitset<31>;

std::size_t number_of(const std::string& text) {
  const auto& texts = short_texts();
  return static_cast<std::size_t>(std::find(texts.begin(), texts.end(), text) - texts.begin());
}

Language in_turn(const Language& a, const Language& b) {
  static const std::vector<std::size_t> joined = [] {
    std::vector<std::size_t> table;
    for (const auto& x : short_texts()) {
      for (const auto& y : short_texts()) table.push_back(x.size() + y.size() > 4 ? 31 : number_of(x + y));
    }
    return table;
  }();
  Language both;
  for (std::size_t i = 0; i < 31; ++i) {
    for (std::size_t k = 0; a[i] && k < 31; ++k) {
      if (b[k] && joined[i * 31 + k] < 31) both.set(joined[i * 31 + k]);
    }
  }
  return both;
}

Language repeated(const Language& once, int least, int most) {
  Language all(1);
  for (int i = 0; i < least; ++i) all = in_turn(all, once);
  const Language once_or_not = once | Language(1);
  for (int i = least; i < (most == kUnbounded ? least + 4 : most); ++i) all = in_turn(all, once_or_not);
  return all;
}

// An expression and the language that it should match.
struct Pair {
  Expr e;
  Language language;
};

Pair random_pair(Arena& arena, Random& random, int height) {
  Expressions& all = arena.all;
  const int kind = height == 0 ? random.below(5) : random.below(12);
  const auto sub = [&] { return random_pair(arena, random, height - 1); };
  switch (kind) {
    case 0:
      return {kEmpty, Language(1)};
    case 1:
      return {arena.of('a'), Language(1u << number_of("a"))};
    case 2:
      return {arena.of('b'), Language(1u << number_of("b"))};
    case 3:
      return {all.bytes(ByteSet::all()), Language(1u << number_of("a") | 1u << number_of("b"))};
    case 4:
      return random.below(4) == 0 ? Pair{kNever, {}} : Pair{all.literal("ab"), Language(1u << number_of("ab"))};
    case 5:
    case 6: {
      const Pair x = sub(), y = sub();
      return {all.either(x.e, y.e), x.language | y.language};
    }
    case 7: {
      const Pair x = sub(), y = sub();
      return {all.both(x.e, y.e), x.language & y.language};
    }
    case 8: {
      const Pair x = sub();
      return {all.complement(x.e), ~x.language};
    }
    case 9: {
      const Pair x = sub();
      const int least = random.below(4), most = random.below(2) == 0 ? kUnbounded : least + random.below(3);
      return {all.repeat(x.e, least, most), repeated(x.language, least, most)};
    }
    default: {
      const Pair x = sub(), y = sub();
      return {all.concat(x.e, y.e), in_turn(x.language, y.language)};
    }
  }
}

Language language_of(Arena& arena, Expr e) {
  Language language;
  for (std::size_t i = 0; i < 31; ++i) language[i] = arena.matches(e, short_texts()[i]);
  return language;
}

// All derivatives reached from `e`, `e` first. Empty where there are more than `most`.
std::vector<Expr> reached(Arena& arena, Expr e, std::size_t most) {
  std::vector<Expr> states = {e};
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (states.size() > most) return {};
    for (const ByteSet& set : arena.all.byte_classes(states[i])) {
      const Expr next = arena.all.derivative(states[i], set.first());
      if (next != kNever && std::find(states.begin(), states.end(), next) == states.end()) states.push_back(next);
    }
  }
  return states;
}
}  // namespace

BOOST_AUTO_TEST_CASE(random_expressions_match_what_their_operations_mean) {
  Random random(1);
  for (int round = 0; round < 3000; ++round) {
    Arena arena;
    const Pair pair = random_pair(arena, random, 1 + random.below(4));
    BOOST_TEST_CONTEXT("round " << round) {
      BOOST_REQUIRE(language_of(arena, pair.e) == pair.language);
      BOOST_REQUIRE(arena.all.nullable(pair.e) == pair.language[0]);
      const Expr live = arena.all.live_part(pair.e);
      BOOST_REQUIRE(language_of(arena, live) == pair.language);
      BOOST_REQUIRE(arena.all.live_part(live) == live);
    }
  }
}

BOOST_AUTO_TEST_CASE(byte_classes_cover_all_bytes_once_and_derivatives_are_constant_on_them) {
  Random random(2);
  for (int round = 0; round < 300; ++round) {
    Arena arena;
    const Expr e = random_pair(arena, random, 4).e;
    int covered = 0;
    for (const ByteSet& set : arena.all.byte_classes(e)) {
      BOOST_REQUIRE(!set.empty());
      covered += set.count();
      const Expr rest = arena.all.derivative(e, set.first());
      for (int byte = 0; byte < 256; ++byte) {
        if (set.has(byte)) BOOST_REQUIRE(arena.all.derivative(e, byte) == rest);
      }
    }
    BOOST_REQUIRE(covered == 256);
    ByteSet all;
    for (const ByteSet& set : arena.all.byte_classes(e)) all = all | set;
    BOOST_REQUIRE((all == ByteSet::all()));
  }
}

BOOST_AUTO_TEST_CASE(no_derivative_is_a_dead_end) {
  Random random(3);
  int explored = 0;
  for (int round = 0; round < 500; ++round) {
    Arena arena;
    const Expr start = arena.all.live_part(random_pair(arena, random, 4).e);
    if (start == kNever) continue;
    const std::vector<Expr> states = reached(arena, start, 100);
    std::vector<bool> ends(states.size());
    for (bool changed = !states.empty(); changed;) {
      changed = false;
      for (std::size_t i = states.size(); i-- > 0;) {
        if (ends[i]) continue;
        bool end = arena.all.nullable(states[i]);
        for (const ByteSet& set : arena.all.byte_classes(states[i])) {
          const auto next = std::find(states.begin(), states.end(), arena.all.derivative(states[i], set.first()));
          end |= next != states.end() && ends[static_cast<std::size_t>(next - states.begin())];
        }
        if (end) ends[i] = changed = true;
      }
    }
    BOOST_TEST_CONTEXT("round " << round) BOOST_REQUIRE(std::count(ends.begin(), ends.end(), false) == 0);
    explored += !states.empty();
  }
  BOOST_TEST(explored > 300);
}

BOOST_AUTO_TEST_CASE(equal_expressions_have_equal_numbers) {
  Arena arena;
  Expressions& all = arena.all;
  const Expr a = arena.of('a'), b = arena.of('b'), ab = all.literal("ab"), cd = all.literal("cd"),
             ef = all.literal("ef");
  BOOST_TEST(all.either(a, b) == all.bytes(ByteSet::range('a', 'b')));
  BOOST_TEST(all.either(ab, cd) == all.either(cd, ab));
  BOOST_TEST(all.either(ab, ab) == ab);
  BOOST_TEST(all.either(all.either(ab, cd), ef) == all.either(ab, all.either(ef, cd)));
  BOOST_TEST(all.either(ab, kNever) == ab);
  BOOST_TEST(all.either(ab, kAnything) == kAnything);
  BOOST_TEST(all.either(std::vector<Expr>{}) == kNever);
  BOOST_TEST(all.optional(all.optional(ab)) == all.optional(ab));
  BOOST_TEST(all.optional(all.repeat(ab, 0)) == all.repeat(ab, 0));
  BOOST_TEST(all.concat(all.concat(ab, cd), ef) == all.literal("abcdef"));
  BOOST_TEST(all.concat({ab, cd, ef}) == all.concat(ab, all.concat(cd, ef)));
  BOOST_TEST(all.concat(ab, kEmpty) == ab);
  BOOST_TEST(all.concat(kEmpty, ab) == ab);
  BOOST_TEST(all.concat(ab, kNever) == kNever);
  BOOST_TEST(all.concat(kNever, ab) == kNever);
  BOOST_TEST(all.literal("") == kEmpty);
  BOOST_TEST(all.bytes(ByteSet{}) == kNever);
  BOOST_TEST(all.both(a, b) == kNever);
  BOOST_TEST(all.both(all.bytes(ByteSet::range('a', 'c')), all.bytes(ByteSet::range('c', 'e'))) == arena.of('c'));
  BOOST_TEST(all.both(ab, kAnything) == ab);
  BOOST_TEST(all.both(ab, kNever) == kNever);
  BOOST_TEST(all.both(ab, kEmpty) == kNever);
  BOOST_TEST(all.both(all.repeat(ab, 0), kEmpty) == kEmpty);
  BOOST_TEST(all.both(std::vector<Expr>{}) == kAnything);
  BOOST_TEST(all.both(all.repeat(ab, 0), all.repeat(cd, 0)) == all.both(all.repeat(cd, 0), all.repeat(ab, 0)));
  BOOST_TEST(all.complement(all.complement(ab)) == ab);
  BOOST_TEST(all.complement(kNever) == kAnything);
  BOOST_TEST(all.complement(kAnything) == kNever);
  BOOST_TEST(all.repeat(ab, 1, 1) == ab);
  BOOST_TEST(all.repeat(ab, 0, 0) == kEmpty);
  BOOST_TEST(all.repeat(kNever, 0) == kEmpty);
  BOOST_TEST(all.repeat(kNever, 1) == kNever);
  BOOST_TEST(all.repeat(kEmpty, 3, 7) == kEmpty);
  BOOST_TEST(all.repeat(all.repeat(ab, 0), 2, 5) == all.repeat(ab, 0));
  BOOST_TEST(all.repeat(all.optional(ab), 3, 5) == all.repeat(all.optional(ab), 0, 5));
}

BOOST_AUTO_TEST_CASE(parts_that_match_nothing_are_removed) {
  Arena arena;
  Expressions& all = arena.all;
  const Expr even = all.repeat(all.literal("aa"), 0), odd = all.concat(arena.of('a'), even);
  const Expr dead = all.both(even, odd);
  BOOST_TEST(dead != kNever);  // only a search can show that it is dead
  BOOST_TEST(all.live_part(dead) == kNever);
  BOOST_TEST(all.live_part(all.either(dead, even)) == even);
  BOOST_TEST(all.live_part(all.concat(even, dead)) == kNever);
  BOOST_TEST(all.live_part(all.repeat(dead, 0)) == kEmpty);
  BOOST_TEST(all.live_part(all.repeat(dead, 1)) == kNever);
  BOOST_TEST(all.live_part(all.complement(all.either(even, odd))) != kNever);  // "b"
  BOOST_TEST(all.live_part(all.complement(all.either({kEmpty, all.concat(all.bytes(ByteSet::all()), kAnything)}))) ==
             kNever);
  // "a", then either a dead part or "c": no "b" may follow.
  const Expr e = all.concat(arena.of('a'), all.either(all.concat(arena.of('b'), dead), arena.of('c')));
  const Expr after = all.derivative(e, 'a');
  BOOST_TEST(after == arena.of('c'));
  BOOST_TEST(all.derivative(after, 'b') == kNever);
  // A dead intersection whose end is many bytes away.
  const Expr far = all.both(all.repeat(arena.of('a'), 5000, 5000), all.repeat(arena.of('a'), 5001, 6000));
  BOOST_TEST(all.live_part(far) == kNever);
}

BOOST_AUTO_TEST_CASE(counted_repetitions_are_not_unrolled) {
  Arena arena;
  Expressions& all = arena.all;
  const Expr word = all.either(all.literal("ab"), all.literal("cde"));
  const std::size_t before = all.size();
  Expr e = all.repeat(word, 50'000, 100'000);
  BOOST_TEST(all.size() == before + 1);
  for (int i = 0; i < 1000; ++i) e = all.derivative(all.derivative(e, 'a'), 'b');
  BOOST_TEST(e == all.repeat(word, 49'000, 99'000));
  BOOST_TEST(all.size() <= before + 3000u);
  const Expr nested = all.repeat(all.repeat(all.repeat(word, 1000, 1000), 1000, 1000), 1000, 1000);
  BOOST_TEST(all.derivative(nested, 'a') != kNever);
  BOOST_TEST(all.size() <= before + 3010u);
}

BOOST_AUTO_TEST_CASE(calls_come_first_with_what_follows_them) {
  Arena arena;
  Expressions& all = arena.all;
  const Expr x = arena.of('x'), y = arena.of('y');
  const auto calls = [&](Expr e) {
    std::vector<Expressions::Call> found;
    all.first_calls(e, found);
    std::vector<std::pair<int, Expr>> pairs;
    for (const auto& call : found) pairs.emplace_back(call.rule, call.rest);
    std::sort(pairs.begin(), pairs.end());
    return pairs;
  };
  using Pairs = std::vector<std::pair<int, Expr>>;
  BOOST_TEST((calls(all.call(7)) == Pairs{{7, kEmpty}}));
  BOOST_TEST((calls(all.concat(all.call(7), x)) == Pairs{{7, x}}));
  BOOST_TEST(calls(all.concat(x, all.call(7))).empty());
  BOOST_TEST((calls(all.concat(all.optional(x), all.call(7))) == Pairs{{7, kEmpty}}));
  BOOST_TEST((calls(all.either({all.concat(all.call(1), x), all.concat(all.call(2), y), x})) == Pairs{{1, x}, {2, y}}));
  const Expr many = all.repeat(all.concat(all.call(3), x), 2, 4);
  BOOST_TEST((calls(many) == Pairs{{3, all.concat(x, all.repeat(all.concat(all.call(3), x), 1, 3))}}));
  BOOST_TEST(all.derivative(all.concat(all.call(7), x), 'x') == kNever);
  BOOST_TEST(all.derivative(all.either(all.concat(all.call(7), x), all.concat(x, y)), 'x') == y);
  BOOST_TEST(!all.nullable(all.call(7)));
  BOOST_TEST(all.has_calls(many));
  BOOST_TEST(!all.has_calls(x));
}

BOOST_AUTO_TEST_CASE(limits_are_refusals) {
  {
    Arena arena({.bytes = 1 << 20});
    BOOST_TEST(mentions(refusal([&] { arena.all.literal(std::string(100'000, 'a')); }), {"too complex", "1 MiB"}));
  }
  {
    Arena arena;
    Expr e = arena.of('a');
    for (int i = 0; i < 2000; ++i)
      e = arena.all.repeat(
          arena.all.either(arena.all.concat(e, arena.of(static_cast<char>(99 + i % 2))), arena.of('b')), 2, 3);
    BOOST_TEST(mentions(refusal([&] { arena.all.derivative(e, 'a'); }), {"too complex", "nested"}));
  }
  {
    // Texts whose 40th letter from the end is an a: 2^40 states.
    Arena arena({.time = std::chrono::milliseconds(200), .bytes = 16 << 20});
    Expressions& all = arena.all;
    const Expr ab = all.bytes(ByteSet::range('a', 'b'));
    const auto from_end = [&](int n, char c) {
      return all.concat({all.repeat(ab, 0), arena.of(c), all.repeat(ab, n, n)});
    };
    const Expr dead = all.both(from_end(40, 'a'), from_end(40, 'b'));
    BOOST_TEST(mentions(refusal([&] { all.live_part(dead); }), {"too complex"}));
  }
}

BOOST_AUTO_TEST_CASE(cached_results_count_against_the_budget) {
  Arena arena;
  Expressions& all = arena.all;
  const Expr text = all.literal(std::string(1000, 'a'));
  const std::size_t expressions = all.size(), bytes = arena.budget.bytes();
  BOOST_TEST(arena.matches(text, std::string(1000, 'a')));
  BOOST_TEST(all.size() == expressions);
  BOOST_TEST(arena.budget.bytes() >= bytes + 999 * 32);
  BOOST_TEST(arena.matches(text, std::string(1000, 'a')));
  const std::size_t known = arena.budget.bytes();
  BOOST_TEST(known < bytes + 1000 * 64);  // charged once
  all.live_part(all.both(text, all.complement(all.literal("a"))));
  BOOST_TEST(arena.budget.bytes() >= known + 999 * 32);
}

// Work that grows with the square of a chain's length is refused above a limit. Nothing overflows the stack.
BOOST_AUTO_TEST_CASE(long_chains_neither_overflow_the_stack_nor_take_long) {
  constexpr int kLong = 100'000;
  {
    Arena arena;
    Expressions& all = arena.all;
    const Expr e = all.concat(all.literal(std::string(kLong, 'a')), all.complement(all.literal("x")));
    BOOST_TEST(all.derivative(e, 'a') != kNever);
  }
  {
    Arena arena;
    Expressions& all = arena.all;
    Expr e = kEmpty;
    for (int i = 0; i < kLong; ++i) e = all.concat(all.optional(all.call(i)), e);
    std::vector<Expressions::Call> found;
    BOOST_TEST(mentions(refusal([&] { all.first_calls(e, found); }), {"too complex"}));
  }
  {
    Arena arena;
    Expressions& all = arena.all;
    std::vector<Expr> ends;  // suffixes of one chain
    Expr e = kEmpty;
    for (int i = 0; i < kLong; ++i) ends.push_back(e = all.concat(all.optional(all.call(i % 2)), e));
    Expressions::Rebuilt known;
    const Expr any = all.either(ends);
    BOOST_TEST(all.without(any, {false, false}, known) == any);
    known.clear();
    BOOST_TEST(all.without(all.concat(arena.of('a'), any), {true, true}, known) == arena.of('a'));
  }
  {
    Arena arena;
    Expressions& all = arena.all;
    Expr e = kEmpty;
    for (int i = 0; i < kLong; ++i) e = all.concat(all.optional(arena.of('a')), e);
    BOOST_TEST(mentions(refusal([&] { all.derivative(e, 'a'); }), {"too complex"}));
    BOOST_TEST(mentions(refusal([&] { all.byte_classes(e); }), {"too complex"}));
  }
}

BOOST_AUTO_TEST_SUITE_END()
