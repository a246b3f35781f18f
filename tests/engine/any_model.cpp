// Whatever family config.json names, any_model makes its engine: each against the reference answers of tests/golden.
#include "tenon/engine/any_model.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tenon/cache/window.h"

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
  for (const char* name : {"gptbigcode_mha", "llama_llama3", "mistral_window7", "bloom_6_heads"}) {
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
  BOOST_CHECK_EXCEPTION(any_model<Cache<WindowKV>>(load_checkpoint(kGolden / "qwen2")), Error, [](const Error& error) {
    return std::string(error.what()).find("config.json: model_type: \"qwen2\"") != std::string::npos;
  });
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
