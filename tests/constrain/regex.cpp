#include "tenon/constrain/regex.h"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <string>
#include <vector>

#include "../core/random.h"
#include "../io/scratch.h"
#include "tenon/io/json.h"

BOOST_AUTO_TEST_SUITE(constrain_regex)

using namespace tenon;
using namespace tenon::constrain;
using tenon::test::mentions;
using tenon::test::Random;
using tenon::test::refusal;

namespace {
const std::string kPointer = "#/properties/a/pattern";

struct Compiled {
  Compiled(const std::string& pattern, Match match, Spelling spelling = Spelling::utf8, ConstraintLimits limits = {})
      : budget(limits), all(budget), expression(regex(all, pattern, spelling, match, "")) {}

  bool matches(std::string_view text) {
    Expr e = expression;
    for (const char byte : text) e = all.derivative(e, static_cast<unsigned char>(byte));
    return all.nullable(e);
  }

  Budget budget;
  Expressions all;
  Expr expression;
};

std::string refused(const std::string& pattern, Match match = Match::search, const std::string& at = "",
                    ConstraintLimits limits = {}) {
  return refusal([&] {
    Budget budget(limits);
    Expressions all(budget);
    regex(all, pattern, Spelling::utf8, match, at);
  });
}

struct Case {
  std::string pattern;
  std::vector<std::string> accept, reject;
};

void check(const std::vector<Case>& cases, Match match) {
  for (const Case& each : cases) {
    BOOST_TEST_CONTEXT(each.pattern) {
      Compiled compiled(each.pattern, match);
      for (const auto& text : each.accept) BOOST_TEST(compiled.matches(text), "not accepted: " << text);
      for (const auto& text : each.reject) BOOST_TEST(!compiled.matches(text), "accepted: " << text);
    }
  }
}

// ---------------------------------------------------------------- random patterns, and a matcher of them
// The positions where a match that starts at a position can end, one bit each.
using Ends = std::function<unsigned(std::string_view, std::size_t)>;

struct Made {
  std::string pattern;
  Ends ends;
};

Ends one_of(std::string letters) {
  return [letters](std::string_view text, std::size_t at) {
    return at < text.size() && letters.find(text[at]) != std::string::npos ? 2u << at : 0u;
  };
}

unsigned step(const Ends& ends, std::string_view text, unsigned from) {
  unsigned to = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    if (from >> at & 1) to |= ends(text, at);
  }
  return to;
}

Made random_repetition(const Made& part, Random& random) {
  struct Kind {
    const char* sign;
    int least, most;
  };
  static const std::vector<Kind> kinds = {{"*", 0, 99},    {"+", 1, 99},  {"?", 0, 1},     {"*?", 0, 99},
                                          {"+?", 1, 99},   {"??", 0, 1},  {"{2}", 2, 2},   {"{2,}", 2, 99},
                                          {"{1,3}", 1, 3}, {"{0}", 0, 0}, {"{0,2}", 0, 2}, {"{3,4}?", 3, 4}};
  const Kind kind = kinds[static_cast<std::size_t>(random.below(static_cast<int>(kinds.size())))];
  return {"(?:" + part.pattern + ")" + kind.sign, [kind, ends = part.ends](std::string_view text, std::size_t at) {
            unsigned from = 1u << at;
            for (int i = 0; i < kind.least; ++i) from = step(ends, text, from);
            unsigned all = from;
            for (int i = kind.least; i < kind.most && from != 0; ++i) {
              from = step(ends, text, from) & ~all;
              all |= from;
            }
            return all;
          }};
}

enum class With { neither, anchors, lookarounds };

// The letters of texts. With lookarounds, the last is not a word character.
std::string letters(With with) { return with == With::lookarounds ? "ab-" : "abc"; }

bool is_boundary(std::string_view text, std::size_t at) {
  const auto word = [&](std::size_t i) { return i < text.size() && text[i] != '-'; };
  return (at > 0 && word(at - 1)) != word(at);
}

