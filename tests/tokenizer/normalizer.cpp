#include "tenon/tokenizer/normalizer.h"

#include <boost/test/unit_test.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/tokenizer/regex_parser.h"

BOOST_AUTO_TEST_SUITE(tokenizer_normalizer)

namespace {

using tenon::detail::Normalizer;
using tenon::detail::Regex;
using Kind = tenon::detail::NormalizerStep::Kind;

// The text, followed by its mask as # and . for each byte.
std::string normalized(const Normalizer& normalizer, std::string text, std::string mask) {
  for (char& c : mask) c = c == '#' ? '\1' : '\0';
  std::string alone = text;
  Regex::Search search;
  normalizer.apply(text, &mask, search);
  normalizer.apply(alone, nullptr, search);
  BOOST_TEST(alone == text);
  for (char& c : mask) c = c == '\0' ? '.' : '#';
  return text + "|" + mask;
}

}  // namespace

BOOST_AUTO_TEST_CASE(steps_run_in_order_and_marks_go_along) {
  const Normalizer llama({{.kind = Kind::prepend, .to = "_"}, {Kind::replace, " ", "=="}});
  BOOST_TEST(normalized(llama, "a b", "#..") == "_a==b|##...");
  BOOST_TEST(normalized(llama, "a b", ".#.") == "_a==b|..##.");
  BOOST_TEST(normalized(llama, "", "") == "|");
  const Normalizer two({{Kind::replace, "ab", "x"}, {Kind::replace, "xx", "y"}});
  BOOST_TEST(normalized(two, "ababc", "##.#.") == "yc|..");
  BOOST_TEST(normalized(two, "ababc", "####.") == "yc|#.");
}

BOOST_AUTO_TEST_CASE(composition) {
  const Normalizer nfc({{.form = tenon::NormalForm::nfc}});
  BOOST_TEST(normalized(nfc, "ae\u0301b", "##..#") == "a\u00e9b|#..#");
  BOOST_TEST(normalized(nfc, "ae\u0301b", ".###.") == "a\u00e9b|.##.");
  BOOST_TEST(normalized(nfc, "\u00e9<s>", "..###") == "\u00e9<s>|..###");
}

BOOST_AUTO_TEST_CASE(other_steps) {
  BOOST_TEST(normalized(Normalizer({{.kind = Kind::lower_case}}), "A\u0130\u00c9", "#....") == "ai\u0307\u00e9|#.....");
  BOOST_TEST(normalized(Normalizer({{.kind = Kind::clean}}), "a\tb\x01\u200b", "#.#....") == "a b |#.#.");
  BOOST_TEST(normalized(Normalizer({{.kind = Kind::strip, .left = true}}), " \u3000a ", "####.#") == "a |.#");
  BOOST_TEST(normalized(Normalizer({{.kind = Kind::strip, .right = true}}), " a\u00a0", "#...") == " a|#.");
  const Regex spaces = tenon::detail::RegexParser::parse(" {2,}", "x");
  BOOST_TEST(normalized(Normalizer({{.kind = Kind::replace_matches, .to = "_", .regex = spaces}}), "a  b c   ",
                        "###....##") == "a_b c_|##....");
}

// Metaspace asks whether a part is the beginning of the text.
BOOST_AUTO_TEST_CASE(a_step_may_drop_the_beginning) {
  const auto begins = [](std::vector<tenon::detail::NormalizerStep> steps, std::string text) {
    Regex::Search search;
    return Normalizer(std::move(steps)).apply(text, nullptr, search);
  };
  BOOST_TEST(begins({{.kind = Kind::strip, .left = true}}, "a "));
  BOOST_TEST(!begins({{.kind = Kind::strip, .left = true}}, " a"));
  BOOST_TEST(begins({{.kind = Kind::prepend, .to = " "}, {.kind = Kind::strip, .left = true}}, "a"));
  BOOST_TEST(!begins({{.kind = Kind::strip, .left = true}, {.kind = Kind::prepend, .to = "x"}}, " a"));
  BOOST_TEST(begins({{Kind::replace, "a", "b"}}, "a"));
  BOOST_TEST(!begins({{Kind::replace, "aa", "b"}}, "aa"));
  BOOST_TEST(!begins({{Kind::replace, "a", ""}}, "ab"));
}

// The result would have 2^40 bytes. It is refused before memory is allocated.
BOOST_AUTO_TEST_CASE(a_result_that_is_too_long_takes_no_memory) {
  const std::string million(1 << 20, 'x');
  for (const std::string from : {"a", "aa"}) {
    const Normalizer normalizer({{Kind::replace, from, million}});
    for (const bool marked : {false, true}) {
      std::string text(from.size() << 20, 'a'), mask(text.size(), '\0');
      const auto said = [](const tenon::Error& error) {
        return error.kind() == tenon::Error::Kind::capacity && error.where() == "text" &&
               std::string(error.what()).find("has 1099511627776 bytes once normalized") != std::string::npos;
      };
      Regex::Search search;
      BOOST_CHECK_EXCEPTION(normalizer.apply(text, marked ? &mask : nullptr, search), tenon::Error, said);
      BOOST_TEST(text.size() == from.size() << 20);
    }
  }
  std::string text = "aabaaa";
  Regex::Search search;
  Normalizer({{Kind::replace, "aa", "xyz"}}).apply(text, nullptr, search);
  BOOST_TEST(text == "xyzbxyza");
}

BOOST_AUTO_TEST_SUITE_END()
