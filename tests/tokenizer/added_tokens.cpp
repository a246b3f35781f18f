#include "tenon/tokenizer/added_tokens.h"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fixtures.h"

BOOST_AUTO_TEST_SUITE(tokenizer_added_tokens)

namespace {

using tenon::detail::AddedTokens;
using tenon::detail::SpecialSpellings;
using Tokens = std::vector<AddedTokens::Token>;

// "text" for a part, "#id" for a token.
std::vector<std::string> parts(const AddedTokens& tokens, std::string_view text,
                               const SpecialSpellings& special = SpecialSpellings::nowhere()) {
  std::vector<std::string> out;
  std::string joined;
  tokens.for_each_part(text, special, [&](std::size_t begin, std::size_t size, std::optional<tenon::TokenId> id) {
    const std::string_view part = text.substr(begin, size);
    BOOST_REQUIRE(!part.empty());
    out.push_back(id ? "#" + std::to_string(*id) : std::string(part));
    joined += part;
  });
  BOOST_REQUIRE_EQUAL(joined, text);
  return out;
}

std::vector<std::string> naive(const Tokens& tokens, std::string_view text) {
  std::vector<std::string> out;
  std::string part;
  while (!text.empty()) {
    const AddedTokens::Token* best = nullptr;
    for (const auto& token : tokens)
      if (text.starts_with(token.text) && (!best || token.text.size() > best->text.size())) best = &token;
    const std::size_t length = best ? best->text.size() : 1;
    if (best && !best->special) {
      if (!part.empty()) out.push_back(part);
      part.clear();
      out.push_back("#" + std::to_string(best->id));
    } else {
      part += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  if (!part.empty()) out.push_back(part);
  return out;
}

using Parts = std::vector<std::string>;

}  // namespace

BOOST_AUTO_TEST_CASE(the_longest_at_the_leftmost_place) {
  const AddedTokens tokens(Tokens{{"<a>", 1, false}, {"<a>b", 2, false}, {"a>bc", 3, false}, {"<", 4, false}});
  BOOST_TEST(parts(tokens, "x<a>bc") == Parts({"x", "#2", "c"}));
  BOOST_TEST(parts(tokens, "<a><a") == Parts({"#1", "#4", "a"}));
  BOOST_TEST(parts(tokens, "a>bc") == Parts({"#3"}));
  BOOST_TEST(parts(tokens, "xyz") == Parts({"xyz"}));
  BOOST_TEST(parts(tokens, "").empty());
}

BOOST_AUTO_TEST_CASE(a_special_one_is_text_and_hides_what_is_in_it) {
  const AddedTokens tokens(Tokens{{"<|x<t>|>", 1, true}, {"<t>", 2, false}});
  BOOST_TEST(parts(tokens, "<|x<t>|><t>") == Parts({"<|x<t>|>", "#2"}));
  BOOST_TEST(parts(tokens, "<|x<t>|") == Parts({"<|x", "#2", "|"}));
  BOOST_TEST(parts(AddedTokens(Tokens{{"<s>", 1, true}}), "a<s>b") == Parts({"a<s>b"}));
  BOOST_TEST(parts(AddedTokens(), "a<s>b") == Parts({"a<s>b"}));
}

BOOST_AUTO_TEST_CASE(special_ones_are_cut_where_they_are_asked_for) {
  const AddedTokens tokens(Tokens{{"<s>", 1, true}, {"<s", 2, false}, {"b<", 3, false}});
  const auto everywhere = SpecialSpellings::everywhere();
  BOOST_TEST(parts(tokens, "a<s>c", everywhere) == Parts({"a", "#1", "c"}));
  BOOST_TEST(parts(tokens, "b<s>c", everywhere) == Parts({"#3", "s>c"}));
  const auto with = [&](std::string_view text, std::string mask) {
    for (char& c : mask) c = c == '#' ? '\1' : '\0';
    return parts(tokens, text, SpecialSpellings::where(mask));
  };
  BOOST_TEST(with("<s><s><s>", "###...###") == Parts({"#1", "<s>", "#1"}));
  // Partly written by a message: no token, but it hides no other token.
  BOOST_TEST(with("<s>", "##.") == Parts({"#2", ">"}));
  BOOST_TEST(with("<s>", ".##") == Parts({"#2", ">"}));
  BOOST_TEST(parts(AddedTokens(Tokens{{"<s>", -1, true}}), "a<s>", everywhere) == Parts({"a<s>"}));
}

BOOST_AUTO_TEST_CASE(tokens_that_take_white_space_or_stand_alone) {
  const auto with = [](AddedTokens::Token token, std::string_view text) { return parts(AddedTokens({token}), text); };
  const AddedTokens::Token left{.text = "<m>", .id = 1, .lstrip = true}, right{.text = "<m>", .id = 1, .rstrip = true};
  BOOST_TEST(with(left, "a \n<m> b") == Parts({"a", "#1", " b"}));
  BOOST_TEST(with(left, "\u3000<m> <m>") == Parts({"#1", "#1"}));
  BOOST_TEST(with(right, "a <m> \u2003\nb") == Parts({"a ", "#1", "b"}));
  BOOST_TEST(with(right, "<m> <m>  ") == Parts({"#1", "#1"}));
  BOOST_TEST(AddedTokens({left}).strips());
  const AddedTokens::Token alone{.text = "ab", .id = 1, .single_word = true};
  BOOST_TEST(with(alone, "ab") == Parts({"#1"}));
  BOOST_TEST(with(alone, "(ab) ab-\u00e9ab ab\u0301 ab_ 1ab ab\u200d \u24d0ab \u00bdab") ==
             Parts({"(", "#1", ") ", "#1", "-\u00e9ab ab\u0301 ab_ 1ab ab\u200d \u24d0ab \u00bd", "#1"}));
}

BOOST_AUTO_TEST_CASE(equals_the_definition_on_random_tokens) {
  std::mt19937 random(12);
  const auto word = [&](std::uint32_t least, std::uint32_t most) {
    std::string out;
    for (std::uint32_t i = least + fixtures::pick(random, most - least + 1); i > 0; --i)
      out += "ab\xC3\xFF"[fixtures::pick(random, 4)];
    return out;
  };
  for (int round = 0; round < 3'000; ++round) {
    Tokens tokens;
    std::set<std::string> seen;
    for (std::uint32_t i = fixtures::pick(random, 8); i > 0; --i)
      if (const std::string text = word(1, 4); seen.insert(text).second)
        tokens.push_back({text, static_cast<int>(seen.size()), fixtures::pick(random, 3) == 0});
    const AddedTokens added(tokens);
    for (int text = 0; text < 8; ++text) {
      const std::string it = word(0, 20);
      BOOST_REQUIRE(parts(added, it) == naive(tokens, it));
    }
  }
}

BOOST_AUTO_TEST_CASE(nearly_a_token_everywhere) {
  const AddedTokens tokens(Tokens{{std::string(AddedTokens::kMaxBytes, 'a'), 1, false}});
  std::string text;
  while (text.size() < 1'000'000) text += std::string(AddedTokens::kMaxBytes - 1, 'a') + "b";
  BOOST_TEST((parts(tokens, text) == Parts({text})));
}

// Expected: tokenizers 0.22.2. A token is dropped where the one before it took all of its text.
BOOST_AUTO_TEST_CASE(white_space_that_is_taken_already_makes_no_token) {
  const AddedTokens both(Tokens{{.text = "\n", .id = 1, .lstrip = true, .rstrip = true}});
  BOOST_TEST(parts(both, "a \n \n b") == Parts({"a", "#1", "b"}));
  BOOST_TEST(parts(both, "\n \n") == Parts({"#1"}));
  BOOST_TEST(parts(both, "a\n \n\n \nb\n") == Parts({"a", "#1", "b", "#1"}));
  const AddedTokens two(Tokens{{.text = "x", .id = 1, .rstrip = true}, {.text = "\n", .id = 2, .lstrip = true}});
  BOOST_TEST(parts(two, "x\nb") == Parts({"#1", "b"}));
  BOOST_TEST(parts(two, "x \n b") == Parts({"#1", "b"}));  // the library fails here
}

BOOST_AUTO_TEST_CASE(long_white_space_takes_linear_time) {
  const std::string text = "a" + std::string(2'000'000, '\n') + "b";
  const auto begin = std::chrono::steady_clock::now();
  const AddedTokens left(Tokens{{.text = "\n", .id = 1, .lstrip = true}});
  BOOST_TEST(parts(left, text).size() == 2'000'002u);
  const AddedTokens both(Tokens{{.text = "\n", .id = 1, .lstrip = true, .rstrip = true}});
  BOOST_TEST(parts(both, text) == Parts({"a", "#1", "b"}));
  std::size_t found = 0;  // the tokens overlap in the library
  AddedTokens(Tokens{{.text = "\n", .id = 1, .rstrip = true}})
      .for_each_part(text, SpecialSpellings::nowhere(),
                     [&](std::size_t, std::size_t, std::optional<tenon::TokenId> id) { found += id ? 1 : 0; });
  BOOST_TEST(found == 2'000'000u);
  BOOST_TEST(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < 30);
}

BOOST_AUTO_TEST_SUITE_END()