Made random_assertion(Random& random, With with) {
  const auto where = [](const char* pattern, auto holds) {
    return Made{pattern, [holds](std::string_view text, std::size_t at) { return holds(text, at) ? 1u << at : 0u; }};
  };
  switch (random.below(with == With::lookarounds ? 4 : 2)) {
    case 0:
      return where("^", [](std::string_view, std::size_t at) { return at == 0; });
    case 1:
      return where("$", [](std::string_view text, std::size_t at) { return at == text.size(); });
    case 2:
      return where("\\b", is_boundary);
    default:
      return where("\\B", [](std::string_view text, std::size_t at) { return !is_boundary(text, at); });
  }
}

Made random_look(const Made& body, Random& random) {
  const bool behind = random.once_in(2), negated = random.once_in(2);
  const auto holds = [behind, negated, ends = body.ends](std::string_view text, std::size_t at) {
    bool found = !behind && ends(text, at) != 0;
    for (std::size_t from = 0; behind && from <= at; ++from) found |= (ends(text, from) >> at & 1) != 0;
    return found != negated ? 1u << at : 0u;
  };
  return {std::string(behind ? "(?<" : "(?") + (negated ? "!" : "=") + body.pattern + ")", holds};
}

Made random_pattern(Random& random, int height, With with) {
  const std::string all = letters(with);
  const auto part = [&] { return random_pattern(random, height - 1, with); };
  const int kind = height == 0 ? random.below(8) : random.below(with == With::lookarounds ? 18 : 14);
  switch (kind) {
    case 0:
      return {"a", one_of("a")};
    case 1:
      return {"b", one_of("b")};
    case 2:
      return {"[ab]", one_of("ab")};
    case 3:
      return {"[^a]", one_of(all.substr(1))};
    case 4:
      return {".", one_of(all)};
    case 5:
      return {"", [](std::string_view, std::size_t at) { return 1u << at; }};
    case 6:
    case 7:
      if (with == With::neither) return {"c", one_of("c")};
      return random_assertion(random, with);
    case 8:
    case 9:
      return random_repetition(part(), random);
    case 10:
    case 11: {
      const Made a = part(), b = part();
      return {"(" + a.pattern + "|" + b.pattern + ")",
              [a, b](std::string_view text, std::size_t at) { return a.ends(text, at) | b.ends(text, at); }};
    }
    case 14:
    case 15:
    case 16:
    case 17:
      return random_look(part(), random);
    default: {
      const Made a = part(), b = part();
      return {a.pattern + b.pattern,
              [a, b](std::string_view text, std::size_t at) { return step(b.ends, text, a.ends(text, at)); }};
    }
  }
}

std::vector<std::string> short_texts(std::size_t most, With with) {
  std::vector<std::string> texts = {""};
  for (std::size_t i = 0; i < texts.size() && texts[i].size() < most; ++i) {
    for (const char letter : letters(with)) texts.push_back(texts[i] + letter);
  }
  return texts;
}

// The first text on which the pattern and its naive matcher disagree; "agreed" if there is none.
std::string disagreement(const Made& made, const std::vector<std::string>& texts) {
  Compiled whole(made.pattern, Match::whole), search(made.pattern, Match::search);
  for (const auto& text : texts) {
    bool found = false;
    for (std::size_t at = 0; at <= text.size(); ++at) found |= made.ends(text, at) != 0;
    const bool all = (made.ends(text, 0) >> text.size() & 1) != 0;
    if (whole.matches(text) != all) return "whole match of '" + text + "'";
    if (search.matches(text) != found) return "search in '" + text + "'";
  }
  return "agreed";
}

std::string json_spelling(const std::string& text) {
  const std::string quoted = Json(text).dump();
  return quoted.substr(1, quoted.size() - 2);
}
}  // namespace

