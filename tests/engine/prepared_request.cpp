#include "tenon/engine/prepared_request.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <limits>
#include <string>

#include "../tokenizer/fixtures.h"
#include "tenon/core/error.h"
#include "tenon/tokenizer/bpe.h"

BOOST_AUTO_TEST_SUITE(engine_prepared_request)

namespace {

using tenon::Tokenizer;

std::string refusal(const std::string& prompt, const Tokenizer& tokenizer, int positions) {
  try {
    tenon::prompt_tokens(prompt, tokenizer, positions);
  } catch (const tenon::Error& error) {
    BOOST_TEST((error.kind() == tenon::Error::Kind::invalid_request));
    BOOST_TEST(error.where() == "prompt");
    return error.what();
  }
  return "";
}

}  // namespace

// A begin of text that the tokenizer adds is no prompt.
BOOST_AUTO_TEST_CASE(a_request_without_a_prompt) {
  for (const std::string family : fixtures::kFamilies) {
    const Tokenizer tokenizer = Tokenizer::load(fixtures::data() / family);
    BOOST_TEST(refusal("", tokenizer, 0).find("at least one token") != std::string::npos, family);
    BOOST_TEST(!tenon::prompt_tokens("a", tokenizer).empty());
  }
}

// report: prompt_special_tokens_are_text
BOOST_AUTO_TEST_CASE(special_tokens_of_a_prompt_are_parsed_where_the_request_says_so) {
  const Tokenizer llama3 = Tokenizer::load(fixtures::data() / "llama3");
  const std::string prompt = "a<|begin_of_text|>b";
  const auto text = tenon::prompt_tokens(prompt, llama3);
  const auto parsed = tenon::prompt_tokens(prompt, llama3, 0, /*parse_special=*/true);
  const auto begin = llama3.begin_of_text().value();
  BOOST_TEST(std::count(text.begin(), text.end(), begin) == 1);
  BOOST_TEST(std::count(parsed.begin(), parsed.end(), begin) == 2);
  BOOST_TEST((parsed == llama3.encode_prompt(prompt, true)));
}

BOOST_AUTO_TEST_CASE(a_text_that_cannot_fit_is_not_tokenized) {
  const Tokenizer gpt2 = Tokenizer::load(fixtures::data() / "gpt2");
  const std::size_t most = gpt2.most_bytes_a_token().value();
  BOOST_TEST(most >= std::string("<|endoftext|>").size());
  BOOST_TEST(refusal(std::string(8 * most, ' '), gpt2, 8).empty());  // may fit
  const std::string said = refusal(std::string(8 * most + 1, ' '), gpt2, 8);
  BOOST_TEST(said.find("9 tokens") != said.npos, said);
  BOOST_TEST(said.find("at most 8") != said.npos, said);
  BOOST_TEST(refusal(std::string(8 * most + 1, ' '), gpt2, 0).empty());
  // NFC can make a text shorter, and an unknown run is one token.
  BOOST_TEST(!Tokenizer::load(fixtures::data() / "qwen2").most_bytes_a_token().has_value());
  BOOST_TEST(!Tokenizer::load(fixtures::data() / "metaspace").most_bytes_a_token().has_value());
}

// prepare() reads the prompt once, and names the field of whatever no engine could answer.
BOOST_AUTO_TEST_CASE(a_request_is_checked_once_and_then_holds_tokens) {
  const Tokenizer gpt2 = Tokenizer::load(fixtures::data() / "gpt2");
  tenon::ModelConfig config;
  config.vocab = 60000;
  config.positions = 32;
  const tenon::AdmissionLimits limits{.config = config, .tokenizer = &gpt2, .cache_tokens = 24};
  const auto prepared = tenon::prepare({.prompt = "a b c", .options = {.max_new_tokens = 4, .n = 2}}, limits);
  BOOST_TEST((prepared.tokens() == gpt2.encode_prompt("a b c", false)));
  BOOST_TEST(prepared.sequences() == 2);
  const tenon::NewSequence second = prepared.sequence(7, 1, 3);
  BOOST_TEST((second.request == 7u && second.choice == 1 && second.parent == 3u && second.ordinal == 1));
  BOOST_TEST((second.tokens == prepared.tokens()));

  const auto refused = [&](tenon::Request request, tenon::Error::Kind kind, const char* field) {
    BOOST_CHECK_EXCEPTION(tenon::prepare(std::move(request), limits), tenon::Error,
                          [&](const tenon::Error& error) { return error.kind() == kind && error.where() == field; });
  };
  using Kind = tenon::Error::Kind;
  refused({.prompt = "a", .input_ids = {1}}, Kind::invalid_request, "input_ids");
  refused({.prompt = "a", .options = {.temperature = -1}}, Kind::invalid_request, "temperature");
  refused({.input_ids = {60000}}, Kind::invalid_request, "input_ids");
  refused({.input_ids = {1}, .options = {.stop_ids = {-1}}}, Kind::invalid_request, "stop_ids");
  refused({.input_ids = {1}, .options = {.logits_at = {1}}}, Kind::invalid_request, "logits_at");
  refused({.input_ids = {1}, .options = {.max_new_tokens = 33}}, Kind::invalid_request, "max_new_tokens");
  refused({.input_ids = {1}, .options = {.max_new_tokens = 25}}, Kind::capacity, "prompt");
  refused({.input_ids = {1}, .options = {.finish_within_budget = true}}, Kind::invalid_request, "finish_within_budget");

  constexpr int most = std::numeric_limits<int>::max();  // no ordinal of a choice may overflow
  refused({.input_ids = {1}, .options = {.ordinal = most}}, Kind::invalid_request, "ordinal");
  const auto last = tenon::prepare({.input_ids = {1}, .options = {.ordinal = most - 128, .n = 128}}, limits);
  BOOST_TEST(last.sequence(1, 127, 0).ordinal == most - 1);
}

BOOST_AUTO_TEST_SUITE_END()
