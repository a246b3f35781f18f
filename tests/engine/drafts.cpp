// Draft<P> in an engine: what goes wrong beside guesses stays with its own request.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
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

// Guesses nothing, and keeps the salts of what it sees.
struct KeepsSalts {
  static inline std::vector<std::string> drafted = {}, learnt = {};
  void draft(const DraftState& state, DraftWriter&) const { drafted.emplace_back(state.cache_salt); }
  void learn(const DraftState& state) const { learnt.emplace_back(state.cache_salt); }
};

Request request(std::vector<TokenId> prompt, int choices = 1) {
  return {.input_ids = std::move(prompt),
          .options = {.max_new_tokens = 30, .temperature = 0.9f, .seed = 3, .ignore_eos = true, .n = choices}};
}

}  // namespace

// Choice 0 fails in a step that verifies guesses of choice 1, whose later rows then have no owner.
BOOST_AUTO_TEST_CASE(a_failing_choice_leaves_its_neighbours_alone) {
  const std::vector<TokenId> prompt = {5, 6, 7};
  Engine<Gpt2, Draft<NoDraft>> plain(files());
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
  Engine<Gpt2, Draft<NoDraft>> plain(files());
  Engine<Gpt2, Draft<Throws>> engine(files(), {.draft_tokens = 4, .draft_gain = 0});
  const auto expected = plain.complete({request({5, 6, 7}), request({8, 9})});
  const auto both = engine.complete({request({5, 6, 7}), request({8, 9})});
  for (std::size_t i = 0; i < 2; ++i) {
    BOOST_TEST(both[i].error == "");
    BOOST_TEST(both[i].ids == expected[i].ids);
  }
  BOOST_TEST(engine.stats().drafted <= 2u);
}

// A request's prediction is verified first, as many tokens as the step has room for.
BOOST_AUTO_TEST_CASE(a_right_prediction_is_read_at_once) {
  Engine<Gpt2, Draft<NoDraft>> plain(files());
  Request asked = request({5, 6, 7});
  asked.options.logits_hash = true;
  const auto alone = plain.complete(asked);
  Engine<Gpt2> engine(files(), {.draft_gain = 0});
  asked.prediction = alone.ids;
  const auto predicted = engine.complete(asked);
  BOOST_TEST(predicted.ids == alone.ids);
  BOOST_TEST(*predicted.logits_hash == *alone.logits_hash);
  BOOST_TEST(engine.stats().steps == 1u);  // the prompt and 29 guesses
  BOOST_TEST((predicted.guesses == GuessCounts{29, 29, 29, 29}));
  BOOST_TEST((alone.guesses == GuessCounts{}));
}

BOOST_AUTO_TEST_CASE(a_prediction_with_a_wrong_token_is_taken_up_again) {
  Engine<Gpt2, Draft<NoDraft>> plain(files());
  Request asked = request({5, 6, 7});
  const auto alone = plain.complete(asked);
  asked.prediction = alone.ids;
  asked.prediction[9] = (alone.ids[9] + 1) % 50;
  Engine<Gpt2> engine(files(), {.draft_gain = 0});
  const auto predicted = engine.complete(asked);
  BOOST_TEST(predicted.ids == alone.ids);
  BOOST_TEST(predicted.guesses.prediction_accepted >= 20);
  BOOST_TEST(engine.stats().steps < 10u);
}