BOOST_AUTO_TEST_CASE(whole_matches) {
  check(
      {
          {"", {""}, {"a"}},
          {"abc", {"abc"}, {"", "ab", "abcd", "xabc"}},
          {"a|b|", {"a", "b", ""}, {"ab", "c"}},
          {"(a|b)*?c", {"c", "abc", "bbac"}, {"ab", "cc"}},
          {"(?:ab){2,3}", {"abab", "ababab"}, {"ab", "abababab"}},
          {"(?<year>\\d{4})-(?P<month>\\d\\d)", {"2024-01"}, {"24-01", "2024-1"}},
          {"x{0}y{2,}", {"yy", "yyyy"}, {"y", "xyy"}},
          {"x{0,0}", {""}, {"x"}},
          {"a{,b", {"a{,b"}, {"a"}},
          {"a{1", {"a{1"}, {"a"}},
          {"a{1,2", {"a{1,2"}, {"a"}},
          {"a{b}", {"a{b}"}, {"ab"}},
          {"{}}]", {"{}}]"}, {""}},
          {"{a", {"{a"}, {"a"}},
          {".", {"a", "\xC3\xA9", "\xF0\x9F\x98\x80", "\r", "\xE2\x80\xA8"}, {"", "\n", "ab", "\xFF", "\xC3"}},
          {"\\d\\w\\s", {"0_ ", "9z\v", "5A\t"}, {"a_ ", "0- ", "0a\xC2\xA0", "\xD9\xA1_ "}},
          {"\\D\\W\\S", {"a-x", "\xC3\xA9\xC3\xA9\xC2\xA0"}, {"0-x", "aax", "a- "}},
          {"[\\d.]+", {"1.5", "..."}, {"a", ""}},
          {"[^\\d.]+", {"abc\n", "\xC3\xA9"}, {"1", ".", ""}},
          {"[\\w-]+", {"a-b_1"}, {"a b"}},
          {"[\\w-.]+", {"a-b.c"}, {"a/b"}},
          {"[a-\\d]+", {"a-5"}, {"b"}},
          {"[-a]+[a-]+", {"-a-a"}, {"b"}},
          {"[a-z-9]+", {"q-9"}, {"8"}},
          {"[--/]+", {"-./"}, {",", "0"}},
          {"[\\]\\-\\\\^]+", {"-]^\\"}, {"a", ""}},
          {"[[(){}*+?.|$]+", {"[(){}*+?.|$"}, {"]"}},
          {"[^^]", {"a"}, {"^", ""}},
          {"[\\b]", {"\b"}, {"b"}},
          {"[\xC3\xA9-\xC3\xAF]", {"\xC3\xAA"}, {"\xC3\xA8", "e", "\xC3"}},
          {"\\x41\\u0042\\u{43}\\u{000044}\\cJ\\t\\n\\r\\f\\v", {"ABCD\n\t\n\r\f\v"}, {"ABCD"}},
          {"\\uD83D\\uDE00|\\u{1F601}", {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x81"}, {"\xF0\x9F\x98\x82"}},
          {"[\\uD83D\\uDE00-\\uD83D\\uDE02]+", {"\xF0\x9F\x98\x80\xF0\x9F\x98\x82"}, {"\xF0\x9F\x98\x83"}},
          {"\\/\\.\\-\\ \\\"\\'\\#\\@\\_\\\xC3\xA9", {"/.- \"'#@_\xC3\xA9"}, {""}},
          {"\xE6\x97\xA5\xE6\x9C\xAC?", {"\xE6\x97\xA5", "\xE6\x97\xA5\xE6\x9C\xAC"}, {"\xE6\x9C\xAC"}},
          {"\\0", {std::string(1, '\0')}, {"0", ""}},
          {"^abc$", {"abc"}, {"abcd", "xabc", "abc\n"}},
          {"^a|b$", {"a", "b"}, {"ab"}},
          {"a^b|c$d|e", {"e"}, {"ab", "cd", "a^b"}},
          {"(^|a)b($|c)", {"b", "ab", "bc", "abc"}, {"aab", "bcc"}},
      },
      Match::whole);
}

BOOST_AUTO_TEST_CASE(searches) {
  check(
      {
          {"", {"", "x"}, {}},
          {"a5b",
           {"a5b", "xa5by",
            "\n\xF0\x9F\x98\x80"
            "a5b\n"},
           {"", "a5", "ab",
            "\xFF"
            "a5b"}},
          {"^abc", {"abc", "abcd"}, {"xabc", "\nabc"}},
          {"abc$", {"abc", "xabc"}, {"abcd", "abc\n"}},
          {"^abc$", {"abc"}, {"abcd", "xabc"}},
          {"^a|b$", {"a", "axx", "b", "xxb", "axb"}, {"xa", "bx", "xax"}},
          {"(^a|b)", {"ax", "xb", "bx"}, {"xa"}},
          {"^(foo|bar)$", {"foo", "bar"}, {"foobar", "xfoo", ""}},
          {"^alpha|beta|rc|stable$", {"alphax", "xbetax", "xrcx", "xstable"}, {"xalpha", "stablex"}},
          {"(^[^5]*$)|7", {"", "abc", "575", "7"}, {"5", "151"}},
          {"(^|,)a(,|$)", {"a", "b,a", "a,b", "x,a,y"}, {"ab", "ba", "b,ab"}},
          {"a(^b|$)", {"a", "ba"}, {"ab"}},
          {"(a?^b)+c", {"bc", "bcd"}, {"abc", "bbc", "xbc"}},
          {"(^a|b$){2}", {}, {"a", "b", "aa"}},
          {"(^a|b$){2}|x", {"ab", "x"}, {"a", "b", "aab", "aabb"}},
          {"($|a){3}", {"aaa", "xa", "", "x"}, {}},
          {"^($|a){3}$", {"aaa", "aa", "a", ""}, {"aaaa", "b"}},
          {"^(^a){1,3}$", {"a"}, {"aa", ""}},
          {"^^a$$", {"a"}, {"aa"}},
          {"$^", {""}, {"a"}},
          {"$a|b^", {}, {"a", "b", ""}},
          {"^[]$|^[^]$", {"a", "\n", "\xF0\x9F\x98\x80"}, {"", "ab"}},
          {"^.$", {"a", "\xC2\x85"}, {"\n", "\r", "\xE2\x80\xA8", "\xE2\x80\xA9", ""}},
          {"^\\s$",
           {" ", "\t", "\xC2\xA0", "\xE2\x80\xA8", "\xEF\xBB\xBF", "\xE3\x80\x80"},
           {"\xC2\x85", "\x1C", "\xE2\x80\x8B"}},
          {"^\\S$", {"\xC2\x85", "\x1C"}, {"\xC2\xA0", " "}},
          {"^\\d+$", {"123"}, {"\xD9\xA1", ""}},
          {"^\\w$", {"_"}, {"\xC3\xA9"}},
          {"^(/)?([^/\\u0000]+(/)?)+$", {"/a/b", "a/"}, {"//", std::string("a\0", 2), ""}},
      },
      Match::search);
}

BOOST_AUTO_TEST_CASE(lookarounds_and_boundaries) {
  check(
      {
          {"^(?!\\.)(?!.*\\.\\.)[a-z.]+$", {"a.b", "ab."}, {".a", "a..b", ""}},
          {"^(?=.*[a-z])(?=.*[A-Z])(?=.*\\d)[A-Za-z\\d@]{8,}$", {"abcdEF12"}, {"abcdef12", "aE1", "abcdEFGH"}},
          {"^(?!\\s)(?!.*\\s$).+$", {"a b"}, {" ab", "ab ", ""}},
          {"^(?!(?:null|undefined)$).*$", {"nulls", "", "x"}, {"null", "undefined"}},
          {"(?<!\\\\)\"", {"a\"", "\""}, {"\\\"", "a"}},
          {"(?<=\\$)\\d+(?!\\d|\\.)", {"$5", "x $12 y"}, {"5", "$1.", "$"}},
          {"^((?!-)[A-Za-z0-9-]{1,5}(?<!-)\\.)+[a-z]{2,}$",
           {"a.bc", "a-b.cd.ef"},
           {"-a.bc", "a-.bc", "a.-b.cd", "abcdef.gh"}},
          {"^(?:(?!foo).)*$", {"", "fo", "fo-oo"}, {"foo", "xfoox", "fooo"}},
          {"^(?:(?!end).)*end$", {"end", "xxend"}, {"endend", "xx"}},
          {"\\bfoo\\b", {"foo", "a foo.", "foo-bar"}, {"foobar", "food", "_foo", "fo"}},
          {"^\\B$", {""}, {"a"}},
          {"^(\\b\\w+\\b ?)+$", {"ab cd", "ab"}, {"", " ab", "ab  cd"}},
          {"a(?=b)b", {"ab"}, {"ac"}},
          {"(?=a)(?=.b)..c", {"abc", "xabc"}, {"acc"}},
          {"(?=a*$)", {"", "b", "aab"}, {}},
          {"^(?=a){2}ab?(?=)$", {"a", "ab"}, {"b"}},
          {"^(?=(?!b).)(?<!(?<=x))[a-c]$", {"a", "c"}, {"b", "x"}},
          {"^(?!)a|^(?:b)$", {"b"}, {"a", ""}},
          {"(?<=^a)b", {"ab", "abc"}, {"cab", "b"}},
          {"b(?=c$)", {"bc", "abc"}, {"bcd"}},
          {"(?<=\xC3\xA9.)x", {"\xC3\xA9\xF0\x9F\x98\x80x"}, {"\xC3\xA9x", "e.x"}},
          {"(?<=(?=ab).)b", {"ab"}, {"bb", "b"}},
      },
      Match::search);
  check({{"(?!ab)[ab]{2}", {"aa", "ba"}, {"ab"}},
         {"a\\b-\\Ba?", {"a-"}, {"a-a", "a"}},
         {"(?P<x>\\w+)(?<!_)", {"a", "a_b"}, {"a_", ""}},
         {"a(?=b)", {}, {"a", "ab"}}},
        Match::whole);
}

BOOST_AUTO_TEST_CASE(unicode_properties) {
  check(
      {
          {"\\p{L}+", {"aZ\xC3\xA9\xE6\x97\xA5"}, {"1", "a1", "_", ""}},
          {"\\P{L}", {"1", "\xE2\x82\xAC"}, {"a", "\xC3\xA9"}},
          {"\\p{Lu}\\p{Ll}", {"Ab", "\xC3\x89\xC3\xA9"}, {"ab", "AB"}},
          {"\\p{Uppercase_Letter}\\p{gc=Nd}\\p{General_Category=Punctuation}", {"A5!", "A\xD9\xA1-"}, {"a5!", "A!!"}},
          {"[\\p{L}\\p{N}_-]+", {"\xC3\xA9-5_"}, {"a b"}},
          {"[^\\p{L}\\P{Any}]", {"5"}, {"a"}},
          {"\\p{Sc}|\\p{Zs}|\\p{ASCII}", {"\xE2\x82\xAC", "\xC2\xA0", "a"}, {"\xC3\xA9"}},
          {"(\\p{Extended_Pictographic}|\\p{Emoji_Component})+",
           {"\xF0\x9F\x98\x80\xEF\xB8\x8F", "5"},
           {"a", "\xE2\x82\xAC"}},
      },
      Match::whole);
  for (const char* wrong : {"\\p", "\\pL", "\\p{}", "\\p{L", "\\P{L\xC3\xA9}"})
    BOOST_TEST(mentions(refused(wrong), {"property in braces"}), wrong);
}

BOOST_AUTO_TEST_CASE(malformed_expressions_are_invalid_at_a_position) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a)b", "character 2"},       {"x(a", "character 2"},       {"(a(b)", "character 1"},
      {"(", "character 1"},         {"a|*b", "character 3"},      {"+", "character 1"},
      {"(?)", "character 1"},       {"(?:?)", "character 4"},     {"a**", "character 3"},
      {"a{2}{3}", "character 5"},   {"a+??", "character 4"},      {"{2}", "character 1"},
      {"^*", "character 2"},        {"a$+", "character 3"},       {"a{3,2}", "character 2"},
      {"x[b-a]", "character 3"},    {"ab[c", "character 3"},      {"[a\\]", "character 1"},
      {"[a-", "character 1"},       {"a\\", "character 2"},       {"\\x4", "character 1"},
      {"\\xg0", "character 1"},     {"\\u12", "character 1"},     {"\\u{}", "character 1"},
      {"\\u{12", "character 1"},    {"\\u{110000}", "character"}, {"\\c1", "character 1"},
      {"(?<1a>x)", "character 1"},  {"(?<>x)", "character 1"},    {"(?<a", "character 1"},
      {"(?*a)", "character 1"},     {"a(?=b", "character 2"},     {"(?<!b", "character 1"},
      {"(?<=a)*", "character 7"},   {"\\b+", "character 3"},      {"\xC3\xA9)", "character 2"},
      {"(?<a b>x)", "character 1"}, {"a\xFF", "byte 2"},          {"\\u{FFFFFFFFFFFFFFFFF}", "character 1"}};
  for (const auto& [pattern, place] : cases) {
    for (const Match match : {Match::whole, Match::search}) {
      BOOST_TEST_CONTEXT(pattern) {
        const std::string message = refused(pattern, match);
        BOOST_TEST(message.starts_with(place), message);
        const std::string pointed = refused(pattern, match, kPointer);
        BOOST_TEST(mentions(pointed, {place}), pointed);
        BOOST_TEST(pointed.starts_with(kPointer + ": "), pointed);
        try {
          Compiled compiled(pattern, match);
        } catch (const Refused& refusal) {
          BOOST_TEST((refusal.kind() == Error::Kind::invalid_request), refusal.what());
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(inexact_features_are_unsupported_at_a_position) {
  struct Unsupported {
    std::string pattern;
    std::vector<std::string> words;
    bool in_searches = true;
  };
  const std::vector<Unsupported> cases = {
      {"(a)\\1", {"character 4", "back reference"}},
      {"(?<n>a)\\k<n>", {"character 8", "back reference"}},
      {"(?P<n>a)(?P=n)", {"character 9", "back reference"}},
      {"\\p{Script=Greek}", {"character 1", "Unicode property 'Script=Greek'"}},
      {"[\\P{Alphabetic}]", {"character 2", "Unicode property 'Alphabetic'"}},
      {"a\\p{gc=Greek}", {"character 2", "'gc=Greek'"}},
      {"[\\B]", {"character 2", "\\B"}},
      {"a(?<=(?=(?:(?!b)a)*c)a)", {"character 6", "lookbehind"}},
      {"(?i)a", {"character 1", "flags"}},
      {"(?i:a)", {"character 1", "flags"}},
      {"(?-i:a)", {"character 1", "flags"}},
      {"(?>a)", {"character 1", "atomic"}},
      {"(?#a)", {"character 1", "comments"}},
      {"a++", {"character 3", "possessive"}},
      {"a{2}+", {"character 5", "possessive"}},
      {"\\Aa\\Z", {"character 1", "\\A"}},
      {"[\\7]", {"character 2", "octal"}},
      {"\\07", {"character 1", "octal"}},
      {"[[:alpha:]]", {"character 2", "POSIX"}},
      {"a{,3}", {"character 2", "{0,n}"}},
      {"\\uD83D", {"character 1", "surrogate"}},
      {"[\\uD800-\\uDFFF]", {"character 2", "surrogate"}},
      {"\\u{D800}", {"character 1", "surrogate"}},
      {"a{100001}", {"character 2", "too complex"}},
      {"a{1,99999999999999999999}", {"character 2", "too complex"}},
      {"[]a]", {"character 2", "class"}, false},
      {"[^]a]", {"character 3", "class"}, false},
  };
  for (const auto& each : cases) {
    BOOST_TEST_CONTEXT(each.pattern) {
      const std::string message = refused(each.pattern, Match::whole);
      BOOST_TEST(mentions(message, each.words), message);
      BOOST_TEST((refused(each.pattern, Match::search) == (each.in_searches ? message : "accepted")));
      const std::string pointed = refused(each.pattern, Match::whole, kPointer);
      BOOST_TEST(mentions(pointed, each.words), pointed);
      BOOST_TEST(pointed.starts_with(kPointer + ": "), pointed);
      try {
        Compiled compiled(each.pattern, Match::whole);
      } catch (const Refused& refusal) {
        BOOST_TEST((refusal.kind() == Error::Kind::unsupported), refusal.what());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(random_patterns_match_as_a_plain_matcher_says) {
  Random random(1);
  for (const With with : {With::anchors, With::lookarounds}) {
    const auto texts = short_texts(4, with);
    int refused = 0;
    for (int round = 0; round < 3000; ++round) {
      const Made made = random_pattern(random, 1 + random.below(5), with);
      BOOST_TEST_CONTEXT(made.pattern) {
        try {
          BOOST_REQUIRE(disagreement(made, texts) == "agreed");
        } catch (const Refused& refusal) {  // a lookahead inside a lookbehind has limits
          BOOST_REQUIRE(mentions(refusal.what(), {"within a lookbehind"}));
          ++refused;
        }
      }
    }
    BOOST_TEST(refused <= (with == With::anchors ? 0 : 150), refused);
  }
}

BOOST_AUTO_TEST_CASE(the_plain_matcher_would_find_a_wrong_lookaround) {
  const auto texts = short_texts(4, With::lookarounds);
  Made made{"(?:a(?!b)|.)*", [](std::string_view text, std::size_t at) {
              unsigned ends = 1u << at;
              for (std::size_t i = at;
                   i < text.size() && !(text[i] == 'a' && i + 1 < text.size() && text[i + 1] == 'b'); ++i)
                ends |= 2u << i;
              return ends;
            }};
  BOOST_TEST(disagreement(made, texts) == "whole match of 'ab'");  // . also matches a
  made.pattern = "(?:a(?!b)|[^a])*";
  BOOST_TEST(disagreement(made, texts) == "agreed");
  for (const char* wrong : {"(?:a(?=b)|[^a])*", "(?:a(?<!b)|[^a])*", "(?:a|[^a])*", "(?:a(?!b)|b)*"}) {
    made.pattern = wrong;
    BOOST_TEST(disagreement(made, texts) != "agreed", wrong);
  }
}

BOOST_AUTO_TEST_CASE(random_patterns_match_as_the_standard_library_says) {
  Random random(2);
  const auto texts = short_texts(3, With::neither);
  for (int round = 0; round < 400; ++round) {
    const Made made = random_pattern(random, 1 + random.below(4), With::neither);
    BOOST_TEST_CONTEXT(made.pattern) {
      Compiled whole(made.pattern, Match::whole), search(made.pattern, Match::search);
      const std::regex standard(made.pattern, std::regex::ECMAScript);
      for (const auto& text : texts) {
        if (whole.matches(text) != std::regex_match(text, standard))
          BOOST_REQUIRE_MESSAGE(false, "whole match of " << text);
        if (search.matches(text) != std::regex_search(text, standard))
          BOOST_REQUIRE_MESSAGE(false, "search in " << text);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(in_json_strings_the_same_texts_match) {
  Random random(3);
  const std::vector<std::string> letters = {
      "a", "\"", "\\", "/", "\n", "\t", "\x01", "\x1F", "\x7F", "\xC3\xA9", "\xF0\x9F\x98\x80", "5"};
  for (const char* pattern :
       {"(?<=n)5", "(?<!\\n)5", "(?=.\\\\)", "^(?!.*[\\n\"]$)", "\\b5", "(?:(?!\\t).)+$", "^.+$", "^[^a]*$", "\\\\\"",
        "^\\s", "[\\x00-\\x1f]\xC3\xA9", "^\\S*$", "^[\"/]|\\n$", "(a|\\\\|\\x7f){2,3}$", "\\W\\d", ""}) {
    for (const Match match : {Match::whole, Match::search}) {
      Compiled plain(pattern, match), json(pattern, match, Spelling::json);
      for (int i = 0; i < 300; ++i) {
        std::string text;
        for (int n = random.below(5); n > 0; --n)
          text += letters[static_cast<std::size_t>(random.below(static_cast<int>(letters.size())))];
        BOOST_REQUIRE_MESSAGE(plain.matches(text) == json.matches(json_spelling(text)),
                              pattern << " and " << json_spelling(text));
      }
      for (const char* not_inside : {"\"", "\\", "\n", "\\u0041", "\\/", "\\u000A", "\\u0022", "\\x41", "\xFF"})
        BOOST_TEST(!json.matches(not_inside), not_inside);
    }
  }
}

namespace {

std::string repeated(const std::string& part, int n) {
  std::string text;
  for (int i = 0; i < n; ++i) text += part;
  return text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(reading_keeps_to_the_limits) {
  const auto of_class = [](int n) { return "[" + repeated("\\p{L}", n) + "\\-]"; };
  BOOST_TEST(mentions(refused(of_class(150'000), Match::search, "", {.time = std::chrono::milliseconds(20)}),
                      {"too complex", "20 ms"}));
  check({{of_class(100), {"x", "\xC3\xA9", "-"}, {"1", ""}}}, Match::whole);  // ranges are merged while reading
  for (const char* part : {"\\b", "(?=a)", "(?<!a)b", "^|", "(?:^|a)*"}) {
    const std::string tree = refused(repeated(part, 60'000), Match::search, "", {.bytes = 4 << 20});
    BOOST_TEST(mentions(tree, {"too complex", "4 MiB"}), part << ": " << tree);
  }
  // The tree is freed after reading: its 2,000 boundaries take more than 1 MiB.
  Budget budget;
  Expressions all(budget);
  regex(all, "(?:" + repeated("\\b", 2'000) + "){0}", Spelling::utf8, Match::search, "");
  BOOST_TEST(budget.bytes() < std::size_t{1} << 20);
}

BOOST_AUTO_TEST_CASE(hostile_patterns_are_refused_or_cheap) {
  // Time for a busy machine.
  const ConstraintLimits long_time = {.time = std::chrono::seconds(60)};
  const std::clock_t begin = std::clock();
  BOOST_TEST(mentions(refused(repeated("(", 100'000)), {"too complex", "nested", "character 257"}));
  BOOST_TEST(mentions(refused(repeated("(?:a|", 100'000)), {"too complex", "nested"}));
  BOOST_TEST(mentions(refused(repeated("(", 257) + repeated(")", 257)), {"too complex", "nested"}));
  BOOST_TEST(mentions(refused(repeated("\\d", 3'000'000)), {"too complex"}));
  // The greatest allowed depth, which derivatives must still handle, also with anchors.
  for (const char* anchor : {"", "^", "$"}) {
    Compiled deep(repeated("(?:a|" + std::string(anchor) + "b", 256) + repeated("c)*", 256), Match::search,
                  Spelling::utf8, long_time);
    Expr e = deep.expression;
    for (const char byte : std::string("abbbbbbcaab")) {
      BOOST_TEST(deep.all.byte_classes(e).size() < 20u);
      e = deep.all.derivative(e, static_cast<unsigned char>(byte));
    }
  }
  Compiled counted("((((a{100000}){100000}){100000}){100000}){100000}", Match::whole, Spelling::utf8, long_time);
  BOOST_TEST(counted.all.size() < 20u);
  BOOST_TEST(counted.all.derivative(counted.expression, 'a') != Expressions::kNever);
  Compiled long_one(repeated("abc[d-f]", 50'000), Match::search, Spelling::utf8, long_time);
  BOOST_TEST(!long_one.matches("abcdabcd"));
  BOOST_TEST(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC < 20.0);  // sanitizers are slow
  // Lookarounds: many of them, nested, repeated, and with many states at once.
  for (const std::string& pattern :
       {repeated("(?=a)", 1000), repeated("(?<!a)b", 1000), repeated("(?=a|", 200) + repeated(")", 200),
        repeated("(?<=", 200) + "a" + repeated(")", 200), "^" + repeated("(?=.*", 12) + "x" + repeated(")", 12),
        std::string("(?:(?=a)b|c){9000}"), std::string("(?:(?!a.{9})(?!.{7}b).)*$"), std::string("(?<=a.{9})b")}) {
    BOOST_TEST_CONTEXT(pattern.substr(0, 40)) {
      const std::string outcome = refusal([&] {
        Compiled compiled(pattern, Match::search);
        Expr e = compiled.expression;
        for (const char byte : std::string("abacabcaabacbbabcaaacab"))
          e = compiled.all.derivative(e, static_cast<unsigned char>(byte));
      });
      BOOST_TEST((outcome == "accepted" || mentions(outcome, {"too complex"})), outcome);
    }
  }
  BOOST_TEST(mentions(refused("(?:(?=a)b|c){90000}"), {"too complex", "assertions"}));
}

BOOST_AUTO_TEST_CASE(the_reference_cases_are_answered_as_they_say) {
  const std::filesystem::path file = TENON_SOURCE_DIR "/../shared/schemas/regex.jsonl";
  std::ifstream lines(file);
  if (!lines) {
    std::printf("skipped: no reference cases at %s\n", file.c_str());
    return;
  }
  int cases = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json each = Json::parse(line);
    check({{each["regex"], each["accept"].get<std::vector<std::string>>(),
            each["reject"].get<std::vector<std::string>>()}},
          Match::whole);
    ++cases;
  }
  BOOST_TEST(cases > 0);
}

BOOST_AUTO_TEST_SUITE_END()
