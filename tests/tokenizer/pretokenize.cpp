#include "tenon/tokenizer/pretokenize.h"

#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "fixtures.h"

BOOST_AUTO_TEST_SUITE(tokenizer_pretokenize)

namespace {

using tenon::CharClass;
using tenon::Pattern;

std::vector<std::string> pieces(std::string_view text, Pattern pattern = Pattern::gpt2) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = tenon::piece_end(pattern, text, at);
    BOOST_REQUIRE_GT(end, at);
    BOOST_REQUIRE_LE(end, text.size());
    out.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

// GPT-2's pattern as a backtracking regex engine runs it: alternative by alternative, on code points.
std::size_t literal_match(std::u32string_view text) {
  for (const std::u32string_view word : {U"'s", U"'t", U"'re", U"'ve", U"'m", U"'ll", U"'d"})
    if (text.starts_with(word)) return word.size();
  for (const CharClass kind : {CharClass::letter, CharClass::number, CharClass::other})
    for (std::size_t optional_space = text[0] == U' ' ? 1 : 0;; --optional_space) {  // ' ?' is greedy
      std::size_t end = optional_space;
      while (end < text.size() && tenon::char_class(text[end]) == kind) ++end;
      if (end > optional_space) return end;
      if (optional_space == 0) break;
    }
  std::size_t end = 0;
  while (end < text.size() && tenon::char_class(text[end]) == CharClass::space) ++end;
  for (std::size_t give_back = end; give_back > 0; --give_back)  // \s+(?!\S)
    if (give_back == text.size() || tenon::char_class(text[give_back]) == CharClass::space) return give_back;
  return end;  // \s+
}

// End of one to `most` characters of a kind from `at` on; `at` where there are none.
template <class Is>
std::size_t some(std::u32string_view text, std::size_t at, Is&& is, std::size_t most = std::u32string_view::npos) {
  while (at < text.size() && most-- > 0 && is(text[at])) ++at;
  return at;
}

bool is_newline(char32_t c) { return c == U'\r' || c == U'\n'; }
bool is_space(char32_t c) { return tenon::char_class(c) == CharClass::space; }
bool is_letter(char32_t c) { return tenon::char_class(c) == CharClass::letter; }
bool is_number(char32_t c) { return tenon::char_class(c) == CharClass::number; }
bool is_other(char32_t c) { return tenon::char_class(c) == CharClass::other; }

// Llama 3's pattern alternative by alternative, or Qwen2's with one number at a time.
std::size_t literal_llama3(std::u32string_view text, std::size_t numbers) {
  std::u32string folded;
  for (const char32_t c : text.substr(0, 3))
    folded += c == 0x17F ? U's' : c >= U'A' && c <= U'Z' ? static_cast<char32_t>(c + 32) : c;
  for (const std::u32string_view word : {U"'s", U"'t", U"'re", U"'ve", U"'m", U"'ll", U"'d"})
    if (std::u32string_view(folded).starts_with(word)) return word.size();
  for (std::size_t sign = !is_newline(text[0]) && !is_letter(text[0]) && !is_number(text[0]) ? 1 : 0;; --sign) {
    if (const std::size_t end = some(text, sign, is_letter); end > sign) return end;
    if (sign == 0) break;
  }
  if (const std::size_t end = some(text, 0, is_number, numbers); end > 0) return end;
  for (std::size_t space = text[0] == U' ' ? 1 : 0;; --space) {
    if (const std::size_t end = some(text, space, is_other); end > space) return some(text, end, is_newline);
    if (space == 0) break;
  }
  const std::size_t end = some(text, 0, is_space);
  for (std::size_t spaces = end;; --spaces) {  // \s*[\r\n]+
    if (const std::size_t behind = some(text, spaces, is_newline); behind > spaces) return behind;
    if (spaces == 0) break;
  }
  for (std::size_t spaces = end; spaces > 0; --spaces)  // \s+(?!\S)
    if (spaces == text.size() || is_space(text[spaces])) return spaces;
  return end;
}

bool in_word(char32_t c) {
  return !is_space(c) &&
         std::u32string_view(U"(|).,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C").find(c) == std::u32string_view::npos;
}

// Bloom's pattern: a match at the start, otherwise all text up to the next match.
std::size_t literal_bloom(std::u32string_view text) {
  const auto match = [&](std::size_t at) {
    for (std::size_t space = at < text.size() && text[at] == U' ' ? 1 : 0;; --space) {
      if (const std::size_t end = some(text, at + space, in_word); end > at + space) return end;
      if (space == 0) return at;
    }
  };
  if (const std::size_t end = match(0); end > 0) return end;
  std::size_t gap = 1;
  while (gap < text.size() && match(gap) == gap) ++gap;
  return gap;
}

// StarCoder's pattern: text between two numbers is a text of its own.
std::size_t literal_starcoder(std::u32string_view text) {
  if (is_number(text[0])) return 1;
  return literal_match(text.substr(0, some(text, 0, [](char32_t c) { return !is_number(c); })));
}

std::size_t literal_match(Pattern pattern, std::u32string_view text) {
  if (pattern == Pattern::starcoder) return literal_starcoder(text);
  if (pattern == Pattern::llama3) return literal_llama3(text, 3);
  if (pattern == Pattern::qwen2) return literal_llama3(text, 1);
  return pattern == Pattern::bloom ? literal_bloom(text) : literal_match(text);
}

std::vector<std::string> literal_pieces(std::u32string_view text, Pattern pattern) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t count = literal_match(pattern, text);
    std::string& piece = out.emplace_back();
    for (const char32_t c : text.substr(0, count)) fixtures::append(piece, c);
    text.remove_prefix(count);
  }
  return out;
}

