#include "tenon/model/hunyuan.h"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "configured.h"

BOOST_AUTO_TEST_SUITE(model_hunyuan)

using namespace tenon;
using Json = nlohmann::json;

namespace {

const std::string kBase = "tests/golden/hunyuan";
ModelConfig configured(const test::Change& change) { return test::configured<HunYuanDense>(kBase, change); }
void refused(const std::string& field, const test::Change& change) {
  test::refused<HunYuanDense>(kBase, field, change);
}

}  // namespace

BOOST_AUTO_TEST_CASE(alpha_makes_one_theta_for_texts_of_any_length) {
  const ModelConfig c = configured([](Json&) {});
  BOOST_TEST(c.norms_after_rotation);
  BOOST_TEST(c.positions == 128);
  BOOST_CHECK(c.rotary == (RotaryConfig{.theta = 1e4 * std::pow(50.0, 12.0 / 10.0), .trained_positions = 128}));
  // The spelling of transformers 5.
  const ModelConfig newer = configured([](Json& j) {
    j["rope_parameters"] = {{"rope_type", "dynamic"}, {"alpha", 50.0}, {"rope_theta", 1e4}};
    j.erase("rope_scaling"), j.erase("rope_theta");
  });
  BOOST_CHECK(newer.rotary == c.rotary);
}

BOOST_AUTO_TEST_CASE(dynamic_without_alpha_is_that_of_other_families) {
  for (const Json& none : {Json(), Json(0)}) {
    const ModelConfig c = configured([&](Json& j) {
      j["rope_scaling"] = {{"type", "dynamic"}, {"factor", 2.0}, {"alpha", none}};
    });
    BOOST_CHECK(c.rotary.scaling == RotaryScaling::dynamic);
    BOOST_TEST(c.rotary.factor == 2);
    BOOST_TEST(c.positions == 256);
  }
  const ModelConfig linear = configured([](Json& j) {
    j["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}, {"alpha", 9.0}};
  });
  BOOST_CHECK(linear.rotary.scaling == RotaryScaling::linear);
  BOOST_TEST(linear.rotary.theta == 1e4);
}

BOOST_AUTO_TEST_CASE(missing_fields_are_the_defaults_of_the_class) {
  const ModelConfig c = configured([](Json& j) {
    for (const char* field :
         {"max_position_embeddings", "num_key_value_heads", "rms_norm_eps", "attention_bias", "tie_word_embeddings",
          "rope_scaling", "hidden_act", "bos_token_id", "eos_token_id", "pad_token_id", "head_dim"})
      j.erase(field);
  });
  BOOST_TEST(c.positions == 2048);
  BOOST_TEST(c.kv_heads == 4);
  BOOST_TEST(c.head_dim == 8);
  BOOST_TEST(c.norm_epsilon == 1e-5f);
  BOOST_TEST(!c.attention_bias);
  BOOST_TEST(!c.tied_head);
  BOOST_TEST(*c.bos == 1);
  BOOST_TEST(*c.pad == 0);
  BOOST_TEST(c.eos == std::vector<TokenId>{2});
}

BOOST_AUTO_TEST_CASE(unsupported_values_are_refused_by_name) {
  for (const Json& alpha : {Json(-1), Json("50"), Json(1e30), Json(1e-9)})
    refused("rope_scaling.alpha", [&](Json& j) { j["rope_scaling"]["alpha"] = alpha; });
  refused("rope_scaling.alpha", [](Json& j) { j["head_dim"] = 2; });
  refused("use_qk_norm", [](Json& j) { j["use_qk_norm"] = false; });
  refused("use_cla", [](Json& j) { j["use_cla"] = true; });
  refused("sliding_window", [](Json& j) { j["sliding_window"] = 7; });
  refused("architectures", [](Json& j) { j["architectures"] = {"HunYuanMoEV1Model"}; });
}

BOOST_AUTO_TEST_SUITE_END()
