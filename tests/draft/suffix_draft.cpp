// Guesses from texts of the same group, the bound on their memory, and the prediction of a request.
#include "tenon/draft/suffix_draft.h"

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "tenon/draft/predicted_text.h"
#include "tenon/draft/text_memory.h"

BOOST_AUTO_TEST_SUITE(draft_suffix_draft)

using namespace tenon;

namespace {

using Tokens = std::vector<TokenId>;

Tokens guesses(SuffixDraft& policy, const Tokens& text, const std::string& group, int most = 4) {
  Tokens out;
  DraftWriter writer(out, most, 100);
  policy.draft({text, 1, group}, writer);
  return out;
}

Tokens predicted(const Tokens& answer, const Tokens& prediction, int most = 3) {
  Tokens out;
  DraftWriter writer(out, most, 100);
  guess_predicted(answer, prediction, writer);
  return out;
}

// `count` tokens from `first` on, each 1 more than the one before.
Tokens rising(TokenId first, int count) {
  Tokens text;
  for (int i = 0; i < count; ++i) text.push_back(first + i);
  return text;
}

Tokens after(TextMemory& memory, const std::string& group, const Tokens& text) {
  const auto found = memory.after(group, text);
  return {found.begin(), found.end()};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_text_goes_on_as_another_one_of_its_group) {
  SuffixDraft policy;
  policy.learn({rising(1, 10), 1, "a"});
  BOOST_TEST(guesses(policy, {50, 3, 4, 5, 6}, "a") == (Tokens{7, 8, 9, 10}));
  BOOST_TEST(guesses(policy, {50, 3, 4, 5, 6}, "a", 2) == (Tokens{7, 8}));
  BOOST_TEST(guesses(policy, {50, 3, 4, 5, 6}, "b") == Tokens{});
  BOOST_TEST(guesses(policy, {50, 3, 4, 5, 6}, "") == Tokens{});
  BOOST_TEST(guesses(policy, {50, 3, 4, 9, 6}, "a") == Tokens{});
  BOOST_TEST(guesses(policy, {7, 8, 9, 10}, "a") == Tokens{});  // nothing follows in that text
}

BOOST_AUTO_TEST_CASE(what_the_text_repeats_of_itself_comes_first) {
  SuffixDraft policy;
  policy.learn({rising(1, 10), 1, "a"});
  BOOST_TEST(guesses(policy, {3, 4, 5, 6, 70, 3, 4, 5, 6}, "a", 1) == (Tokens{70}));
}

BOOST_AUTO_TEST_CASE(a_policy_without_memory_learns_nothing) {
  SuffixDraft policy(0);
  policy.learn({rising(1, 10), 1, "a"});
  BOOST_TEST(policy.bytes() == 0u);
  BOOST_TEST(guesses(policy, {50, 3, 4, 5, 6}, "a") == Tokens{});
}

BOOST_AUTO_TEST_CASE(the_latest_text_of_a_group_counts) {
  TextMemory memory(1 << 20);
  memory.add("a", std::vector<TokenId>{1, 2, 3, 4, 5});
  memory.add("a", std::vector<TokenId>{1, 2, 3, 4, 6});
  BOOST_TEST(after(memory, "a", {1, 2, 3, 4}) == (Tokens{6}));
}

BOOST_AUTO_TEST_CASE(memory_is_bounded_and_the_group_used_longest_ago_goes_first) {
  constexpr std::size_t kBytes = 40'000;
  TextMemory memory(kBytes);
  for (int group = 0; group < 40; ++group) {
    memory.add("group " + std::to_string(group), rising(1, 60));
    BOOST_TEST(memory.bytes() <= kBytes);
    if (group > 0) BOOST_TEST(after(memory, "group 0", {1, 2, 3, 4}).size() == 56u);  // in use all the time
  }
  BOOST_TEST(after(memory, "group 1", {1, 2, 3, 4}) == Tokens{});
  BOOST_TEST(after(memory, "group 39", {1, 2, 3, 4}).size() == 56u);
}

BOOST_AUTO_TEST_CASE(a_full_group_forgets_its_older_half) {
  TextMemory memory(40'000);
  for (TokenId text = 0; text < 100; ++text) memory.add("a", rising(1000 * text, 30));
  BOOST_TEST(memory.bytes() <= 40'000u);
  BOOST_TEST(after(memory, "a", rising(0, 4)) == Tokens{});
  BOOST_TEST(after(memory, "a", rising(99'000, 4)) == rising(99'004, 26));
  memory.add("a", rising(5, 100'000));  // its end is kept
  BOOST_TEST(memory.bytes() <= 40'000u);
  BOOST_TEST(after(memory, "a", rising(100'000, 4)) == (Tokens{100'004}));
}

BOOST_AUTO_TEST_CASE(a_prediction_goes_on_where_the_answer_is) {
  const Tokens prediction = rising(10, 20);
  BOOST_TEST(predicted({}, prediction) == (Tokens{10, 11, 12}));
  BOOST_TEST(predicted({10, 11}, prediction) == (Tokens{12, 13, 14}));
  BOOST_TEST(predicted({10, 99, 13, 14, 15}, prediction) == (Tokens{16, 17, 18}));  // one token was replaced
  BOOST_TEST(predicted({10, 99, 14, 15}, prediction) == Tokens{});                  // two tokens agree by chance
  BOOST_TEST(predicted(prediction, prediction) == Tokens{});
  BOOST_TEST(predicted({1}, {}) == Tokens{});
}

BOOST_AUTO_TEST_SUITE_END()
