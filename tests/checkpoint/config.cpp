#include "tenon/checkpoint/config.h"

#include <boost/test/unit_test.hpp>

#include "../io/scratch.h"

BOOST_AUTO_TEST_SUITE(checkpoint_config)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;

namespace {
ConfigFile config(const Scratch& scratch, const std::string& text) {
  scratch.write("config.json", text);
  return ConfigFile(scratch.folder());
}
}  // namespace

BOOST_AUTO_TEST_CASE(a_sound_config_is_read) {
  const Scratch scratch;
  ConfigFile file =
      config(scratch, R"({"model_type": "gpt2", "n_embd": 64, "n_inner": null, "quantization_config": null,
    "is_encoder_decoder": false, "pruned_heads": {}, "bos_token_id": 5, "eos_token_id": 5})");
  const ConfigFile moved = std::move(file);  // fields() must not refer to the moved-from object
  BOOST_TEST(moved.model_type() == "gpt2");
  BOOST_TEST(moved.fields().positive_int("n_embd") == 64);
  BOOST_TEST(moved.fields().positive_int("n_inner", 256) == 256);
}

BOOST_AUTO_TEST_CASE(unreadable_configs_are_refused) {
  const Scratch scratch;
  BOOST_TEST(mentions(refusal([&] { ConfigFile(scratch.folder()); }), {"config.json", "not exist"}));
  BOOST_TEST(mentions(refusal([&] { ConfigFile(scratch / "nowhere"); }), {"config.json", "nowhere", "folder"}));
  std::filesystem::create_directory(scratch / "sub");
  std::filesystem::create_directory(scratch / "sub/config.json");
  BOOST_TEST(mentions(refusal([&] { ConfigFile(scratch / "sub"); }), {"config.json", "regular"}));
  const std::pair<const char*, std::vector<std::string>> cases[] = {
      {"", {"unexpected end"}},
      {"{\"model_type\": \"gp", {"not valid JSON"}},
      {"{} {}", {"not valid JSON", "column 4"}},
      {"[]", {"must be a JSON object"}},
      {"{\"a\": NaN}", {"not valid JSON"}},
      {"{\"n_layer\": 1, \"n_layer\": 2}", {"duplicate", "n_layer"}},
      {"{\"quantization_config\": {\"quant_method\": \"exl3\"}}", {"quantization_config.quant_method", "exl3", "gptq"}},
      {"{\"quantization_config\": {}}", {"quantization_config"}},
      {"{\"is_encoder_decoder\": true}", {"is_encoder_decoder"}},
      {"{\"is_encoder_decoder\": \"no\"}", {"is_encoder_decoder", "true or false"}},
      {"{\"add_cross_attention\": true}", {"add_cross_attention"}},
      {"{\"pruned_heads\": {\"1\": [0, 2]}}", {"pruned_heads"}},
  };
  for (const auto& [text, words] : cases) {
    const std::string message = refusal([&] { config(scratch, text); });
    BOOST_TEST(mentions(message, words), message);
    BOOST_TEST(message.starts_with("config.json: "), message);
  }
  BOOST_TEST(mentions(refusal([&] { config(scratch, "{}").model_type(); }), {"config.json", "model_type", "missing"}));
  BOOST_TEST(mentions(refusal([&] { config(scratch, "{\"model_type\": 2}").model_type(); }), {"model_type", "string"}));
}

BOOST_AUTO_TEST_CASE(special_tokens_of_config_json) {
  const Scratch scratch;
  const auto tokens = [&](const std::string& text) { return config(scratch, text).special_tokens(100); };
  BOOST_TEST(!tokens("{}").bos.has_value());
  BOOST_TEST(tokens("{}").eos.empty());
  BOOST_TEST(!tokens("{\"bos_token_id\": null, \"eos_token_id\": null}").bos.has_value());
  BOOST_TEST(tokens("{\"bos_token_id\": 0}").bos.value() == 0);
  BOOST_TEST(tokens("{\"eos_token_id\": 99}").eos == std::vector<TokenId>{99});
  BOOST_TEST(tokens("{\"eos_token_id\": [1, 99]}").eos == (std::vector<TokenId>{1, 99}));
  BOOST_TEST(tokens("{\"eos_token_id\": []}").eos.empty());
  for (const std::string value : {"\"5\"", "5.0", "1e99", "[5, 5.0]", "[null]", "{}", "true"})
    for (const std::string key : {"bos_token_id", "eos_token_id"})
      BOOST_TEST(
          mentions(refusal([&] { tokens("{\"" + key + "\": " + value + "}"); }), {"config.json", key, "integer"}));
  BOOST_TEST(mentions(refusal([&] { tokens("{\"bos_token_id\": [1]}"); }), {"bos_token_id", "is a list"}));
}

