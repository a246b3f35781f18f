#include "tenon/checkpoint/config.h"

#include <boost/test/unit_test.hpp>

#include "../core/scratch.h"

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
  const ConfigFile moved = std::move(file);  // fields() must not look into what was moved from
  BOOST_TEST(moved.model_type() == "gpt2");
  BOOST_TEST(moved.fields().positive_int("n_embd") == 64);
  BOOST_TEST(moved.fields().positive_int("n_inner", 256) == 256);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_read_is_refused) {
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
      {"{\"quantization_config\": {\"quant_method\": \"gptq\"}}", {"quantization_config"}},
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

BOOST_AUTO_TEST_CASE(special_tokens_stand_in_the_vocabulary) {
  const Scratch scratch;
  const auto tokens = [&](const std::string& text) { return config(scratch, text).special_tokens(100); };
  BOOST_TEST(!tokens("{}").bos.has_value());
  BOOST_TEST(tokens("{}").eos.empty());
  BOOST_TEST(!tokens("{\"bos_token_id\": null, \"eos_token_id\": null}").bos.has_value());
  BOOST_TEST(tokens("{\"bos_token_id\": 0}").bos.value() == 0);
  BOOST_TEST(tokens("{\"eos_token_id\": 99}").eos == std::vector<TokenId>{99});
  BOOST_TEST(tokens("{\"eos_token_id\": [1, 99]}").eos == (std::vector<TokenId>{1, 99}));
  BOOST_TEST(tokens("{\"eos_token_id\": []}").eos.empty());
  for (const std::string value :
       {"100", "-1", "\"5\"", "5.0", "1e99", "[5, 100]", "[null]", "{}", "true", "18446744073709551615"})
    for (const std::string key : {"bos_token_id", "eos_token_id"})
      BOOST_TEST(
          mentions(refusal([&] { tokens("{\"" + key + "\": " + value + "}"); }), {"config.json", key, "from 0 to 99"}));
  BOOST_TEST(mentions(refusal([&] { tokens("{\"bos_token_id\": [1]}"); }), {"bos_token_id", "is a list"}));
}

BOOST_AUTO_TEST_SUITE_END()
