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

BOOST_AUTO_TEST_CASE(repeats_of_groups_lazy_possessive_and_atomic) {
  BOOST_TEST(all("(?:a|bc)+d", "abcad bcd") == Found({"abcad", "bcd"}));
  BOOST_TEST(all("(?:a+)+b", "aaab") == Found({"aaab"}));
  BOOST_TEST(all("(?:a?)*b", "aab") == Found({"aab"}));  // a turn of the loop may be empty
  BOOST_TEST(all("(a*|b)*c", "abac") == Found({"abac"}));
  BOOST_TEST(all("\\p{L}(?: \\p{L}+)*", "a bc  d") == Found({"a bc", "d"}));
  BOOST_TEST(all("a+?", "aa") == Found({"a", "a"}));
  BOOST_TEST(all(".*?b", "aabb") == Found({"aab", "b"}));
  BOOST_TEST(all("a{2,3}?", "aaaaa") == Found({"aa", "aa"}));
  BOOST_TEST(all("a{2}+", "aaaaa") == Found({"aaaa"}));  // repeats the braces
  BOOST_TEST(all("a{,2}b", "aaab") == Found({"aab"}));
  BOOST_TEST(all("(?>a+|ab)c", "abc aac") == Found({"aac"}));
  BOOST_TEST(all("(?:a|ab)++c", "abc ac") == Found({"ac"}));
  BOOST_TEST(all("a{x{", "a{x{") == Found({"a{x{"}));  // no repeat
  BOOST_TEST(all("(?:a|ab){1}c", "abc") == Found({"abc"}));
}

BOOST_AUTO_TEST_CASE(places_and_looks) {
  BOOST_TEST(all("\\d{1,3}(?=(?:\\d{3})*\\b)", "1234567 12") == Found({"1", "234", "567", "12"}));
  BOOST_TEST(all("\\bfoo\\b", "foo food foo") == Found({"foo", "foo"}));
  BOOST_TEST(all("\\Ba", "aa ba") == Found({"a", "a"}));
  BOOST_TEST(all("^a", "a\nab\na") == Found({"a", "a", "a"}));
  BOOST_TEST(all("\\n^", "a\n").empty());  // no line begins after the last newline
  BOOST_TEST(all("\\Aa|a\\z", "a\na\na") == Found({"a", "a"}));
  BOOST_TEST(all("a\\Z", "a\na\n") == Found({"a"}));
  BOOST_TEST(all("(?<=a|bc)d", "adbcdd") == Found({"d", "d"}));
  BOOST_TEST(all("(?<!a|bc)d", "adbcdd") == Found({"d"}));
  BOOST_TEST(all("(?<=\u00e9)b", "\u00e9bb") == Found({"b"}));
  BOOST_TEST(all("(?<word>a)b", "ab") == Found({"ab"}));
}

// An empty match cuts, unless it stands where the last match ended: split_text (split.h).
BOOST_AUTO_TEST_CASE(empty_matches) {
  const Regex regex = RegexParser::parse("(?=(\\d{3})+(?!\\d))", kWhere);
  Regex::Search search;
  const auto found = regex.find("1234567", 0, search);
  BOOST_TEST((found && found->begin == 1 && found->end == 1));
  BOOST_CHECK_THROW(RegexParser::parse("a*", kWhere, RegexParser::Empty::refused), tenon::Error);
  BOOST_TEST(all("a*b|c*b", "b").size() == 1u);
}

BOOST_AUTO_TEST_CASE(properties_intersections_and_codes) {
  BOOST_TEST(all("\\p{Han}+", "\u6f22\u5b57\u304b") == Found({"\u6f22\u5b57"}));
  BOOST_TEST(all("[\\p{L}&&[^\\p{Han}]]+", "a\u6f22b") == Found({"a", "b"}));
  BOOST_TEST(all("[a-z&&[^aeiou]&&[a-f]]+", "abcdefgh") == Found({"bcd", "f"}));
  BOOST_TEST(all("[[:alpha:]]+|[[:^word:]]", "ab1 c") == Found({"ab", " ", "c"}));
  BOOST_TEST(all("[[:punct:]]+", "a$.b") == Found({"$."}));  // symbols, too
  BOOST_TEST(all("\\p{punct}+", "a$.b") == Found({"."}));
  BOOST_TEST(all("\\p{Uppercase Letter}\\p{lower}", "Ab aB") == Found({"Ab"}));
  BOOST_TEST(all("\\w+", "a_1\u00e9-\u00b2") == Found({"a_1\u00e9", "\u00b2"}));
  BOOST_TEST(all("[\\w]+", "a\u00b2") == Found({"a"}));  // in a class without some numbers of Latin-1
  BOOST_TEST(all("\\h+", "xfF9g") == Found({"fF9"}));
  BOOST_TEST(all("\\x41\\x{6f22}\\u304b", "A\u6f22\u304b") == Found({"A\u6f22\u304b"}));
  BOOST_TEST(all("[\\x{4e00}-\\x{9fff}]", "a\u6f22") == Found({"\u6f22"}));
}

