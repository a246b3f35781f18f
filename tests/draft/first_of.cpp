// The first policy that guesses anything counts.
#include "tenon/draft/first_of.h"

#include <boost/test/unit_test.hpp>
#include <vector>

#include "tenon/draft/no_draft.h"
#include "tenon/draft/prompt_lookup.h"
#include "tenon/draft/suffix_draft.h"
#include "tenon/testing/draft_laws.h"

BOOST_AUTO_TEST_SUITE(draft_first_of)

using namespace tenon;

namespace {

using Tokens = std::vector<TokenId>;

// Guesses one token after a text that ends with another one.
struct After {
  TokenId last = 0, guess = 0;
  void draft(const DraftState& state, DraftWriter& out) const {
    if (state.text.back() == last) out.add(guess);
  }
};

template <class P>
Tokens guesses(P& policy, const Tokens& text, const char* group = "") {
  Tokens out;
  DraftWriter writer(out, 4, 100);
  policy.draft({text, 1, group}, writer);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(policies_are_asked_until_one_guesses) {
  FirstOf both(PromptLookup{}, After{3, 50});
  BOOST_TEST(guesses(both, {1, 2, 3}) == Tokens{50});
  BOOST_TEST(guesses(both, {2, 3, 7, 2, 3}) == (Tokens{7, 2, 3, 7}));
  BOOST_TEST(guesses(both, {1, 2}) == Tokens{});
  FirstOf other(After{3, 50}, PromptLookup{});
  BOOST_TEST(guesses(other, {2, 3, 7, 2, 3}) == Tokens{50});
  FirstOf<> none;
  BOOST_TEST(guesses(none, {2, 3, 7, 2, 3}) == Tokens{});
}

BOOST_AUTO_TEST_CASE(policies_that_learn_are_shown_the_texts) {
  static_assert(LearnsTexts<FirstOf<NoDraft, SuffixDraft>> && !LearnsTexts<FirstOf<NoDraft, PromptLookup>>);
  FirstOf<NoDraft, SuffixDraft> policy;
  const Tokens ended = {1, 2, 3, 4, 5, 6};
  policy.learn({ended, 1, "a"});
  BOOST_TEST(guesses(policy, {9, 2, 3, 4, 5}, "a") == Tokens{6});
  BOOST_TEST(policy.get<SuffixDraft>().bytes() > 0u);
}

BOOST_AUTO_TEST_CASE(laws) { BOOST_TEST(testing::draft_laws(FirstOf<SuffixDraft, PromptLookup>{}).empty()); }

BOOST_AUTO_TEST_SUITE_END()
