#include "tenon/model/llama.h"

#include <boost/test/unit_test.hpp>

#include "configured.h"
#include "tenon/model/load.h"

BOOST_AUTO_TEST_SUITE(model_llama)

using namespace tenon;
using Json = nlohmann::json;

namespace {

const std::string kBase = "tests/golden/llama_linear";
ModelConfig configured(const test::Change& change) { return test::configured<Llama>(kBase, change); }
void refused(const std::string& field, const Json& value) { test::refused_value<Llama>(kBase, field, value); }
void refused_after(const std::string& field, const test::Change& change) { test::refused<Llama>(kBase, field, change); }

}  // namespace

BOOST_AUTO_TEST_CASE(sizes_are_read) {
  const auto c = configured([](Json& config) { config["rope_scaling"] = nullptr; });
  BOOST_TEST(c.layers == 2);
  BOOST_TEST(c.heads == 4);
  BOOST_TEST(c.kv_heads == 2);
  BOOST_TEST(c.head_dim == 8);
  BOOST_TEST(c.inner == 40);
  BOOST_TEST(c.positions == 128);
  BOOST_TEST(c.norm_epsilon == 1e-5f);
  BOOST_TEST(!c.tied_head);
  BOOST_CHECK(c.activation == Activation::silu);
  BOOST_CHECK(c.rotary.scaling == RotaryScaling::none);
  BOOST_TEST(configured([](Json& config) { config.erase("num_key_value_heads"); }).kv_heads == 4);
  const auto wide = configured([](Json& config) { config["head_dim"] = 24, config["num_attention_heads"] = 6; });
  BOOST_TEST(wide.query_width() == 144);
  BOOST_TEST(configured([](Json& config) { config["head_dim"] = nullptr; }).head_dim == 8);
}

BOOST_AUTO_TEST_CASE(both_forms_of_rope_scaling_are_read) {
  const auto c = configured([](Json&) {});
  BOOST_CHECK(c.rotary.scaling == RotaryScaling::linear);
  BOOST_TEST(c.rotary.factor == 4);
  BOOST_TEST(c.positions == 512);  // four times the length in training
  const auto old = configured([](Json& config) { config["rope_scaling"] = {{"type", "linear"}, {"factor", 2}}; });
  BOOST_TEST(old.rotary.factor == 2);
  const auto newer = configured([](Json& config) {
    config.erase("rope_scaling"), config.erase("rope_theta");
    config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 7e5}};
  });
  BOOST_TEST(newer.rotary.theta == 7e5);
  BOOST_CHECK(newer.rotary.scaling == RotaryScaling::none);
  const auto dynamic = configured([](Json& config) {
    config["rope_scaling"] = {{"rope_type", "dynamic"}, {"factor", 3}};
  });
  BOOST_TEST(dynamic.rotary.trained_positions == 128);
  BOOST_TEST(dynamic.positions == 384);
}

BOOST_AUTO_TEST_CASE(llama3_scaling_needs_all_its_fields) {
  const Json whole = {{"rope_type", "llama3"},
                      {"factor", 8},
                      {"low_freq_factor", 1},
                      {"high_freq_factor", 4},
                      {"original_max_position_embeddings", 32}};
  const auto c = configured([&](Json& config) { config["rope_scaling"] = whole; });
  BOOST_CHECK(c.rotary.scaling == RotaryScaling::llama3);
  BOOST_TEST(c.rotary.trained_positions == 32);
  BOOST_TEST(c.positions == 128);  // max_position_embeddings is already the extended length
  for (const auto& [key, value] : whole.items()) {
    if (key == "rope_type") continue;
    refused_after("rope_scaling." + key,
                  [&](Json& config) { config["rope_scaling"] = whole, config["rope_scaling"].erase(key); });
    refused_after("rope_scaling." + key,
                  [&](Json& config) { config["rope_scaling"] = whole, config["rope_scaling"][key] = -1; });
  }
  refused_after("rope_scaling.high_freq_factor",
                [&](Json& config) { config["rope_scaling"] = whole, config["rope_scaling"]["high_freq_factor"] = 1; });
}

BOOST_AUTO_TEST_CASE(unsupported_values_are_refused_by_name) {
  refused_after("rope_scaling.rope_type", [](Json& c) { c["rope_scaling"]["rope_type"] = "proportional"; });
  refused_after("rope_scaling.type", [](Json& c) { c["rope_scaling"]["type"] = "dynamic"; });
  refused_after("rope_scaling.factor", [](Json& c) { c["rope_scaling"]["factor"] = "4"; });
  refused_after("rope_scaling.factor", [](Json& c) { c["rope_scaling"].erase("factor"); });
  refused_after("rope_scaling", [](Json& c) { c["rope_parameters"] = {{"rope_type", "default"}}; });
  refused_after("rope_parameters.rope_theta", [](Json& c) {
    c.erase("rope_scaling");
    c["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5.0}};  // differs from rope_theta 10000
  });
  refused("rope_scaling", 3);
  refused("rope_theta", 0);
  refused("rope_theta", 0.5);
  refused("sliding_window", 8);
  refused("attention_chunk_size", 8192);
  refused("hidden_act", "geglu");
  refused("num_key_value_heads", 3);
  refused_after("num_attention_heads", [](Json& c) { c["num_attention_heads"] = 5, c["head_dim"] = nullptr; });
  refused("head_dim", 7);
  refused("head_dim", 0);
  refused("intermediate_size", 1 << 30);
  refused("attention_bias", "true");
  refused("quantization_config", Json::object());
  refused("architectures", Json::array({"LlamaForTokenClassification"}));
}

BOOST_AUTO_TEST_CASE(every_tensor_is_used) {
  for (const char* name : {"llama_linear", "llama_biases_tied", "llama_head_dim"}) {
    const auto files = load_checkpoint(std::filesystem::path(TENON_SOURCE_DIR "/tests/golden") / name);
    const auto config = Llama::configure(*files.config);
    const TensorSource source(files, Llama::name_prefix);
    BOOST_CHECK_NO_THROW(source.check(Llama::tensors(config), config.tied_head));
    BOOST_TEST(source.unused(Llama::tensors(config), config.tied_head).empty());
  }
}

BOOST_AUTO_TEST_CASE(one_billion_has_the_published_number_of_parameters) {
  const auto spec = Llama::tensors(Llama::one_billion());
  std::size_t parameters = 0;
  const auto add = [&](const auto& s) {
    if (!s.parts.empty()) parameters += static_cast<std::size_t>(s.shape.rows) * static_cast<std::size_t>(s.shape.cols);
  };
  visit_parts(spec, true, {add, add, add});
  BOOST_TEST(parameters == 1'235'814'400u);
}

BOOST_AUTO_TEST_SUITE_END()
