#include "tenon/tokenizer/split.h"

#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

BOOST_AUTO_TEST_SUITE(tokenizer_split)

using tenon::TextSpan;
using enum tenon::detail::SplitBehavior;

namespace {

std::string split(std::string_view text, tenon::detail::SplitBehavior behavior, bool invert = false) {
  std::string out;
  const auto find = [&](std::size_t from) -> std::optional<TextSpan> {
    const std::size_t found = text.find('-', from);
    return found == text.npos ? std::nullopt : std::optional(TextSpan{found, found + 1});
  };
  tenon::detail::split_text(text, behavior, invert, find, [&](std::size_t begin, std::size_t end) {
    (out += out.empty() ? "" : " ") += text.substr(begin, end - begin);
  });
  return out;
}

}  // namespace

// The examples of SplitDelimiterBehavior in the documentation of tokenizers. The inverses are those of version 0.22.2.
BOOST_AUTO_TEST_CASE(behaviors) {
  constexpr std::string_view text = "the-final--countdown";
  BOOST_TEST(split(text, isolated) == "the - final - - countdown");
  BOOST_TEST(split(text, removed) == "the final countdown");
  BOOST_TEST(split(text, contiguous) == "the - final -- countdown");
  BOOST_TEST(split(text, merged_with_previous) == "the- final- - countdown");
  BOOST_TEST(split(text, merged_with_next) == "the -final - -countdown");
  BOOST_TEST(split(text, removed, true) == "- - -");
  BOOST_TEST(split(text, contiguous, true) == "the - final -- countdown");
  BOOST_TEST(split(text, merged_with_previous, true) == "the -final - -countdown");
  BOOST_TEST(split(text, merged_with_next, true) == "the- final- - countdown");
}

BOOST_AUTO_TEST_CASE(matches_at_the_ends) {
  BOOST_TEST(split("-a-", merged_with_next) == "-a -");
  BOOST_TEST(split("-a-", merged_with_previous) == "- a-");
  BOOST_TEST(split("--", removed) == "");
  BOOST_TEST(split("", isolated) == "");
  BOOST_TEST(split("a", removed, true) == "");
}

BOOST_AUTO_TEST_SUITE_END()
