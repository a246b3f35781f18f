#define BOOST_TEST_MODULE tokenizer_pretokenize
#include "tenon/tokenizer/pretokenize.h"

#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "fixtures.h"

namespace {

using tenon::CharClass;

std::vector<std::string> pieces(std::string_view text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = tenon::piece_end(text, at);
    BOOST_REQUIRE_GT(end, at);
    BOOST_REQUIRE_LE(end, text.size());
    out.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

// The pattern as a backtracking regex engine runs it, one alternative after the other, on code points.
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

std::vector<std::string> literal_pieces(std::u32string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t count = literal_match(text);
    std::string& piece = out.emplace_back();
    for (const char32_t c : text.substr(0, count)) fixtures::append(piece, c);
    text.remove_prefix(count);
  }
  return out;
}

void check(std::string_view text, const std::vector<std::string>& expected) {
  BOOST_TEST(pieces(text) == expected, boost::test_tools::per_element());
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
  check("'sup", {"'s", "up"});      // at the start of a word too
  check(" 's", {" '", "s"});        // the space and the sign go first
  check("''s", {"''", "s"});
  check("'r", {"'", "r"});
  check("'l", {"'", "l"});
  check("'", {"'"});
}

BOOST_AUTO_TEST_CASE(spaces) {
  check("   ", {"   "});
  check("a   b", {"a", "  ", " b"});
  check("a  \nb", {"a", "  ", "\n", "b"});  // only an ASCII space joins the word behind it
  check("a\n\nb", {"a", "\n", "\n", "b"});
  check("a \n", {"a", " \n"});
  check("\u00A0x", {"\u00A0", "x"});
  check(" \u3000x", {" ", "\u3000", "x"});
  check("\t x", {"\t", " x"});
}

BOOST_AUTO_TEST_CASE(equals_the_pattern_run_literally) {
  std::mt19937 random(2);
  for (int round = 0; round < 20'000; ++round) {
    std::u32string text;
    std::string bytes;
    for (std::uint32_t i = 1 + fixtures::pick(random, 14); i > 0; --i) {
      text += static_cast<char32_t>(fixtures::random_code_point(random));
      fixtures::append(bytes, text.back());
    }
    BOOST_REQUIRE(pieces(bytes) == literal_pieces(text));
  }
}
