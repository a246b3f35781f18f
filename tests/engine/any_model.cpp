// Whatever family config.json names, any_model makes its engine: each against the reference answers of tests/golden.
#include "tenon/engine/any_model.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tenon/cache/window.h"
#include "tiny.h"

BOOST_AUTO_TEST_SUITE(engine_any_model)

using namespace tenon;

namespace {

const std::filesystem::path kGolden = TENON_SOURCE_DIR "/tests/golden";

std::vector<TokenId> answer(AnyEngine& engine, Request request) {
  std::vector<TokenId> ids;
  engine.submit(std::move(request));
  while (!engine.idle()) {
    for (const Event& event : engine.step()) {
      if (event.kind == Event::Kind::token) ids.push_back(event.token);
    }
  }
  return ids;
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_family_answers_as_the_reference_does) {
  for (const char* name :
       {"gptbigcode_mha", "llama_llama3", "mistral_window7", "bloom_6_heads", "gpt_neo", "granite4_rope",
        "granite4_nope", "ernie45", "exaone4", "exaone4_window", "hunyuan", "ministral3", "qwen2_moe",
        "qwen2_moe_window", "lfm2_moe", "lfm2_moe_sigmoids", "ernie45_moe"}) {
    const auto engine = any_model<Cache<WindowKV>>(load_checkpoint(kGolden / name), EngineOptions{.threads = 2});
    nlohmann::json expected;
    std::ifstream(kGolden / name / "expected.json") >> expected;
    for (const auto& ref : expected["base"]) {
      const auto ids = ref["greedy_ids"].get<std::vector<TokenId>>();
      const auto got =
          answer(*engine, {.input_ids = ref["input_ids"].get<std::vector<TokenId>>(),
                           .options = {.max_new_tokens = static_cast<int>(ids.size()), .ignore_eos = true}});
      BOOST_TEST(got == ids, boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(another_family_is_refused_by_name) {
  using Families = ModelList<Gpt2, Llama>;
  const auto files = load_checkpoint(kGolden / "qwen2");
  BOOST_CHECK_EXCEPTION(any_model<Cache<WindowKV>>(Families{}, files), Error, [](const Error& error) {
    return std::string(error.what()).find("config.json: model_type: \"qwen2\"") != std::string::npos;
  });
}

// A text that grows past the trained length must go on as if it had been a prompt.
BOOST_AUTO_TEST_CASE(texts_that_outgrow_their_keys_are_read_again) {
  ModelConfig c = tiny_longrope();
  const auto engine = [&](int trained) {
    c.rotary.trained_positions = trained;
    return any_model<Cache<PagedKV>>(random_checkpoint(c, 3), EngineOptions{.threads = 1});
  };
  std::vector<TokenId> text;
  for (int i = 0; i < 20; ++i) text.push_back(7 * i % 97);
  // Tokens and their log-probabilities, which show each bit of the logits.
  using Scored = std::vector<std::pair<TokenId, float>>;
  const auto next = [&](AnyEngine& of, int tokens) {
    Scored out;
    of.submit({.input_ids = text, .options = {.max_new_tokens = tokens, .ignore_eos = true, .top_logprobs = 0}});
    while (!of.idle()) {
      for (const Event& event : of.step()) {
        if (event.kind == Event::Kind::token) out.push_back({event.token, event.logprob});
      }
    }
    return out;
  };
  const Scored grown = next(*engine(24), 16), never = next(*engine(60), 16);
  const auto prompts = engine(24);
  for (const auto& each : grown) {
    BOOST_TEST((next(*prompts, 1).front() == each), text.size());
    text.push_back(each.first);
  }
  BOOST_TEST((grown != never));  // the factors matter
}

// A second choice that begins when the first has outgrown its keys must not share them: its own text is short.
BOOST_AUTO_TEST_CASE(a_choice_shares_no_keys_of_a_longer_text) {
  const auto choices = [](int batch) {
    const auto engine = any_model<Cache<PagedKV>, Scheduler<ContinuousPolicy>>(
        random_checkpoint(tiny_longrope(), 3), ContinuousPolicy{.max_batch = batch},
        EngineOptions{.batch = batch, .threads = 1, .prefix_reuse = false, .draft_tokens = 0});
    std::vector<TokenId> text;
    for (int i = 0; i < 20; ++i) text.push_back(7 * i % 97);
    engine->submit({.input_ids = {1, 2, 3}, .options = {.max_new_tokens = 8, .ignore_eos = true}});
    const RequestId two = engine->submit(
        {.input_ids = text,
         .options = {.max_new_tokens = 30, .temperature = 1, .ignore_eos = true, .top_logprobs = 0, .n = 2}});
    std::vector<std::vector<std::pair<TokenId, float>>> out(2);
    while (!engine->idle()) {
      for (const Event& event : engine->step())
        if (event.kind == Event::Kind::token && event.request == two)
          out[static_cast<std::size_t>(event.choice)].push_back({event.token, event.logprob});
    }
    BOOST_TEST((out[0].size() == 30 && out[1].size() == 30));
    return out;
  };
  BOOST_TEST((choices(2) == choices(4)));
}

BOOST_AUTO_TEST_CASE(learned_positions_have_an_end) {
  const auto files = load_checkpoint(kGolden / "gptbigcode_mha");
  BOOST_CHECK_THROW(any_model<Cache<WindowKV>>(files, EngineOptions{.positions = 97}), Error);
  const auto shorter = any_model<Cache<WindowKV>>(files, EngineOptions{.positions = 40, .threads = 1});
  BOOST_TEST(shorter->config().positions == 40);
  BOOST_CHECK_THROW(answer(*shorter, {.input_ids = {5, 6, 7}, .options = {.max_new_tokens = 40}}), Error);
  BOOST_TEST(answer(*shorter, {.input_ids = {5, 6, 7}, .options = {.max_new_tokens = 38, .ignore_eos = true}}).size() ==
             38u);
}

BOOST_AUTO_TEST_CASE(a_cache_that_does_not_fit_says_what_would) {
  ModelConfig huge = Llama::one_billion();
  huge.hidden = 64, huge.inner = 64, huge.vocab = 64, huge.positions = 2147483647;  // 140 TB of keys and values
  BOOST_CHECK_EXCEPTION(any_model<Cache<WindowKV>>(random_checkpoint(huge)), Error, [](const Error& error) {
    const std::string text = error.what();
    return text.find("cache_tokens") != std::string::npos && text.find("positions") != std::string::npos;
  });
}

BOOST_AUTO_TEST_SUITE_END()
