// Our draft policies obey the laws, and each law is broken by one that is made to break it.
#include "tenon/testing/draft_laws.h"

#include <boost/test/unit_test.hpp>

#include "obeys.h"
#include "tenon/draft/no_draft.h"
#include "tenon/draft/prompt_lookup.h"
#include "tenon/draft/suffix_draft.h"

BOOST_AUTO_TEST_SUITE(testing_draft_laws)

using namespace tenon;
using test::breaks;
using test::obeys;
using testing::draft_laws;

namespace {

struct Counts {  // its calls
  void draft(const DraftState&, DraftWriter& out) { out.add(static_cast<TokenId>(calls++ % 2)); }
  int calls = 0;
};
struct Remembers {  // the first token of the text before
  void draft(const DraftState& state, DraftWriter& out) {
    out.add(before);
    if (state.text.front() != now) before = std::exchange(now, state.text.front());
  }
  TokenId before = 0, now = 0;
};
struct FillsUp {  // the room, from its end
  void draft(const DraftState& state, DraftWriter& out) const {
    for (int left = out.room(); left > 0; --left) out.add((state.text.back() + left) % 2);
  }
};
struct MixesGroups {  // guesses from every text that has ended
  void draft(const DraftState&, DraftWriter& out) const { out.add(last); }
  void learn(const DraftState& state) { last = state.text.back(); }
  TokenId last = 0;
};
struct Throws {
  void draft(const DraftState&, DraftWriter&) const { throw std::runtime_error("no"); }
};

}  // namespace

BOOST_AUTO_TEST_CASE(ours_obey) {
  obeys(draft_laws(NoDraft{}));
  obeys(draft_laws(PromptLookup{}));
  obeys(draft_laws(PromptLookup{.ngram = 1}));
  obeys(draft_laws(SuffixDraft{}));
  obeys(draft_laws(SuffixDraft(2000)));
}

BOOST_AUTO_TEST_CASE(each_law_can_be_broken) {
  BOOST_TEST(breaks(draft_laws(Counts{}), "the same text has the same guesses"));
  BOOST_TEST(breaks(draft_laws(Remembers{}), "on the text alone"));
  BOOST_TEST(breaks(draft_laws(FillsUp{}), "less room cuts"));
  BOOST_TEST(breaks(draft_laws(MixesGroups{}), "of another group"));
  BOOST_TEST(breaks(draft_laws(Throws{}), "throws nothing"));
}

BOOST_AUTO_TEST_SUITE_END()
