#include "tenon/tokenizer/regex.h"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/tokenizer/regex_parser.h"

BOOST_AUTO_TEST_SUITE(tokenizer_regex)

namespace {

using tenon::detail::Regex;
using tenon::detail::RegexParser;
using Found = std::vector<std::string>;

const std::string kWhere = "tokenizer.json: x";

Found all(const std::string& pattern, std::string_view text) {
  const Regex regex = RegexParser::parse(pattern, kWhere);
  Regex::Search search;
  search.allow(text.size());
  Found out;
  std::size_t at = 0;
  while (const auto found = regex.find(text, at, search)) {
    out.emplace_back(text.substr(found->begin, found->end - found->begin));
    at = found->end;
  }
  return out;
}

std::string refusal(const std::string& pattern) {
  try {
    RegexParser::parse(pattern, kWhere);
  } catch (const tenon::Error& error) {
    BOOST_TEST((error.kind() == tenon::Error::Kind::unsupported));
    BOOST_TEST(error.where() == kWhere);
    return error.what();
  }
  return "accepted";
}

}  // namespace

// Expected: Split in tokenizers 0.22.2.
BOOST_AUTO_TEST_CASE(the_first_alternative_at_the_leftmost_place) {
  BOOST_TEST(all("a|ab", "abab") == Found({"a", "a"}));
  BOOST_TEST(all("ab|a", "aab") == Found({"a", "ab"}));
  BOOST_TEST(all("(a|ab)c", "acabc") == Found({"ac", "abc"}));
  BOOST_TEST(all("a?b", "aab b") == Found({"ab", "b"}));
  BOOST_TEST(all("a{2,3}", "aaaaaa a aa") == Found({"aaa", "aaa", "aa"}));
  BOOST_TEST(all("(?:ab){2}c?|d", "ababcababdab") == Found({"ababc", "abab", "d"}));
  BOOST_TEST(all("(?:ab)+c", "ababab ababc") == Found({"ababc"}));
  BOOST_TEST(all("(?:ab){1,2}c", "abababc") == Found({"ababc"}));
  BOOST_TEST(all("\\s+(?!\\S)|\\s+", "a   b  ") == Found({"  ", " ", "  "}));
  BOOST_TEST(all("a(?=b)", "acab") == Found({"a"}));
  BOOST_TEST(all("a++b|a", "aab") == Found({"aab"}));
  BOOST_TEST(all("a?+a", "a") == Found());
  BOOST_TEST(all("\\d{1,3}+", "12345 6") == Found({"12345", "6"}));
  BOOST_TEST(all("\\s+$", "a \nb  ") == Found({" ", "  "}));
}

BOOST_AUTO_TEST_CASE(sets) {
  BOOST_TEST(all("[a-c]+", "abcd") == Found({"abc"}));
  BOOST_TEST(all("[^a-c]+", "abcd\u00e9a") == Found({"d\u00e9"}));
  BOOST_TEST(all("[+\\-.\\]^]+", "a+-.]^b") == Found({"+-.]^"}));
  BOOST_TEST(all("[-a]+", "b-a") == Found({"-a"}));
  BOOST_TEST(all("[^(\\s|[.,])]+", "ab(c|d).e, f") == Found({"ab", "c", "d", "e", "f"}));  // a nested set, as Bloom's
  BOOST_TEST(all("\\p{Lu}\\p{Ll}+", "\u00dcber Stra\u00dfe") == Found({"\u00dcber", "Stra\u00dfe"}));
  BOOST_TEST(all("[\\P{L}]+", "a1 b") == Found({"1 "}));
  BOOST_TEST(all("\\p{^L}+", "a1 b") == Found({"1 "}));
  BOOST_TEST(all("\\D+", "1a\u0663b") == Found({"a", "b"}));
  BOOST_TEST(all("\\S+", "a\u3000b") == Found({"a", "b"}));
  BOOST_TEST(all(".+", "a\nb") == Found({"a", "b"}));
  BOOST_TEST(all("[\r\n]", "a\r\n") == Found({"\r", "\n"}));
}

BOOST_AUTO_TEST_CASE(without_case) {
  BOOST_TEST(all("(?i:'s|'ll)", "'S'\u017f'LL'lL") == Found({"'S", "'\u017f", "'LL", "'lL"}));
  BOOST_TEST(all("'(?i:[sdmt]|ll)", "'S'\u017f'x'LL'm'T") == Found({"'S", "'\u017f", "'LL", "'m", "'T"}));
  BOOST_TEST(all("(?i:k)k", "KkkK\u212ak") == Found({"Kk", "\u212ak"}));
}

