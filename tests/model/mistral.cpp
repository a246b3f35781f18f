#include "tenon/model/mistral.h"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "configured.h"

BOOST_AUTO_TEST_SUITE(model_mistral)

using namespace tenon;
using Json = nlohmann::json;

namespace {

const std::string kBase = "tests/golden/mistral_window7", kNewer = "tests/golden/ministral3";
ModelConfig configured(const test::Change& change) { return test::configured<Mistral>(kBase, change); }
void refused(const std::string& field, const Json& value) { test::refused_value<Mistral>(kBase, field, value); }

}  // namespace

BOOST_AUTO_TEST_CASE(a_window_is_a_number_or_none_or_the_default) {
  BOOST_TEST(configured([](Json&) {}).window == 7);
  BOOST_TEST(configured([](Json&) {}).kv().window == 7);
  BOOST_TEST(configured([](Json& c) { c["sliding_window"] = nullptr; }).window == 0);
  BOOST_TEST(configured([](Json& c) { c.erase("sliding_window"); }).window == 4096);
}

BOOST_AUTO_TEST_CASE(kv_heads_default_to_eight) {
  const auto of = [](const test::Change& change) {
    return configured(
               [&](Json& c) { c["num_attention_heads"] = 16, c["hidden_size"] = 64, c["head_dim"] = 4, change(c); })
        .kv_heads;
  };
  BOOST_TEST(of([](Json& c) { c.erase("num_key_value_heads"); }) == 8);
  BOOST_TEST(of([](Json& c) { c["num_key_value_heads"] = nullptr; }) == 16);
  BOOST_TEST(of([](Json& c) { c["num_key_value_heads"] = 4; }) == 4);
}

BOOST_AUTO_TEST_CASE(unsupported_values_are_refused_by_name) {
  refused("sliding_window", 0);
  refused("sliding_window", "4096");
  refused("num_key_value_heads", 3);
  refused("model_type", "mixtral");
  refused("architectures", Json::array({"MistralForTokenClassification"}));
}

BOOST_AUTO_TEST_CASE(queries_of_ministral_3_grow_with_their_position) {
  const auto read = [](const test::Change& change) { return test::configured<Ministral3>(kNewer, change); };
  const ModelConfig c = read([](Json&) {});
  BOOST_TEST(c.query_growth == 0.3f);
  BOOST_TEST(c.query_period == 16);
  BOOST_TEST(c.rotary.angle_scale == 1);
  BOOST_TEST(c.query_scale(0) == 1);
  BOOST_TEST(c.query_scale(15) == 1);
  BOOST_TEST(c.query_scale(16) == 1 + 0.3f * std::log(2.0f));
  BOOST_TEST(c.query_scale(47) == 1 + 0.3f * std::log(3.0f));
  const ModelConfig usual = read([](Json& j) { j.erase("rope_parameters"), j.erase("head_dim"); });
  BOOST_TEST(usual.head_dim == 128);
  BOOST_TEST(usual.query_growth == 0.1f);
  BOOST_TEST(usual.query_period == 16384);
  BOOST_TEST(usual.rotary.theta == 1e6);
  BOOST_TEST(usual.rotary.factor == 16);
  const ModelConfig older = read([](Json& j) {
    j["rope_scaling"] = j["rope_parameters"], j.erase("rope_parameters");
    j["rope_scaling"].erase("rope_theta"), j["rope_theta"] = 50;
  });
  BOOST_TEST(older.rotary.theta == 50);
  BOOST_TEST(older.query_period == 16);
  // The class fills the trained length in for yarn.
  BOOST_TEST(read([](Json& j) { j["rope_parameters"].erase("original_max_position_embeddings"); }).query_period == 128);
}

BOOST_AUTO_TEST_CASE(ministral_3_has_one_window_in_all_layers) {
  const auto read = [](const Json& window, const Json& types) {
    return test::configured<Ministral3>(kNewer,
                                        [&](Json& j) { j["sliding_window"] = window, j["layer_types"] = types; });
  };
  const Json full = {"full_attention", "full_attention"}, sliding = {"sliding_attention", "sliding_attention"};
  BOOST_TEST(read(nullptr, nullptr).window == 0);
  BOOST_TEST(read(5, nullptr).window == 5);
  BOOST_TEST(read(5, full).window == 5);
  BOOST_TEST(read(5, sliding).window == 5);
  test::refused_value<Ministral3>(kNewer, "layer_types", sliding);
  test::refused<Ministral3>(kNewer, "layer_types", [](Json& j) {
    j["sliding_window"] = 5, j["layer_types"] = {"full_attention", "sliding_attention"};
  });
}

BOOST_AUTO_TEST_CASE(values_that_ministral_3_has_not_are_refused_by_name) {
  const auto refused = [](const std::string& field, const test::Change& change) {
    test::refused<Ministral3>(kNewer, field, change);
  };
  refused("rope_parameters.llama_4_scaling_beta", [](Json& j) { j["rope_parameters"].erase("llama_4_scaling_beta"); });
  refused("rope_parameters.llama_4_scaling_beta",
          [](Json& j) { j["rope_parameters"]["llama_4_scaling_beta"] = "0.1"; });
  refused("rope_parameters.original_max_position_embeddings", [](Json& j) {
    j["rope_parameters"] = {{"rope_type", "default"}, {"llama_4_scaling_beta", 0.1}};
  });
  refused("rope_parameters.partial_rotary_factor",
          [](Json& j) { j["rope_parameters"]["partial_rotary_factor"] = 0.5; });
  refused("original_max_position_embeddings", [](Json& j) { j["original_max_position_embeddings"] = 16; });
  refused("rope_scaling", [](Json& j) { j["rope_scaling"] = {{"rope_type", "linear"}}; });
}

BOOST_AUTO_TEST_CASE(the_text_config_says_which_decoder_mistral_3_has) {
  const ModelConfig newer = test::configured<Mistral3>(kNewer + "_images");
  BOOST_TEST(newer.model_type == "mistral3");
  BOOST_TEST(newer.query_period == 16);
  BOOST_TEST(newer.window == 20);
  BOOST_TEST(test::configured<Mistral3>("tests/golden/mistral3_images").query_growth == 0);
}

BOOST_AUTO_TEST_SUITE_END()
