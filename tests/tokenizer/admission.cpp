#include "tenon/engine/admission.h"

#include <boost/test/unit_test.hpp>
#include <string>

#include "fixtures.h"
#include "tenon/core/error.h"
#include "tenon/tokenizer/bpe.h"

BOOST_AUTO_TEST_SUITE(tokenizer_admission)

// What a prompt must be before it is tokenized; tests/engine has the rest.
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

// A begin of text that the tokenizer adds is no prompt.
BOOST_AUTO_TEST_CASE(a_request_without_a_prompt) {
  for (const std::string family : fixtures::kFamilies) {
    const Tokenizer tokenizer = Tokenizer::load(fixtures::data() / family);
    BOOST_TEST(refusal({}, tokenizer, 0).find("at least one token") != std::string::npos, family);
    BOOST_TEST(!tenon::prompt_tokens({.prompt = "a"}, &tokenizer).empty());
  }
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
  // NFC can make a text shorter, and an unknown run is one token.
  BOOST_TEST(!Tokenizer::load(fixtures::data() / "qwen2").most_bytes_a_token().has_value());
  BOOST_TEST(!Tokenizer::load(fixtures::data() / "metaspace").most_bytes_a_token().has_value());
}

BOOST_AUTO_TEST_SUITE_END()