// (?i) reaches to the end of its group, alternatives included.
BOOST_AUTO_TEST_CASE(without_case_from_here_on) {
  BOOST_TEST(all("a(?i)b|c", "aBCaC") == Found({"aB", "aC"}));
  BOOST_TEST(all("(?:(?i)a)b", "AbaB") == Found({"Ab"}));
  BOOST_TEST(all("(?i)a(?-i:b)", "AbAB") == Found({"Ab"}));
  BOOST_TEST(all("(?i)[^\\s\\p{L}]+", "a1\u0345b") == Found({"1"}));  // U+0345 is the letter U+03B9 in upper case
  BOOST_TEST(all("(?i:[^a])", "aAb") == Found({"b"}));
  BOOST_TEST(all("(?i)[\u4e00-\u9fff]a", "\u6f22A") == Found({"\u6f22A"}));  // characters without case
}

// Oniguruma also matches a ligature, such as U+00DF for ss.
BOOST_AUTO_TEST_CASE(ligatures_without_case_are_refused) {
  for (const char* pattern : {"(?i)ss", "(?i)\\x73s", "(?i)s(?:s)", "(?i)(?:s|x)t", "(?i)s{2}", "(?i)ffx",
                              "(?i)j\u030c", "(?i)[\\w]x", "(?i)[\\p{L}]", "(?i)[\\s\\S]"})
    BOOST_TEST(refusal(pattern) != "accepted", pattern);
  for (const char* pattern :
       {"(?i)sx", "(?i)s+", "(?i)\\p{L}+s", "(?i)'s|'t", "(?i)[^\\w]", "(?i)[a-z]+", "ss", "(?i)\\p{N}s"})
    BOOST_TEST(refusal(pattern) == "accepted", pattern);
}

BOOST_AUTO_TEST_CASE(expressions_that_end_early_are_refused) {
  for (const char* pattern : {"[[:alpha", "[[:^space", "a[[:word", "[[:punct]", "(?<", "(?<a", "(?<=", "(?", "(?i",
                              "[a-", "[a&&", "\\p", "\\p{", "\\x{41", "[!-&&a]", "[[", "(?>", "(?=", "\\u12"})
    BOOST_TEST(refusal(pattern) != "accepted", pattern);
}

BOOST_AUTO_TEST_CASE(unsupported_patterns_are_refused) {
  for (const char* pattern : {"(?<=a+)b",    "(?<=(?:a|bc))d",
                              "\\1",         "\\Ga",
                              "\\K",         "\\R",
                              "\\X",         "(?#a)",
                              "(?m:a)",      "(?<a>b)\\k<a>",
                              "[]",          "[]a]",
                              "\\p{Mine}",   "\\p{L",
                              "\\pL",        "(a",
                              "a)",          "[a",
                              "*a",          "a{2,1}",
                              "a{5000}",     "(?i:ss)",
                              "(?i:\u00e9)", "(?i:[[^a]])",
                              "(?i:[a&&b])", "(?i:[\\p{Lu}])",
                              "(?=a)?b",     "^*",
                              "\\",          "[z-a]",
                              "[\\N]",       "\\xE4",
                              "\\x{110000}", "[[:mine:]]"})
    BOOST_TEST(refusal(pattern) != "accepted", pattern);
  BOOST_TEST(refusal("(?<=a+)b").find("(?<=a+)b") != std::string::npos);
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
  const std::string said = "the tokenizer's expression takes too many steps";
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
  BOOST_TEST(too_long("(?<=b(?:a{1000}){1000})x", std::string(1'500'000, 'a')).find(said) != std::string::npos);
  BOOST_TEST(too_long("(?:(?:){0,1000}a)*c", std::string(10'000, 'a')).find(said) != std::string::npos);  // choices
  const Regex thousands = RegexParser::parse("(?=(\\d{3})+(?!\\d))", kWhere);
  const std::string digits(6'000, '1');
  Regex::Search search;
  search.allow(digits.size());
  int found = 0;
  for (std::size_t at = 0; at <= digits.size(); ++found) {
    const auto match = thousands.find(digits, at, search);
    if (!match) break;
    at = match->end + 1;
  }
  BOOST_TEST(found == 2000);
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