BOOST_AUTO_TEST_CASE(unsupported_patterns_are_refused) {
  for (const char* pattern :
       {"(?<=a)b",     "(?<!a)b",     "(?>a)",  "\\ba",    "\\w+",    "\\1",      "^a",      "a*?",       "a{2,3}+",
        "a**",         "[[:alpha:]]", "[a&&b]", "[]",      "[^]",     "\\p{Han}", "\\p{L",   "\\pL",      "(a",
        "a)",          "[a",          "*a",     "a{2,1}",  "a{,2}",   "a{5000}",  "(?i:ss)", "(?i:[^a])", "(?i:\\S)",
        "(?i:\u00e9)", "(?i)a",       "(a|b)+", "(?:a+)+", "(?:a?)*", "a*",       "a|",      "",          "(?=a)",
        "(?=a)?b",     "\\",          "[z-a]"})
    BOOST_TEST(refusal(pattern) != "accepted", pattern);
  BOOST_TEST(refusal("(?<=a)b").find("(?<=a)b") != std::string::npos);
  std::string deep = "a";
  for (int i = 0; i < 100; ++i) deep = "(" + deep + ")";
  BOOST_TEST(refusal(deep) != "accepted");
}

// A run that fails at one position fails at every position inside it.
BOOST_AUTO_TEST_CASE(long_runs_take_linear_time) {
  const std::string spaces(2'000'000, ' ');
  const auto begin = std::chrono::steady_clock::now();
  BOOST_TEST(all("\\s+$", spaces + "a").empty());
  BOOST_TEST(all("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", spaces + "a").size() == 2u);
  BOOST_TEST(all("[\\p{Lu}\\p{Lo}]*[\\p{Ll}\\p{Lo}]+|\\p{Lu}+", std::string(2'000'000, 'A')).size() == 1u);
  BOOST_TEST(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < 60);
}

namespace {

// The error text of `all`; "" where it throws none.
std::string too_long(const std::string& pattern, const std::string& text) {
  try {
    all(pattern, text);
  } catch (const tenon::Error& error) {
    BOOST_TEST((error.kind() == tenon::Error::Kind::capacity));
    BOOST_TEST(error.where() == "text");
    return error.what();
  }
  return "";
}

std::string repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(steps_are_counted) {
  const std::string said = "the pre-tokenizer's expression takes too many steps";
  const std::string spaces(200'000, ' ');
  const auto begin = std::chrono::steady_clock::now();
  BOOST_TEST(too_long(repeated("(?:a|aa)", 28) + "b", std::string(100, 'a')).find(said) != std::string::npos);
  BOOST_TEST(too_long(repeated("(?:a|a)", 40) + "b", std::string(100, 'a')).find(said) != std::string::npos);
  BOOST_TEST(too_long("\\s+\\d|x", spaces).find(said) != std::string::npos);
  BOOST_TEST(too_long("\\s++\\d|x", spaces).find(said) != std::string::npos);  // possessive, but still reads the run
  BOOST_TEST(too_long("(?=\\s+\\d)\\s|x", spaces).find(said) != std::string::npos);
  BOOST_TEST(too_long("(?:  )+x", spaces).find(said) != std::string::npos);
  BOOST_TEST(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < 60);
  BOOST_TEST(too_long(repeated("(?:a|aa)", 28) + "b", std::string(100, 'a') + "c" + std::string(10, 'a')) != "");
  BOOST_TEST(too_long(repeated("(?:a|aa)", 8) + "b", std::string(100, 'a')) == "");
  BOOST_TEST(too_long("\\s+\\d|x", std::string(1'000, ' ')) == "");
}

BOOST_AUTO_TEST_CASE(too_many_parts_are_refused_while_they_are_read) {
  const auto refused = [](const std::string& pattern) {
    return refusal(pattern).find("too many parts") != std::string::npos;
  };
  BOOST_TEST(!refused("a" + repeated("|a", 1'365)));  // 3 * 1365 + 1 = 4096 steps
  BOOST_TEST(refused("a" + repeated("|a", 1'366)));
  BOOST_TEST(refused(repeated("a", 4'097)));
  BOOST_TEST(refused(repeated("a", 4'096) + "|b"));
  // Parsing stops at the limit: the error is about the size, not about the end.
  BOOST_TEST(refused("a" + repeated("|a", 2'000'000) + "("));
  BOOST_TEST(refused(repeated("|", 2'000'000) + "("));
  BOOST_TEST(refused("(?:" + repeated("a", 4'000) + "(?:" + repeated("a", 4'000) + "("));
}

BOOST_AUTO_TEST_SUITE_END()
