// Draft<P> in an engine: what goes wrong beside guesses stays with its own request.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tenon/tenon.h"
#include "tiny.h"

BOOST_AUTO_TEST_SUITE(engine_drafts)

using namespace tenon;

namespace {

ModelFiles files() { return random_checkpoint(tiny_gpt2(), 9); }

// Guesses how one text goes on.
struct Knows {
  static inline std::vector<TokenId> text = {};
  void draft(const DraftState& state, DraftWriter& out) const {
    if (state.text.size() >= text.size() || !std::equal(state.text.begin(), state.text.end(), text.begin())) return;
    for (std::size_t i = state.text.size(); i < text.size() && out.add(text[i]);) ++i;
  }
};

struct Throws {
  void draft(const DraftState& state, DraftWriter& out) const {
    out.add(1);
    if (state.text.size() % 2 == 0) throw std::runtime_error("no guess");
  }
};

Request request(std::vector<TokenId> prompt, int choices = 1) {
  return {.input_ids = std::move(prompt),
          .options = {.max_new_tokens = 30, .temperature = 0.9f, .seed = 3, .ignore_eos = true, .n = choices}};
}

}  // namespace

// Choice 0 fails in a step that verifies guesses of choice 1, whose later rows then have no owner.
BOOST_AUTO_TEST_CASE(a_failing_choice_leaves_its_neighbours_alone) {
  const std::vector<TokenId> prompt = {5, 6, 7};
  Engine<Gpt2> plain(files());
  const auto alone = plain.complete({request(prompt, 2), request({8, 9})});
  Knows::text = prompt;
  const std::vector<TokenId>& known = alone[0].others.at(0).ids;
  Knows::text.insert(Knows::text.end(), known.begin(), known.end());
  const TokenId first = alone[0].ids.at(0);
  BOOST_REQUIRE(first != known.at(0));

  Request failing = request(prompt, 2);
  failing.logits_processor = [first](std::span<float>, std::span<const TokenId>, std::span<const TokenId> generated) {
    if (generated.size() == 4 && generated.front() == first) throw std::runtime_error("broken");
  };
  Engine<Gpt2, Draft<Knows>> engine(files(), {.draft_tokens = 1, .draft_gain = 0});
  const auto both = engine.complete({failing, request({8, 9})});
  BOOST_TEST(both[0].error.find("broken") != std::string::npos, both[0].error);
  BOOST_TEST(both[1].error == "");
  BOOST_TEST(both[1].ids == alone[1].ids);
  BOOST_TEST(engine.stats().accepted > 0u);
}

BOOST_AUTO_TEST_CASE(a_policy_that_throws_stops_guessing) {
  Engine<Gpt2> plain(files());
  Engine<Gpt2, Draft<Throws>> engine(files(), {.draft_tokens = 4, .draft_gain = 0});
  const auto expected = plain.complete({request({5, 6, 7}), request({8, 9})});
  const auto both = engine.complete({request({5, 6, 7}), request({8, 9})});
  for (std::size_t i = 0; i < 2; ++i) {
    BOOST_TEST(both[i].error == "");
    BOOST_TEST(both[i].ids == expected[i].ids);
  }
  BOOST_TEST(engine.stats().drafted <= 2u);
}

BOOST_AUTO_TEST_SUITE_END()
