// LFM2's reader of config.json, and the tensors of layers with a short convolution. tests/golden has two of its models
// with the answers of transformers, for every cache, format and adapter kind.
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../io/scratch.h"
#include "tenon/model/configure.h"
#include "tenon/model/lfm2.h"
#include "tenon/testing/model_laws.h"

BOOST_AUTO_TEST_SUITE(model_lfm2)

using namespace tenon;
using Json = nlohmann::json;

namespace {

Json config(const Json& more = Json::object()) {
  Json out = {{"model_type", "lfm2"},     {"hidden_size", 48},
              {"num_hidden_layers", 3},   {"vocab_size", 99},
              {"intermediate_size", 80},  {"num_attention_heads", 4},
              {"num_key_value_heads", 2}, {"layer_types", {"conv", "full_attention", "conv"}},
              {"block_multiple_of", 16}};
  out.update(more);
  return out;
}

ModelConfig read(const Json& json) {
  const test::Scratch scratch;
  scratch.write("config.json", json.dump());
  const ConfigFile file(scratch.folder());
  return json["model_type"] == "lfm2_moe" ? Lfm2Moe::configure(file) : Lfm2::configure(file);
}

void refused(const Json& json, const std::string& field) {
  BOOST_CHECK_EXCEPTION(read(json), Error, [&](const Error& error) {
    BOOST_TEST(std::string(error.what()).find(field) != std::string::npos, field << ": " << error.what());
    return true;
  });
}

Json moe(const Json& more = Json::object()) {
  Json out = config({{"model_type", "lfm2_moe"}, {"num_dense_layers", 1}, {"num_experts", 6}});
  out.update(more);
  return out;
}

// config() without one of its fields.
Json without(const std::string& field, Json json = config()) {
  json.erase(field);
  return json;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_family_obeys_the_laws_of_models) {
  for (const Json& json : {config(), config({{"conv_bias", true}, {"conv_L_cache", 4}, {"tie_embedding", false}}),
                           without("layer_types")}) {
    const ModelConfig c = read(json);
    for (const std::string& broken : testing::model_laws<Lfm2>(c)) BOOST_ERROR(broken);
    check_switches(Lfm2::tensors(c), c);
  }
}

BOOST_AUTO_TEST_CASE(mixtures_of_lfm2_obey_the_laws_of_models) {
  for (const Json& json : {moe(), moe({{"use_expert_bias", false}, {"num_dense_layers", 0}}),
                           moe({{"conv_bias", true}}), moe({{"num_dense_layers", 9}, {"use_expert_bias", false}})}) {
    const ModelConfig c = read(json);
    for (const std::string& broken : testing::model_laws<Lfm2Moe>(c)) BOOST_ERROR(broken);
    check_switches(Lfm2Moe::tensors(c), c);
  }
}

BOOST_AUTO_TEST_CASE(mixtures_of_lfm2_read_their_router) {
  const ModelConfig c = read(moe());
  BOOST_TEST((c.inner == 80 && c.expert_inner == 1792 && c.experts_chosen == 4 && c.choice_bias));
  BOOST_TEST((c.router_kind == RouterKind::normalised_sigmoid && c.router_epsilon == 1e-6f && c.router_scale == 1));
  BOOST_TEST((!c.is_mixture(0) && c.is_mixture(1) && c.is_mixture(2)));
  const DecoderSpec spec = Lfm2Moe::tensors(c);
  BOOST_TEST(spec.layers[0].down.weight.parts[0].name == "layers.0.feed_forward.w2.weight");
  BOOST_TEST((spec.layers[1].up.weight.none() && spec.layers[0].experts.empty()));
  BOOST_TEST(spec.layers[1].router.parts[0].name == "layers.1.feed_forward.gate.weight");
  BOOST_TEST(spec.layers[1].choice_bias.parts[0].name == "layers.1.feed_forward.expert_bias");
  BOOST_TEST(spec.layers[2].experts[5].up.weight.parts[1].name == "layers.2.feed_forward.experts.5.w3.weight");
  const ModelConfig other =
      read(moe({{"norm_topk_prob", nullptr}, {"use_expert_bias", false}, {"routed_scaling_factor", 2.5}}));
  BOOST_TEST((other.router_kind == RouterKind::sigmoid && !other.choice_bias && other.router_scale == 2.5f));
  BOOST_TEST(!read(moe({{"tie_embedding", false}})).tied_head);
  BOOST_TEST(read(moe({{"theta", 500.0}})).rotary.theta == 1e6);  // an older name of LFM2 alone
  BOOST_CHECK_THROW(check_switches(spec, other), Error);
  refused(without("layer_types", moe()), "layer_types");
  refused(moe({{"num_experts_per_tok", 7}}), "num_experts_per_tok");
  refused(moe({{"moe_intermediate_size", nullptr}}), "moe_intermediate_size");
}

BOOST_AUTO_TEST_CASE(layer_types_or_full_attn_idxs_say_which_layers_convolve) {
  const std::vector<bool> listed{true, false, true};
  BOOST_TEST((read(config()).conv_layers == listed));
  Json indices = without("layer_types");
  BOOST_TEST(read(indices).conv_layers.empty());  // all layers have attention
  indices["full_attn_idxs"] = {1, 7};
  BOOST_TEST((read(indices).conv_layers == listed));
  indices["layer_types"] = {"full_attention", "conv", "conv"};  // wins
  BOOST_TEST((read(indices).conv_layers == std::vector<bool>{false, true, true}));
  refused(config({{"layer_types", {"conv", "full_attention"}}}), "layer_types");
  refused(config({{"layer_types", {"conv", "full_attention", "mamba"}}}), "mamba");
  refused(config({{"layer_types", {"conv", "conv", "conv"}}}), "full_attention");
}

BOOST_AUTO_TEST_CASE(intermediate_size_is_adjusted_as_the_class_does) {
  BOOST_TEST(read(config()).inner == 64);                                         // 53, then a multiple of 16
  BOOST_TEST(read(config({{"block_ffn_dim_multiplier", 1.3}})).inner == 80);      // 68.9
  BOOST_TEST(read(config({{"block_ffn_dim_multiplier", nullptr}})).inner == 53);  // no multiple either
  BOOST_TEST(read(config({{"block_auto_adjust_ff_dim", false}})).inner == 80);
  BOOST_TEST(read(config({{"block_auto_adjust_ff_dim", nullptr}})).inner == 80);
  BOOST_TEST(read(config({{"block_ff_dim", 120}})).inner == 80);  // the older name wins
  refused(config({{"block_ffn_dim_multiplier", 1e9}}), "block_ffn_dim_multiplier");
  refused(config({{"intermediate_size", 1}, {"block_ffn_dim_multiplier", nullptr}}), "intermediate_size");
}

BOOST_AUTO_TEST_CASE(older_names_of_fields_win) {
  const Json both =
      config({{"theta", 500.0}, {"rope_theta", 7.0}, {"tie_embedding", false}, {"tie_word_embeddings", true}});
  BOOST_TEST(read(both).rotary.theta == 500);
  BOOST_TEST(!read(both).tied_head);
  BOOST_TEST(read(config()).rotary.theta == 1e6);
  BOOST_TEST(read(config()).tied_head);
  BOOST_TEST(!read(config({{"tie_embedding", nullptr}, {"tie_word_embeddings", true}})).tied_head);
  BOOST_TEST((read(config({{"hidden_act", "mish"}})).activation == Activation::silu));  // no field changes it
  refused(config({{"conv_L_cache", 5000}}), "conv_L_cache");
}

BOOST_AUTO_TEST_CASE(the_cache_holds_what_a_convolution_reads) {
  BOOST_TEST(read(config()).kv().heads == 2);                              // 24 elements in keys, 24 in values
  BOOST_TEST(read(config({{"num_key_value_heads", 4}})).kv().heads == 4);  // attention needs more
  BOOST_TEST(read(config({{"num_key_value_heads", 1}})).kv().heads == 2);  // a convolution does
  BOOST_TEST(read(without("layer_types", config({{"num_key_value_heads", 1}}))).kv().heads == 1);
  refused(config({{"head_dim", 16}}), "num_attention_heads");
  refused(config({{"num_attention_heads", 3}, {"num_key_value_heads", 3}}), "num_attention_heads");
}

BOOST_AUTO_TEST_CASE(configurations_with_other_layers_than_the_tensors_are_refused) {
  const ModelConfig c = read(config());
  ModelConfig other = c;
  other.conv_layers = {};
  BOOST_CHECK_THROW(check_switches(Lfm2::tensors(c), other), Error);
  BOOST_CHECK_THROW(check_switches(Lfm2::tensors(other), c), Error);
  const auto refused_with = [&](const auto& change) {
    ModelConfig wrong = c;
    change(wrong);
    BOOST_CHECK_THROW(check_switches(Lfm2::tensors(c), wrong), Error);
  };
  refused_with([](ModelConfig& m) { m.conv_layers.pop_back(); });
  refused_with([](ModelConfig& m) { m.conv_taps = 0; });
  refused_with([](ModelConfig& m) { m.window = 2; });
  refused_with([](ModelConfig& m) { m.heads = m.kv_heads = 3; });
}

BOOST_AUTO_TEST_SUITE_END()
