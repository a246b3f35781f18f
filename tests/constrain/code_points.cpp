#include "tenon/constrain/code_points.h"

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "../core/random.h"
#include "../io/scratch.h"

BOOST_AUTO_TEST_SUITE(constrain_code_points)

using namespace tenon;
using namespace tenon::constrain;
using tenon::test::mentions;
using tenon::test::Random;
using tenon::test::refusal;

namespace {
constexpr char32_t kLast = 0x10FFFF;

bool is_scalar(char32_t c) { return c <= kLast && (c < 0xD800 || c > 0xDFFF); }

std::string utf8(char32_t c) {
  std::string out;
  append_code_point(out, c);
  return out;
}

// Expected: Python's json.dumps(c, ensure_ascii=False)[1:-1].
std::string json(char32_t c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  if (c >= 0x20) return utf8(c);
  char text[8];
  std::snprintf(text, sizeof text, "\\u%04x", static_cast<unsigned>(c));
  return text;
}

bool matches(Expressions& all, Expr e, std::string_view text) {
  for (const char byte : text) e = all.derivative(e, static_cast<unsigned char>(byte));
  return all.nullable(e);
}

// Number of texts that match; all are short.
std::uint64_t texts(Expressions& all, Expr e) {
  if (e == Expressions::kNever) return 0;
  std::uint64_t count = all.nullable(e) ? 1 : 0;
  for (const ByteSet& set : all.byte_classes(e)) {
    const Expr rest = all.derivative(e, set.first());
    if (rest != Expressions::kNever) count += static_cast<std::uint64_t>(set.count()) * texts(all, rest);
  }
  return count;
}

std::uint64_t size(const CodePoints& points) {
  std::uint64_t count = 0;
  for (const auto& range : points.ranges()) count += range.last - range.first + 1;
  return count;
}

// Characters at the edges of all ranges.
char32_t interesting(Random& random) {
  static const std::vector<char32_t> edges = {
      0,      0x1F,   0x20,   0x22,   0x5C,   0x7F,   0x80,   0xBF,    0xC0,    0x7FF,   0x800,   0xFFF,    0x1000,
      0xCFFF, 0xD000, 0xD7FF, 0xD800, 0xDFFF, 0xE000, 0xFFFF, 0x10000, 0x3FFFF, 0x40000, 0xFFFFF, 0x100000, 0x10FFFF};
  if (random.below(3) == 0) return static_cast<char32_t>(random.below(0x110000));
  const int near = static_cast<int>(edges[static_cast<std::size_t>(random.below(static_cast<int>(edges.size())))]) +
                   random.below(5) - 2;
  return static_cast<char32_t>(std::clamp(near, 0, 0x110002));
}
}  // namespace

BOOST_AUTO_TEST_CASE(sets_are_sorted_and_merged_and_hold_no_surrogates) {
  BOOST_TEST((CodePoints{{'d', 'f'}, {'a', 'c'}} == CodePoints{{'a', 'f'}}));
  BOOST_TEST((CodePoints{{'a', 'c'}, {'b', 'z'}, {'c', 'd'}} == CodePoints{{'a', 'z'}}));
  BOOST_TEST((CodePoints{{'z', 'a'}}.empty()));
  BOOST_TEST((CodePoints{{0xD800, 0xDFFF}}.empty()));
  BOOST_TEST((CodePoints{{0x110000, 0xFFFFFFFF}}.empty()));
  BOOST_TEST((CodePoints{{0, 0xFFFFFFFF}} == CodePoints::all()));
  BOOST_TEST((~CodePoints() == CodePoints::all()));
  BOOST_TEST((~CodePoints::all()).empty());
  BOOST_TEST(size(CodePoints::all()) == 0x110000u - 0x800u);
  BOOST_TEST(!CodePoints::all().has(0xD800));
  BOOST_TEST(!CodePoints::all().has(0x110000));
  CodePoints points;
  BOOST_TEST(points.empty());
  points.add('x', 'z');
  points.add('a', 'c');
  points.add('d', 'd');
  BOOST_TEST((points == CodePoints{{'a', 'd'}, {'x', 'z'}}));
}