BOOST_AUTO_TEST_CASE(a_prediction_of_unknown_tokens_is_refused) {
  Engine<Gpt2> engine(files());
  Request asked = request({5, 6, 7});
  asked.prediction = {1, 100'000};
  BOOST_CHECK_EXCEPTION(engine.submit(asked), Error,
                        [](const Error& e) { return std::string(e.what()).find("prediction") != std::string::npos; });
}

// Texts of a client help each other where they have the same salt, and never otherwise.
BOOST_AUTO_TEST_CASE(an_answer_is_guessed_from_an_earlier_one_of_its_group) {
  const auto accepted = [](int client, const std::string& salt, const std::string& first_salt) {
    Engine<Gpt2> engine(files(), {.draft_gain = 0});
    Request asked = request({5, 6, 7});
    asked.options.client = std::min(client, 1);
    asked.options.cache_salt = first_salt;
    const auto first = engine.complete(asked);
    asked.options.client = client;
    asked.options.cache_salt = salt;
    const auto second = engine.complete(asked);
    BOOST_TEST(first.ids == second.ids);
    return second.guesses.accepted - first.guesses.accepted;
  };
  BOOST_TEST(accepted(1, "mine", "mine") >= 20);
  BOOST_TEST(accepted(2, "mine", "mine") == 0);
  BOOST_TEST(accepted(1, "other", "mine") == 0);
  BOOST_TEST(accepted(1, "", "") == 0);
  BOOST_TEST(accepted(-2, "mine", "mine") == 0);
}

// Allows the tokens of one text alone, and guesses them.
struct Fixed {
  std::vector<TokenId> text;
  std::vector<std::uint32_t> row;
  std::size_t at = 0;

  Fixed(std::vector<TokenId> tokens, int vocab)
      : text(std::move(tokens)), row(static_cast<std::size_t>(vocab + 31) / 32) {}
  std::span<const std::uint32_t> mask() {
    std::fill(row.begin(), row.end(), 0u);
    row[static_cast<std::size_t>(text[at]) / 32] |= 1u << (text[at] % 32);
    return row;
  }
  void advance(TokenId) { ++at; }
  bool must_end() const { return at == text.size(); }
  void guess(DraftWriter& out) const {
    for (std::size_t i = at; i < text.size() && out.add(text[i]);) ++i;
  }
};
static_assert(GuessesTokens<Fixed>);

BOOST_AUTO_TEST_CASE(a_policy_gets_the_salt_of_a_text) {
  Engine<Gpt2, Draft<KeepsSalts>> engine(files());
  Request asked = request({5, 6, 7});
  asked.options.max_new_tokens = 3;
  asked.options.cache_salt = "mine";
  asked.options.client = 1;
  engine.complete(asked);
  BOOST_TEST(KeepsSalts::drafted == std::vector<std::string>{"mine"}, boost::test_tools::per_element());
  BOOST_TEST(KeepsSalts::learnt == std::vector<std::string>{"mine"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_a_constraint_forces_comes_in_one_step) {
  Engine<Gpt2> engine(files(), {.draft_gain = 0});
  Engine<Gpt2, Draft<NoDraft>> plain(files());
  Request asked = request({5, 6, 7});
  asked.options.logits_hash = true;
  const std::vector<TokenId> text = {9, 8, 7, 6, 5, 4, 3, 2};
  asked.constraint = constraint_of(Fixed(text, plain.config().vocab), plain.config().vocab);
  const auto alone = plain.complete(asked);
  const auto guessed = engine.complete(asked);
  BOOST_TEST(alone.ids == text);
  BOOST_TEST(guessed.ids == text);
  BOOST_TEST(*guessed.logits_hash == *alone.logits_hash);
  BOOST_TEST(plain.stats().steps == 8u);
  BOOST_TEST(engine.stats().steps == 1u);
}

// The engine tells the cost of a step with guesses from that of one without them, so that it measures both.
BOOST_AUTO_TEST_CASE(some_steps_have_no_guesses) {
  Request asked = request({5, 6, 7});
  asked.options.max_new_tokens = 300;
  Engine<Gpt2, Draft<NoDraft>> plain(files());
  Knows::text = asked.input_ids;
  const std::vector<TokenId> known = plain.complete(asked).ids;
  Knows::text.insert(Knows::text.end(), known.begin(), known.end());
  Engine<Gpt2, Draft<Knows>> engine(files(), {.draft_tokens = 1});
  int in_turn = 0, most_in_turn = 0;
  engine.submit(asked);
  engine.step();  // reads the prompt, which says nothing about other steps
  engine.step();
  BOOST_TEST(engine.stats().drafted == 0u);
  while (!engine.idle()) {
    const std::uint64_t before = engine.stats().drafted;
    engine.step();
    in_turn = engine.stats().drafted > before ? in_turn + 1 : 0;
    most_in_turn = std::max(most_in_turn, in_turn);
  }
  BOOST_TEST(engine.stats().drafted > 0u);
  BOOST_TEST(most_in_turn <= RowCost::kRefresh);
}

BOOST_AUTO_TEST_SUITE_END()
