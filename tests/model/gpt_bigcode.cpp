#include "tenon/model/gpt_bigcode.h"

#include <boost/test/unit_test.hpp>

#include "configured.h"
#include "tenon/model/load.h"

BOOST_AUTO_TEST_SUITE(model_gpt_bigcode)

using namespace tenon;

namespace {

const std::string kBase = "tests/golden/gptbigcode_mha";
ModelConfig configured(const test::Change& change) { return test::configured<GptBigCode>(kBase, change); }
void refused(const std::string& field, const nlohmann::json& value) {
  test::refused_value<GptBigCode>(kBase, field, value);
}

}  // namespace

BOOST_AUTO_TEST_CASE(multi_query_sets_the_number_of_kv_heads) {
  const auto one = configured([](auto& c) { c["multi_query"] = true, c.erase("num_key_value_heads"); });
  BOOST_TEST(one.heads == 4);
  BOOST_TEST(one.kv_heads == 1);
  BOOST_TEST(one.qkv_width() == 32 + 2 * 8);
  BOOST_TEST(!one.interleaved_qkv);
  const auto all = configured([](auto&) {});
  BOOST_TEST(all.kv_heads == 4);
  BOOST_TEST(all.interleaved_qkv);
  BOOST_TEST(configured([](auto& c) { c.erase("multi_query"), c.erase("num_key_value_heads"); }).kv_heads == 1);
}

BOOST_AUTO_TEST_CASE(names_of_transformers_attribute_map_are_read) {
  const auto c = configured([](auto& config) {
    config["hidden_size"] = config["n_embd"];
    config.erase("n_embd");
    config["num_hidden_layers"] = 7;
    config.erase("n_layer");
  });
  BOOST_TEST(c.hidden == 32);
  BOOST_TEST(c.layers == 7);
  refused("hidden_size", 64);  // differs from n_embd 32
}

BOOST_AUTO_TEST_CASE(unsupported_values_are_refused_by_name) {
  refused("num_key_value_heads", 2);
  refused("multi_query", "yes");
  refused("n_head", 3);
  refused("n_inner", 0);
  refused("activation_function", "mish");
  refused("architectures", nlohmann::json::array({"GPTBigCodeForTokenClassification"}));
  refused("model_type", "gpt2");
}

// A hostile number of heads must not enlarge the specification, which is made before the tensors are checked.
BOOST_AUTO_TEST_CASE(interleaved_heads_are_three_parts_however_many) {
  ModelConfig c = configured([](auto&) {});
  c.heads = c.kv_heads = c.hidden = 1 << 20;
  c.head_dim = 1;
  const auto spec = GptBigCode::tensors(c);
  BOOST_TEST(spec.layers.front().qkv.weight.parts.size() == 3u);
  BOOST_TEST(spec.layers.front().qkv.bias.parts.size() == 3u);
}

BOOST_AUTO_TEST_CASE(every_tensor_is_used) {
  for (const char* name : {"gptbigcode_mha", "gptbigcode_relu"}) {
    const auto files = load_checkpoint(std::filesystem::path(TENON_SOURCE_DIR "/tests/golden") / name);
    const auto config = GptBigCode::configure(*files.config);
    const TensorSource source(files, GptBigCode::name_prefix);
    BOOST_CHECK_NO_THROW(source.check(GptBigCode::tensors(config), config.tied_head));
    BOOST_TEST(source.unused(GptBigCode::tensors(config), config.tied_head).empty());
  }
}

BOOST_AUTO_TEST_SUITE_END()