BOOST_AUTO_TEST_CASE(operations_on_sets_are_those_on_their_members) {
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    CodePoints sets[2];
    std::vector<char32_t> probes;
    for (CodePoints& set : sets) {
      for (int i = random.below(6); i > 0; --i) {
        const char32_t first = interesting(random), last = interesting(random);
        set.add(first, last);
        for (const char32_t c : {first, last}) {
          probes.insert(probes.end(), {char32_t(c - 1), c, char32_t(c + 1)});
        }
      }
    }
    const auto& [a, b] = sets;
    for (const char32_t c : probes) {
      BOOST_REQUIRE((a | b).has(c) == (a.has(c) || b.has(c)));
      BOOST_REQUIRE((a & b).has(c) == (a.has(c) && b.has(c)));
      BOOST_REQUIRE((~a).has(c) == (is_scalar(c) && !a.has(c)));
    }
    BOOST_REQUIRE((~~a == a));
    BOOST_REQUIRE(((a | b) == ~(~a & ~b)));
    BOOST_REQUIRE(size(a) + size(b) == size(a | b) + size(a & b));
  }
}

BOOST_AUTO_TEST_CASE(every_character_has_exactly_one_spelling) {
  for (const auto spelling : {Spelling::utf8, Spelling::json}) {
    Budget budget;
    Expressions all(budget);
    const Expr any = any_character(all, spelling);
    BOOST_TEST(texts(all, any) == 0x110000u - 0x800u);
    int missed = 0;
    for (char32_t c = 0; c <= kLast; ++c) {
      if (is_scalar(c)) missed += !matches(all, any, spelling == Spelling::utf8 ? utf8(c) : json(c));
    }
    BOOST_TEST(missed == 0);
    BOOST_TEST(all.size() < 100u);  // compact
  }
}

BOOST_AUTO_TEST_CASE(the_spellings_of_a_set_are_those_of_its_characters) {
  Random random(2);
  for (int round = 0; round < 300; ++round) {
    Budget budget;
    Expressions all(budget);
    CodePoints points;
    for (int i = random.below(5); i > 0; --i) {
      const char32_t first = interesting(random), last = interesting(random);
      points.add(std::min(first, last), random.below(2) == 0 ? std::max(first, last) : first + 3);
    }
    const Expr as_utf8 = spelled(all, points, Spelling::utf8), as_json = spelled(all, points, Spelling::json);
    BOOST_REQUIRE(texts(all, as_utf8) == size(points));
    BOOST_REQUIRE(texts(all, as_json) == size(points));
    for (int i = 0; i < 40; ++i) {
      const char32_t c = interesting(random);
      if (!is_scalar(c)) continue;
      BOOST_REQUIRE(matches(all, as_utf8, utf8(c)) == points.has(c));
      BOOST_REQUIRE(matches(all, as_json, json(c)) == points.has(c));
    }
  }
}

BOOST_AUTO_TEST_CASE(equal_sets_are_equal_expressions_and_few_bytes_are_told_apart) {
  Budget budget;
  Expressions all(budget);
  BOOST_TEST(spelled(all, {{'a', 'c'}}, Spelling::utf8) == all.bytes(ByteSet::range('a', 'c')));
  BOOST_TEST(spelled(all, {{'a', 'c'}}, Spelling::json) == all.bytes(ByteSet::range('a', 'c')));
  BOOST_TEST(spelled(all, {{0xE9, 0xE9}}, Spelling::json) == all.literal("\xC3\xA9"));
  BOOST_TEST(spelled(all, {}, Spelling::utf8) == Expressions::kNever);
  BOOST_TEST(spelled(all, {{0xD800, 0xDBFF}}, Spelling::json) == Expressions::kNever);
  // ASCII, 7 kinds of lead bytes, the other bytes.
  BOOST_TEST(all.byte_classes(any_character(all, Spelling::utf8)).size() <= 9u);
}

BOOST_AUTO_TEST_CASE(texts_are_read_as_characters_or_refused_with_the_byte) {
  BOOST_TEST((characters_of("a\xC3\xA9\xE6\x97\xA5\xF0\x9F\x98\x80", "") == U"a\u00E9\u65E5\U0001F600"));
  BOOST_TEST(characters_of("", "").empty());
  for (const char* bad : {"ab\xFF", "ab\xC3", "ab\xC0\x80", "ab\xED\xA0\x80", "ab\xF4\x90\x80\x80", "ab\x80"}) {
    BOOST_TEST(mentions(refusal([&] { characters_of(bad, ""); }), {"byte 3", "UTF-8"}));
    BOOST_TEST(mentions(refusal([&] { characters_of(bad, "#/pattern"); }), {"#/pattern: ", "byte 3", "UTF-8"}));
  }
  try {
    characters_of("\xFF", "#/a");
    BOOST_FAIL("accepted");
  } catch (const Refused& refused) {
    BOOST_TEST((refused.kind() == Error::Kind::invalid_request));
    BOOST_TEST(refused.where() == "#/a");
  }
}

BOOST_AUTO_TEST_SUITE_END()