// report: eos_default_of_family
BOOST_AUTO_TEST_CASE(an_absent_id_is_that_of_the_class) {
  const Scratch scratch;
  const auto tokens = [&](const std::string& text, int vocab) {
    return config(scratch, text).special_tokens(vocab, {.bos = 1, .eos = 2});
  };
  BOOST_TEST(tokens("{}", 100).bos.value() == 1);
  BOOST_TEST(tokens("{}", 100).eos == std::vector<TokenId>{2});
  const SpecialTokens none = tokens("{\"bos_token_id\": null, \"eos_token_id\": null}", 100);
  BOOST_TEST(!none.bos.has_value());
  BOOST_TEST(none.eos.empty());
  BOOST_TEST(tokens("{\"eos_token_id\": 7}", 100).eos == std::vector<TokenId>{7});
  const SpecialTokens outside = tokens("{}", 2);
  BOOST_TEST(outside.eos.empty());
  BOOST_REQUIRE(outside.dropped.size() == 1U);
  BOOST_TEST(outside.dropped[0] == "config.json: eos_token_id 2, the default of its class");
}

// report: gpt2_eos_outside_vocab
BOOST_AUTO_TEST_CASE(ids_outside_the_vocabulary_are_dropped) {
  const Scratch scratch;
  const auto tokens = [&](const std::string& text) { return config(scratch, text).special_tokens(100); };
  for (const std::string value : {"100", "-1", "50256", "18446744073709551615", "-9223372036854775808"}) {
    const SpecialTokens read = tokens("{\"bos_token_id\": " + value + ", \"eos_token_id\": " + value + "}");
    BOOST_TEST(!read.bos.has_value(), value);
    BOOST_TEST(read.eos.empty(), value);
    const std::vector<std::string> expected = {"config.json: bos_token_id " + value,
                                               "config.json: eos_token_id " + value};
    BOOST_TEST(read.dropped == expected, value);
  }
  const SpecialTokens some = tokens("{\"eos_token_id\": [5, 100, 7]}");
  BOOST_TEST(some.eos == (std::vector<TokenId>{5, 7}));
  BOOST_TEST(some.dropped == std::vector<std::string>{"config.json: eos_token_id 100"});

  // Where no id of the files is left, the tokenizer's eos_token ends a text. A file that names no id means none.
  const auto with_tokenizer = [&](const std::string& text, TokenId eos) {
    ConfigFile file = config(scratch, text);
    file.set_tokenizer_eos(eos);
    return file.special_tokens(100).eos;
  };
  BOOST_TEST(with_tokenizer("{\"eos_token_id\": 50256}", 3) == std::vector<TokenId>{3});
  BOOST_TEST(with_tokenizer("{\"eos_token_id\": [50256, 4]}", 3) == std::vector<TokenId>{4});
  BOOST_TEST(with_tokenizer("{\"eos_token_id\": 50256}", 100).empty());
  BOOST_TEST(with_tokenizer("{\"eos_token_id\": null, \"bos_token_id\": 50256}", 3).empty());
}

// Expected: where generate of transformers 4.57.1 and 5.24.0 stops with such files.
BOOST_AUTO_TEST_CASE(generation_config_says_where_a_text_ends) {
  const Scratch scratch;
  const auto tokens = [&](const std::string& generation) {
    scratch.write("generation_config.json", generation);
    return config(scratch, R"({"bos_token_id": 8, "eos_token_id": 9})").special_tokens(100, {.bos = 1, .eos = 2});
  };
  BOOST_TEST(tokens(R"({"eos_token_id": [0, 29]})").eos == (std::vector<TokenId>{0, 29}));
  BOOST_TEST(tokens(R"({"eos_token_id": 29})").eos == std::vector<TokenId>{29});
  BOOST_TEST(tokens(R"({"eos_token_id": null})").eos.empty());
  BOOST_TEST(tokens(R"({"temperature": 0.5})").eos.empty());  // config.json does not count
  BOOST_TEST(tokens(R"({"temperature": 0.5})").bos.value() == 8);
  BOOST_TEST(tokens(R"({"bos_token_id": 7})").bos.value() == 7);
  const SpecialTokens outside = tokens(R"({"eos_token_id": [101, 29]})");
  BOOST_TEST(outside.eos == std::vector<TokenId>{29});
  BOOST_TEST(outside.dropped == std::vector<std::string>{"generation_config.json: eos_token_id 101"});
  const std::vector<std::string> both = {"config.json: eos_token_id 109", "generation_config.json: eos_token_id 101"};
  scratch.write("generation_config.json", R"({"eos_token_id": [101, 29]})");
  const SpecialTokens listed = config(scratch, R"({"eos_token_id": 109})").special_tokens(100);
  BOOST_TEST(listed.eos == std::vector<TokenId>{29});
  BOOST_TEST(listed.dropped == both);
  for (const char* broken :
       {"", "[]", "{\"eos_token_id\": \"5\"}", "{\"eos_token_id\": 1.0}", "{\"eos_token_id\": [true]}"}) {
    const std::string message = refusal([&] { tokens(broken); });
    BOOST_TEST(message.starts_with("generation_config.json: "), message);
  }
  std::filesystem::remove(scratch / "generation_config.json");
  const ConfigFile without = config(scratch, R"({"eos_token_id": 9})");
  BOOST_TEST(!without.generation().has_value());
  BOOST_TEST(without.special_tokens(100).eos == std::vector<TokenId>{9});
}

BOOST_AUTO_TEST_SUITE_END()