void check(std::string_view text, const std::vector<std::string>& expected, Pattern pattern = Pattern::gpt2) {
  BOOST_TEST(pieces(text, pattern) == expected, boost::test_tools::per_element());
}

}  // namespace

BOOST_AUTO_TEST_CASE(words_numbers_and_signs) {
  check("Hello world", {"Hello", " world"});
  check("a1b22 c", {"a", "1", "b", "22", " c"});
  check("x = y**2;", {"x", " =", " y", "**", "2", ";"});
  check("<|endoftext|>", {"<|", "endoftext", "|>"});
  check("\u00E9t\u00E9 \u4E2D\u6587 \u0663", {"\u00E9t\u00E9", " \u4E2D\u6587", " \u0663"});
}

BOOST_AUTO_TEST_CASE(contractions) {
  check("I'll we've they're it's don't I'd I'm",
        {"I", "'ll", " we", "'ve", " they", "'re", " it", "'s", " don", "'t", " I", "'d", " I", "'m"});
  check("HE'S", {"HE", "'", "S"});  // lower case only
  check("'sup", {"'s", "up"});      // also at the start of a word
  check(" 's", {" '", "s"});        // the space and the sign match first
  check("''s", {"''", "s"});
  check("'r", {"'", "r"});
  check("'l", {"'", "l"});
  check("'", {"'"});
}

BOOST_AUTO_TEST_CASE(spaces) {
  check("   ", {"   "});
  check("a   b", {"a", "  ", " b"});
  check("a  \nb", {"a", "  ", "\n", "b"});  // only an ASCII space joins the next word
  check("a\n\nb", {"a", "\n", "\n", "b"});
  check("a \n", {"a", " \n"});
  check("\u00A0x", {"\u00A0", "x"});
  check(" \u3000x", {" ", "\u3000", "x"});
  check("\t x", {"\t", " x"});
}

