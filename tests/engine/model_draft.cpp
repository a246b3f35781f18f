// A smaller model's guesses: no answer changes, and those of an equal model are all right.
#include "tenon/engine/model_draft.h"

#include <boost/test/unit_test.hpp>
#include <memory>
#include <vector>

#include "tenon/tenon.h"
#include "tenon/testing/draft_laws.h"
#include "tiny.h"

BOOST_AUTO_TEST_SUITE(engine_model_draft)

using namespace tenon;

namespace {

using Small = Engine<Gpt2>;
using Large = Engine<Gpt2, Draft<ModelDraft<Small>>>;

std::vector<Request> requests() {
  std::vector<Request> all;
  for (TokenId i = 0; i < 3; ++i)
    all.push_back(
        {.input_ids = {5, 6, 7, i},
         .options = {.max_new_tokens = 24, .temperature = i == 2 ? 0.8f : 0.0f, .seed = 3, .ignore_eos = true}});
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(no_answer_changes) {
  Engine<Gpt2, Draft<NoDraft>> plain(random_checkpoint(tiny_gpt2(), 9));
  const auto expected = plain.complete(requests());
  for (const unsigned seed : {9u, 10u}) {
    Large large(random_checkpoint(tiny_gpt2(), 9), {.draft_gain = 0});
    large.draft_policy() = ModelDraft(std::make_shared<Small>(random_checkpoint(tiny_gpt2(), seed)), 4);
    const auto answers = large.complete(requests());
    for (std::size_t i = 0; i < answers.size(); ++i) BOOST_TEST(answers[i].ids == expected[i].ids);
    const GuessCounts& greedy = answers[0].guesses;
    BOOST_TEST(greedy.drafted > 0);
    if (seed == 9) BOOST_TEST(greedy.accepted == greedy.drafted);  // the same model
  }
}

BOOST_AUTO_TEST_CASE(guesses_end_with_the_smaller_models_positions) {
  ModelConfig config = tiny_gpt2();
  config.positions = 16;
  ModelDraft draft(std::make_shared<Small>(random_checkpoint(config, 9)), 4);
  const std::vector<TokenId> text(14, 5), whole(16, 5);
  std::vector<TokenId> guesses;
  DraftWriter out(guesses, 8, config.vocab), none(guesses, 8, config.vocab);
  draft.draft({text, 1}, out);
  BOOST_TEST(guesses.size() == 2u);
  draft.draft({whole, 1}, none);
  BOOST_TEST(guesses.size() == 2u);
}

BOOST_AUTO_TEST_CASE(texts_of_other_salts_and_groups_share_no_prefix) {
  const auto small = std::make_shared<Small>(random_checkpoint(tiny_gpt2(), 9));
  ModelDraft draft(small, 1);
  std::vector<TokenId> text;
  for (TokenId i = 0; i < 40; ++i) text.push_back(i);
  const auto hits = [&](std::string_view group, std::string_view salt) {
    std::vector<TokenId> guesses;
    DraftWriter out(guesses, 1, small->config().vocab);
    const auto before = small->stats().prefix_hit_tokens;
    draft.draft({text, 40, group, salt}, out);
    return small->stats().prefix_hit_tokens - before;
  };
  BOOST_TEST(hits("", "") == 0u);
  BOOST_TEST(hits("", "") > 0u);
  BOOST_TEST(hits("", "mine") == 0u);  // a client without a number of its own
  BOOST_TEST(hits("", "mine") > 0u);
  BOOST_TEST(hits("group", "mine") == 0u);
  BOOST_TEST(hits("", "yours") == 0u);
}

BOOST_AUTO_TEST_CASE(without_a_model_nothing_is_guessed) {
  BOOST_TEST(testing::draft_laws(ModelDraft<Small>{}).empty());
}

BOOST_AUTO_TEST_SUITE_END()
