#include "tenon/model/bloom.h"

#include <boost/test/unit_test.hpp>

#include "configured.h"
#include "tenon/device/cpu.h"
#include "tenon/model/load.h"
#include "tenon/weights/float32.h"

BOOST_AUTO_TEST_SUITE(model_bloom)

using namespace tenon;

namespace {

const std::string kBase = "tests/golden/bloom_6_heads";
ModelConfig configured(const test::Change& change) { return test::configured<Bloom>(kBase, change); }
void refused(const std::string& field, const nlohmann::json& value) { test::refused_value<Bloom>(kBase, field, value); }

}  // namespace

BOOST_AUTO_TEST_CASE(sizes_are_read) {
  const auto c = configured([](auto&) {});
  BOOST_TEST(c.hidden == 48);
  BOOST_TEST(c.heads == 6);
  BOOST_TEST(c.head_dim == 8);
  BOOST_TEST(c.inner == 192);
  BOOST_TEST(c.positions == 2048);
  BOOST_CHECK(c.activation == Activation::gelu_new);
  BOOST_TEST(configured([](auto& config) { config["seq_length"] = 512; }).positions == 512);
}

BOOST_AUTO_TEST_CASE(older_names_are_read) {
  const auto c = configured([](auto& config) {
    config["n_embed"] = config["hidden_size"];
    config.erase("hidden_size");
    config["num_attention_heads"] = config["n_head"];
    config.erase("n_head");
  });
  BOOST_TEST(c.hidden == 48);
  BOOST_TEST(c.heads == 6);
  BOOST_TEST(configured([](auto& config) { config["n_embed"] = 96; }).hidden == 96);  // wins over hidden_size
}

BOOST_AUTO_TEST_CASE(unsupported_values_are_refused_by_name) {
  refused("apply_residual_connection_post_layernorm", true);
  refused("n_head", 5);
  refused("hidden_size", 6 << 16);
  refused("architectures", nlohmann::json::array({"BloomForQuestionAnswering"}));
}

// The file stores [heads, {query, key, value}, head_dim]. The packed matrix has all queries, then keys, then values.
BOOST_AUTO_TEST_CASE(fused_heads_are_put_in_order) {
  const auto files = load_checkpoint(TENON_SOURCE_DIR "/" + kBase);
  const auto config = Bloom::configure(*files.config);
  const TensorSource source(files, Bloom::name_prefix);
  BOOST_TEST(source.unused(Bloom::tensors(config), config.tied_head).empty());
  Cpu device({.threads = 2});
  const DecoderWeights<Float32, Float32, Cpu> weights(device, Bloom::tensors(config), config.tied_head, source);
  std::vector<float> matrix(144 * 48), bias(144);
  files.tensors->read_all(source.find("h.1.self_attention.query_key_value.weight"), matrix.data());
  files.tensors->read_all(source.find("h.1.self_attention.query_key_value.bias"), bias.data());
  const auto& qkv = weights.parts().layers[1].qkv;
  bool same = true;
  for (int which = 0; which < 3; ++which) {
    for (int head = 0; head < 6; ++head) {
      for (int d = 0; d < 8; ++d) {
        const int packed = which * 48 + head * 8 + d, stored = (head * 3 + which) * 8 + d;
        same = same && qkv.bias[packed] == bias[static_cast<std::size_t>(stored)];
        for (int k = 0; k < 48; ++k)
          same = same && qkv.weight.at(packed, k) == matrix[static_cast<std::size_t>(stored * 48 + k)];
      }
    }
  }
  BOOST_TEST(same);
}

BOOST_AUTO_TEST_SUITE_END()