BOOST_AUTO_TEST_CASE(starcoder) {
  const auto is = [](std::string_view text, const std::vector<std::string>& expected) {
    check(text, expected, Pattern::starcoder);
  };
  is("a12 b3c", {"a", "1", "2", " b", "3", "c"});
  is("a  12", {"a", "  ", "1", "2"});  // the space before a number is not kept for the number
  is("a  b", {"a", " ", " b"});
  is(" 1 ", {" ", "1", " "});
  is("x's 5's", {"x", "'s", " ", "5", "'s"});
  is("\u00B2\u0663.5", {"\u00B2", "\u0663", ".", "5"});
}

BOOST_AUTO_TEST_CASE(llama3_and_qwen2) {
  const auto is = [](std::string_view text, const std::vector<std::string>& expected) {
    check(text, expected, Pattern::llama3);
  };
  is("12345678 9", {"123", "456", "78", " ", "9"});
  check("123 4", {"1", "2", "3", " ", "4"}, Pattern::qwen2);
  is("HE'S it'LL 'sup", {"HE", "'S", " it", "'LL", " '", "sup"});
  is("it'\u017F don'\u017Ft", {"it", "'\u017F", " don", "'\u017F", "t"});
  is("'x \u212A'\u212A", {"'x", " \u212A", "'\u212A"});  // no contraction ends with k
  is("a\tb(c.d", {"a", "\tb", "(c", ".d"});
  is("x\u00A0y  z", {"x", "\u00A0y", " ", " z"});
  is("a;\r\n\n b", {"a", ";\r\n\n", " b"});
  is("a \n \n  b\n", {"a", " \n \n", " ", " b", "\n"});
  is("\n\nb", {"\n\n", "b"});
  is(" ...x", {" ...", "x"});
  is("  ", {"  "});
}

BOOST_AUTO_TEST_CASE(bloom) {
  const auto is = [](std::string_view text, const std::vector<std::string>& expected) {
    check(text, expected, Pattern::bloom);
  };
  is("a b1_'c, d", {"a", " b1_'c", ",", " d"});
  is("a  b", {"a", " ", " b"});
  is("(x|y) z", {"(", "x", "|", "y", ")", " z"});
  is("a. .. (b", {"a", ". .. (", "b"});
  is("\u0928\u0964 \u0627\u060C\u06D4\u3002\uFF0C\u3001\u2026!?",
     {"\u0928", "\u0964", " \u0627", "\u060C\u06D4\u3002\uFF0C\u3001\u2026!?"});
  is("\n\tx [y]", {"\n\t", "x", " [y]"});
}

BOOST_AUTO_TEST_CASE(equals_the_patterns_run_literally) {
  std::mt19937 random(2);
  constexpr std::u32string_view near =
      U"  \r\n\t''sStTreREvVlLdDmM1239.,!(|)\u017F\u212A\u00A0\u3000\u00B2\u2026\u3002\u060C\u4E2D\u00E9";
  for (int round = 0; round < 40'000; ++round) {
    std::u32string text;
    std::string bytes;
    for (std::uint32_t i = 1 + fixtures::pick(random, 14); i > 0; --i) {
      text += round % 2 == 0 ? static_cast<char32_t>(fixtures::random_code_point(random))
                             : near[fixtures::pick(random, static_cast<std::uint32_t>(near.size()))];
      fixtures::append(bytes, text.back());
    }
    for (const Pattern pattern : {Pattern::gpt2, Pattern::starcoder, Pattern::llama3, Pattern::qwen2, Pattern::bloom})
      BOOST_REQUIRE(pieces(bytes, pattern) == literal_pieces(text, pattern));
  }
}

// Code that looks back or far ahead for each piece would take minutes.
BOOST_AUTO_TEST_CASE(long_runs_end) {
  for (const std::string unit : {"a", " ", "\n", ".", "1", "'", " \n", "a ", " .", "\u00A0", "\u3002 ", "1 "}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    for (const Pattern pattern : {Pattern::gpt2, Pattern::starcoder, Pattern::llama3, Pattern::qwen2, Pattern::bloom})
      BOOST_TEST(!pieces(text, pattern).empty());
  }
}

BOOST_AUTO_TEST_SUITE_END()
