#include "tenon/draft/prompt_lookup.h"

#include <boost/test/unit_test.hpp>

#include <vector>

BOOST_AUTO_TEST_SUITE(draft_prompt_lookup)

using namespace tenon;

namespace {

std::vector<TokenId> guesses(const std::vector<TokenId>& text, int most, PromptLookup policy = {}) {
  std::vector<TokenId> out;
  DraftWriter writer(out, most, 100);
  policy.draft({text, 1}, writer);
  return out;
}

using Tokens = std::vector<TokenId>;

}  // namespace

BOOST_AUTO_TEST_CASE(a_text_goes_on_as_before) {
  BOOST_TEST(guesses({1, 2, 3, 4, 5, 6, 9, 1, 2, 3}, 3) == (Tokens{4, 5, 6}));
  BOOST_TEST(guesses({1, 2, 3, 4, 5, 6, 9, 1, 2, 3}, 1) == (Tokens{4}));
  BOOST_TEST(guesses({1, 2, 3, 4, 5, 6, 9, 1, 2, 3}, 0) == Tokens{});
}

BOOST_AUTO_TEST_CASE(the_longest_agreement_counts_then_the_latest) {
  BOOST_TEST(guesses({0, 1, 2, 3, 4, 8, 1, 2, 3, 5, 0, 1, 2, 3}, 1) == (Tokens{4}));  // 0 1 2 3 stood before the 4
  BOOST_TEST(guesses({7, 1, 2, 3, 4, 8, 1, 2, 3, 5, 0, 1, 2, 3}, 1) == (Tokens{5}));
}

BOOST_AUTO_TEST_CASE(too_short_an_agreement_guesses_nothing) {
  BOOST_TEST(guesses({2, 4, 9, 1, 2}, 3) == Tokens{});
  BOOST_TEST(guesses({1, 2, 4, 9, 1, 2}, 3, {.ngram = 3}) == Tokens{});
  BOOST_TEST(guesses({1, 2, 4, 9, 1, 2}, 2) == (Tokens{4, 9}));
  BOOST_TEST(guesses({5}, 3) == Tokens{});
  BOOST_TEST(guesses({1, 2, 3}, 3) == Tokens{});
}

BOOST_AUTO_TEST_CASE(a_repetition_at_the_end_goes_on) {
  BOOST_TEST(guesses({6, 6, 6, 6}, 4) == (Tokens{6, 6, 6, 6}));
  BOOST_TEST(guesses({1, 2, 1, 2, 1}, 5) == (Tokens{2, 1, 2, 1, 2}));
}

BOOST_AUTO_TEST_CASE(the_writer_takes_tokens_of_the_model_alone) {
  std::vector<TokenId> out = {1};
  DraftWriter writer(out, 3, 10);
  BOOST_TEST(writer.add(9));
  BOOST_TEST(!writer.add(10));
  BOOST_TEST(writer.room() == 0);
  BOOST_TEST(!writer.add(2));
  BOOST_TEST(out == (Tokens{1, 9}));
}

BOOST_AUTO_TEST_SUITE_END()
