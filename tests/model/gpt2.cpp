#include "tenon/model/gpt2.h"
#include "tenon/model/random.h"

#include <boost/test/unit_test.hpp>

#include "configured.h"
#include "tenon/device/cpu.h"
#include "tenon/model/load.h"
#include "tenon/weights/float32.h"

BOOST_AUTO_TEST_SUITE(model_gpt2)

using namespace tenon;

namespace {

const std::string kBase = "examples/models/tales";
const std::filesystem::path kTales = TENON_SOURCE_DIR "/examples/models/tales";

ModelConfig configured(const test::Change& change) { return test::configured<Gpt2>(kBase, change); }
void refused(const std::string& field, const nlohmann::json& value) { test::refused_value<Gpt2>(kBase, field, value); }

}  // namespace

BOOST_AUTO_TEST_CASE(sizes_are_read) {
  const auto c = configured([](auto&) {});
  BOOST_TEST(c.layers == 6);
  BOOST_TEST(c.hidden == 256);
  BOOST_TEST(c.heads == 4);
  BOOST_TEST(c.head_dim == 64);
  BOOST_TEST(c.inner == 1024);
  BOOST_TEST(c.vocab == 4096);
  BOOST_TEST(c.positions == 1024);
  BOOST_TEST(c.tied_head);
  BOOST_TEST(c.eos == std::vector<TokenId>{4095});
  BOOST_TEST(c.score_scale(3) == 0.125f);
}

BOOST_AUTO_TEST_CASE(switches_are_honoured) {
  BOOST_TEST(configured([](auto& c) { c["n_inner"] = 77; }).inner == 77);
  BOOST_TEST(configured([](auto& c) { c["scale_attn_by_inverse_layer_idx"] = true; }).score_scale(3) == 0.125f / 4);
  BOOST_TEST(configured([](auto& c) { c["scale_attn_weights"] = false; }).score_scale(3) == 1.0f);
  BOOST_TEST(!configured([](auto& c) { c["tie_word_embeddings"] = false; }).tied_head);
  BOOST_CHECK(configured([](auto& c) { c["activation_function"] = "gelu"; }).activation == Activation::gelu);
  BOOST_CHECK(configured([](auto& c) { c["activation_function"] = "relu"; }).activation == Activation::relu);
  BOOST_CHECK(configured([](auto& c) { c.erase("activation_function"); }).activation == Activation::gelu_new);
}

BOOST_AUTO_TEST_CASE(unsupported_values_are_refused_by_name) {
  refused("model_type", "gpt3");
  refused("activation_function", "mish");
  refused("n_head", 3);
  refused("n_head", 0);
  refused("n_layer", 0);
  refused("n_layer", 2147483648);
  refused("n_embd", "256");
  refused("n_embd", 1 << 30);
  refused("n_positions", -1);
  refused("layer_norm_epsilon", 0);
  refused("eos_token_id", "4096");
  refused("add_cross_attention", true);
  refused("quantization_config", nlohmann::json::object());
  refused("architectures", nlohmann::json::array({"GPT2ForTokenClassification"}));
}

BOOST_AUTO_TEST_CASE(every_tensor_of_the_default_model_is_used) {
  const auto files = load_checkpoint(kTales);
  const auto config = Gpt2::configure(*files.config);
  const TensorSource source(files, Gpt2::name_prefix);
  BOOST_CHECK_NO_THROW(source.check(Gpt2::tensors(config), config.tied_head));
  BOOST_TEST(source.unused(Gpt2::tensors(config), config.tied_head).empty());
}

// Packed panels have the values of the file, which stores Conv1D matrices as [in, out].
BOOST_AUTO_TEST_CASE(packed_weights_are_those_of_the_file) {
  const auto files = load_checkpoint(kTales);
  const auto config = Gpt2::configure(*files.config);
  const TensorSource source(files, Gpt2::name_prefix);
  Cpu device({.threads = 2});
  const DecoderWeights<Float32, Float32, Cpu> weights(device, Gpt2::tensors(config), config.tied_head, source);
  const TensorInfo& tensor = source.find("h.3.mlp.c_fc.weight");
  std::vector<float> whole(256 * 1024);
  files.tensors->read_all(tensor, whole.data());
  const auto& view = weights.parts().layers[3].up.weight;
  bool same = true;
  for (int out = 0; out < 1024; ++out) {
    for (int in = 0; in < 256; ++in)
      same = same && view.at(out, in) == whole[static_cast<std::size_t>(in * 1024 + out)];
  }
  BOOST_TEST(same);
}

BOOST_AUTO_TEST_CASE(blocks_of_random_rows_are_the_whole) {
  std::vector<float> whole(50 * 9), block(9 * 9);
  random_rows(3, "w", 9, 0, 50, whole.data());
  random_rows(3, "w", 9, 20, 9, block.data());
  BOOST_TEST(std::equal(block.begin(), block.end(), whole.begin() + 20 * 9));
}

BOOST_AUTO_TEST_SUITE_END()
