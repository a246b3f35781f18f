#include "tenon/engine/admission.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>

#include "fixtures.h"
#include "tenon/core/error.h"
#include "tenon/tokenizer/bpe.h"

BOOST_AUTO_TEST_SUITE(tokenizer_admission)

// Checks of a prompt before it is tokenized. tests/engine has the other checks.
namespace {

using tenon::Tokenizer;

std::string refusal(const tenon::Request& request, const Tokenizer& tokenizer, int positions) {
  try {
    tenon::prompt_tokens(request, &tokenizer, positions);
  } catch (const tenon::Error& error) {
    BOOST_TEST((error.kind() == tenon::Error::Kind::invalid_request));
    BOOST_TEST(error.where() == "prompt");
    return error.what();
  }
  return "";
}

}  // namespace

// A begin of text added by the tokenizer does not count as a prompt.
BOOST_AUTO_TEST_CASE(a_request_without_a_prompt) {
  for (const std::string family : fixtures::kFamilies) {
    const Tokenizer tokenizer = Tokenizer::load(fixtures::data() / family);
    BOOST_TEST(refusal({}, tokenizer, 0).find("at least one token") != std::string::npos, family);
    BOOST_TEST(!tenon::prompt_tokens({.prompt = "a"}, &tokenizer).empty());
  }
}

// report: prompt_special_tokens_are_text
BOOST_AUTO_TEST_CASE(special_tokens_of_a_prompt_are_parsed_where_the_request_says_so) {
  const Tokenizer llama3 = Tokenizer::load(fixtures::data() / "llama3");
  const std::string prompt = "a<|begin_of_text|>b";
  const auto text = tenon::prompt_tokens({.prompt = prompt}, &llama3);
  const auto parsed = tenon::prompt_tokens({.prompt = prompt, .parse_special = true}, &llama3);
  const auto begin = llama3.begin_of_text().value();
  BOOST_TEST(std::count(text.begin(), text.end(), begin) == 1);
  BOOST_TEST(std::count(parsed.begin(), parsed.end(), begin) == 2);
  BOOST_TEST((parsed == llama3.encode_prompt(prompt, true)));
}

BOOST_AUTO_TEST_CASE(a_text_that_cannot_fit_is_not_tokenized) {
  const Tokenizer gpt2 = Tokenizer::load(fixtures::data() / "gpt2");
  const std::size_t most = gpt2.most_bytes_a_token().value();
  BOOST_TEST(most >= std::string("<|endoftext|>").size());
  BOOST_TEST(refusal({.prompt = std::string(8 * most, ' ')}, gpt2, 8).empty());  // may fit
  const std::string said = refusal({.prompt = std::string(8 * most + 1, ' ')}, gpt2, 8);
  BOOST_TEST(said.find("9 tokens") != said.npos, said);
  BOOST_TEST(said.find("at most 8") != said.npos, said);
  BOOST_TEST(refusal({.prompt = std::string(8 * most + 1, ' ')}, gpt2, 0).empty());
  // NFC can shorten a text, and a run of unknown characters is one token: no bound.
  BOOST_TEST(!Tokenizer::load(fixtures::data() / "qwen2").most_bytes_a_token().has_value());
  BOOST_TEST(!Tokenizer::load(fixtures::data() / "metaspace").most_bytes_a_token().has_value());
}

BOOST_AUTO_TEST_SUITE_END()
