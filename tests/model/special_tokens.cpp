// The first and last tokens of a text, for every family: those of config.json, otherwise those of the class in
// transformers.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "configured.h"
#include "tenon/model/any_family.h"

BOOST_AUTO_TEST_SUITE(model_special_tokens)

using namespace tenon;
using Json = nlohmann::json;

namespace {

// Expected: the defaults of configuration_<family>.py in transformers 4.57.1.
template <class Family>
void check_defaults(const std::string& base, TokenId bos, TokenId eos) {
  const auto silent = [](Json& c) { c.erase("bos_token_id"), c.erase("eos_token_id"), c["vocab_size"] = 60000; };
  const ModelConfig c = test::configured<Family>(base, silent);
  BOOST_TEST(c.bos.value_or(-1) == bos, base);
  BOOST_TEST(c.eos == std::vector<TokenId>{eos}, base);
  BOOST_TEST(c.dropped_tokens.empty(), base);
  const ModelConfig none =
      test::configured<Family>(base, [](Json& j) { j["bos_token_id"] = nullptr, j["eos_token_id"] = nullptr; });
  BOOST_TEST(!none.bos.has_value(), base);
  BOOST_TEST(none.eos.empty(), base);
  const ModelConfig outside = test::configured<Family>(base, [](Json& j) { j["eos_token_id"] = {3, 70000}; });
  BOOST_TEST(outside.eos == std::vector<TokenId>{3}, base);
  BOOST_TEST(outside.dropped_tokens == std::vector<std::string>{"config.json: eos_token_id 70000"}, base);
}

}  // namespace

// Case of the report: eos_default_of_family.
BOOST_AUTO_TEST_CASE(absent_ids_are_those_of_the_class) {
  check_defaults<Gpt2>("examples/models/tales", 50256, 50256);
  check_defaults<GptBigCode>("tests/golden/gptbigcode_mha", 50256, 50256);
  check_defaults<Llama>("tests/golden/llama_linear", 1, 2);
  check_defaults<Mistral>("tests/golden/mistral_window7", 1, 2);
  check_defaults<Bloom>("tests/golden/bloom_6_heads", 1, 2);
}

// A family derived from Llama has the defaults that it names, not those of Llama.
BOOST_AUTO_TEST_CASE(a_family_of_a_user_has_its_own_defaults) {
  struct Descendant {
    static ModelConfig configure(const ConfigFile& file) {
      return configure_llama_like(file, "llama", {.tokens = {.eos = 7}});
    }
  };
  const auto c = test::configured<Descendant>("tests/golden/llama_linear",
                                              [](Json& j) { j.erase("bos_token_id"), j.erase("eos_token_id"); });
  BOOST_TEST(!c.bos.has_value());
  BOOST_TEST(c.eos == std::vector<TokenId>{7});
}

// A GPT-2 that was trained from scratch with a small vocabulary.
BOOST_AUTO_TEST_CASE(a_default_outside_the_vocabulary_is_dropped) {
  const auto c = test::configured<Gpt2>("examples/models/tales",
                                        [](Json& j) { j.erase("bos_token_id"), j.erase("eos_token_id"); });
  BOOST_TEST(!c.bos.has_value());
  BOOST_TEST(c.eos.empty());
  BOOST_TEST(c.dropped_tokens.size() == 2U);
}

BOOST_AUTO_TEST_SUITE_END()
