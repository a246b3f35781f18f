// Each family's reader of config.json, and the switches of the forward pass that it sets. tests/reference compares the
// answers with those of transformers.
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "../io/scratch.h"
#include "tenon/model/any_family.h"
#include "tenon/model/configure.h"
#include "tenon/testing/model_laws.h"

BOOST_AUTO_TEST_SUITE(model_families)

using namespace tenon;
using Json = nlohmann::json;

namespace {

// The sizes that all files of Llama's kind have.
Json sizes(const std::string& model_type, const Json& more = Json::object()) {
  Json config = {{"model_type", model_type}, {"hidden_size", 48},       {"num_hidden_layers", 6},
                 {"vocab_size", 99},         {"intermediate_size", 80}, {"num_attention_heads", 4},
                 {"head_dim", 12},           {"num_key_value_heads", 2}};
  config.update(more);
  return config;
}

ModelConfig read(const Json& config) {
  const test::Scratch scratch;
  scratch.write("config.json", config.dump());
  return AnyFamily<>::configure(ConfigFile(scratch.folder()));
}

void refused(const Json& config, const std::string& what) {
  BOOST_CHECK_EXCEPTION(read(config), Error, [&](const Error& error) {
    BOOST_TEST(std::string(error.what()).find(what) != std::string::npos, what << ": " << error.what());
    return true;
  });
}

// The places of head elements in the order that rotate() needs, for a tensor with one head of `head_dim` rows.
std::vector<int> order(const RotaryConfig& rotary, int head_dim) {
  std::vector<TensorPart> parts;
  append_head(rotary, head_dim, true, "a", 0, head_dim, parts);
  std::vector<int> rows;
  for (const TensorPart& part : parts) {
    for (int row = 0; row < part.rows; ++row) rows.push_back(part.run(row, 1).at);
  }
  return rows;
}

using Rows = std::vector<int>;

}  // namespace

BOOST_AUTO_TEST_CASE(heads_are_stored_as_pairs_that_are_turned_come_first) {
  BOOST_TEST(order({}, 6) == (Rows{0, 1, 2, 3, 4, 5}), boost::test_tools::per_element());
  // Elements 0..3 are turned, in pairs (0, 2) and (1, 3); 4 and 5 stay.
  BOOST_TEST(order({.width = 4}, 6) == (Rows{0, 1, 4, 2, 3, 5}), boost::test_tools::per_element());
  // Neighbours: pairs (0, 1) and (2, 3).
  BOOST_TEST(order({.width = 4, .neighbours = true}, 6) == (Rows{0, 2, 4, 1, 3, 5}), boost::test_tools::per_element());
  BOOST_TEST(order({.neighbours = true}, 6) == (Rows{0, 2, 4, 1, 3, 5}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(qwen_windows_begin_at_a_layer) {
  const ModelConfig none = read(sizes("qwen2", {{"sliding_window", 8}, {"use_sliding_window", false}}));
  BOOST_TEST(none.window == 0);
  BOOST_TEST(none.windows.empty());
  const Json uses = {{"use_sliding_window", true}, {"sliding_window", 8}, {"max_window_layers", 4}};
  const ModelConfig some = read(sizes("qwen2", uses));
  BOOST_TEST(some.window == 0);  // what the cache may drop
  BOOST_TEST(some.windows == (Rows{0, 0, 0, 0, 8, 8}), boost::test_tools::per_element());
  Json all = sizes("qwen3", uses);
  all["max_window_layers"] = 0;
  BOOST_TEST(read(all).window == 8);
  BOOST_TEST(read(all).windows.empty());
  Json listed = sizes("qwen3", uses);
  listed["layer_types"] = {"sliding_attention", "full_attention", "full_attention",
                           "full_attention",    "full_attention", "full_attention"};
  BOOST_TEST(read(listed).windows == (Rows{8, 0, 0, 0, 0, 0}), boost::test_tools::per_element());
  listed["layer_types"][1] = "linear_attention";
  refused(listed, "layer_types");
  listed["layer_types"] = {"full_attention"};
  refused(listed, "layer_types");
  Json unsaid = sizes("qwen3");
  unsaid.erase("head_dim");
  BOOST_TEST(read(unsaid).head_dim == 128);
}

BOOST_AUTO_TEST_CASE(layers_of_smollm3_rotate_or_not) {
  const ModelConfig usual = read(sizes("smollm3"));
  BOOST_TEST(usual.rotary.theta == 2e6);
  BOOST_TEST(usual.tied_head);
  for (int l = 0; l < 6; ++l) BOOST_CHECK(usual.rotation_of(l) == (l == 3 ? Rotation::none : Rotation::global));
  const ModelConfig listed = read(
      sizes("smollm3", {{"no_rope_layers", {0, 1, 1, 1, 1, 0}}, {"use_sliding_window", true}, {"sliding_window", 5}}));
  BOOST_CHECK(listed.rotation_of(0) == Rotation::none);
  BOOST_CHECK(listed.rotation_of(3) == Rotation::global);
  BOOST_TEST(listed.windows == (Rows{5, 0, 0, 0, 0, 5}), boost::test_tools::per_element());
  refused(sizes("smollm3", {{"no_rope_layers", {0, 1}}}), "no_rope_layers");
  refused(sizes("smollm3", {{"no_rope_layers", {0, 1, 2, 1, 1, 1}}}), "no_rope_layers");
}

BOOST_AUTO_TEST_CASE(granite_has_four_factors) {
  const ModelConfig c = read(sizes("granite", {{"embedding_multiplier", 12},
                                               {"attention_multiplier", 0.5},
                                               {"residual_multiplier", 0.25},
                                               {"logits_scaling", 8}}));
  BOOST_TEST(c.embedding_scale == 12);
  BOOST_TEST(c.score_scale(3) == 0.5f);
  BOOST_TEST(c.residual_scale == 0.25f);
  BOOST_TEST(AnyFamily<>::tensors(c).final_norm.gain.times == 0.125f);
}

BOOST_AUTO_TEST_CASE(gemmas) {
  const ModelConfig one = read(sizes("gemma"));
  BOOST_TEST(one.embedding_scale == std::sqrt(48.0f));
  BOOST_CHECK(one.activation == Activation::gelu_new);
  BOOST_TEST(AnyFamily<>::tensors(one).layers[1].mlp_norm.gain.plus == 1);
  BOOST_TEST(one.logit_soft_cap == 0);
  const ModelConfig two = read(sizes("gemma2"));
  BOOST_TEST(two.attention_soft_cap == 50);
  BOOST_TEST(two.logit_soft_cap == 30);
  BOOST_TEST(two.score_scale(0) == 1.0f / 16);
  BOOST_TEST(two.windows == (Rows{4096, 0, 4096, 0, 4096, 0}), boost::test_tools::per_element());
  BOOST_TEST(two.output_norms);
  const ModelConfig uncapped =
      read(sizes("gemma2", {{"attn_logit_softcapping", nullptr}, {"final_logit_softcapping", nullptr}}));
  BOOST_TEST(uncapped.attention_soft_cap == 0);
  BOOST_TEST(uncapped.logit_soft_cap == 0);

  const Json both = {{"full_attention", {{"rope_type", "linear"}, {"factor", 8}, {"rope_theta", 2e6}}},
                     {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 3e4}}}};
  for (const Json& more :
       {Json{{"rope_parameters", both}}, Json{{"rope_theta", 2e6},
                                              {"rope_local_base_freq", 3e4},
                                              {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8}}},
                                              {"sliding_window_pattern", 6}}}) {
    const ModelConfig three = read(sizes("gemma3_text", more));
    BOOST_TEST(three.rotary.theta == 2e6);
    BOOST_TEST(three.rotary.factor == 8);
    BOOST_TEST(three.local_rotary.theta == 3e4);
    BOOST_CHECK(three.local_rotary.scaling == RotaryScaling::none);
    BOOST_CHECK(three.rotation_of(4) == Rotation::local);
    BOOST_CHECK(three.rotation_of(5) == Rotation::global);
    BOOST_TEST(three.positions == 131072);
    BOOST_TEST(three.turns_twice());
  }
  refused(sizes("gemma3_text", {{"use_bidirectional_attention", true}}), "use_bidirectional_attention");
}

BOOST_AUTO_TEST_CASE(parts_of_heads_are_turned) {
  BOOST_TEST(read(sizes("stablelm", {{"head_dim", 16}})).rotary.width == 4);
  BOOST_TEST(read(sizes("phi", {{"head_dim", nullptr}})).rotary.width == 6);
  BOOST_TEST(read(sizes("phi3", {{"partial_rotary_factor", 0.5}, {"head_dim", nullptr}})).rotary.width == 6);
  BOOST_TEST(read(sizes("phi3")).rotary.width == 0);
  const ModelConfig neox = read(sizes("gpt_neox", {{"rotary_pct", 0.5}, {"rotary_emb_base", 2e4}, {"head_dim", 8}}));
  BOOST_TEST(neox.rotary.width == 4);
  BOOST_TEST(neox.rotary.theta == 2e4);
  BOOST_TEST(neox.parallel_residual);
  BOOST_TEST(!read(sizes("gpt_neox", {{"use_parallel_residual", false}, {"head_dim", 8}})).parallel_residual);
  refused(sizes("phi3", {{"partial_rotary_factor", 0.25}}), "head_dim");  // 3 elements are no pairs
  // Llama's class in transformers does not read the field.
  BOOST_TEST(read(sizes("llama", {{"partial_rotary_factor", 0.5}})).rotary.width == 0);
}

BOOST_AUTO_TEST_CASE(yarn_and_longrope_are_read) {
  const ModelConfig yarn = read(sizes("llama", {{"rope_scaling",
                                                 {{"rope_type", "yarn"},
                                                  {"factor", 4},
                                                  {"original_max_position_embeddings", 64},
                                                  {"mscale", 0.7},
                                                  {"mscale_all_dim", 1.2}}}}));
  BOOST_CHECK(yarn.rotary.scaling == RotaryScaling::yarn);
  BOOST_TEST(yarn.rotary.trained_positions == 64);
  BOOST_TEST(yarn.rotary.angle_scale == 0.94057153f);
  const Json factors = {1, 2, 3, 4, 5, 6};
  Json config =
      sizes("phi3", {{"original_max_position_embeddings", 64},
                     {"max_position_embeddings", 256},
                     {"rope_scaling", {{"type", "su"}, {"short_factor", factors}, {"long_factor", factors}}}});
  const ModelConfig longrope = read(config);
  BOOST_CHECK(longrope.rotary.scaling == RotaryScaling::longrope);
  BOOST_TEST(longrope.rotary.trained_positions == 64);
  BOOST_TEST(longrope.positions == 256);
  BOOST_TEST(longrope.rotary.angle_scale == 1.1547005f);
  config["rope_scaling"]["long_factor"] = {1, 2};
  refused(config, "rope_scaling.long_factor");
  config["rope_scaling"]["long_factor"] = {1, 2, 3, 4, 5, 0};
  refused(config, "rope_scaling.long_factor");
}

BOOST_AUTO_TEST_CASE(falcons_pack_their_heads) {
  const Json old = {{"model_type", "falcon"},   {"hidden_size", 48}, {"num_hidden_layers", 2},
                    {"num_attention_heads", 4}, {"vocab_size", 99},  {"num_kv_heads", 4}};
  const auto first_rows = [](const Json& config) {
    const DecoderSpec spec = AnyFamily<>::tensors(read(config));
    Rows rows;
    for (const TensorPart& part : spec.layers[0].qkv.weight.parts) {
      for (int row = 0; row < part.rows; row += 12) rows.push_back(part.run(row, 12).at / 12);
    }
    return rows;
  };
  BOOST_TEST(read(old).kv_heads == 1);  // multi_query is the default, whatever num_kv_heads says
  BOOST_TEST(first_rows(old) == (Rows{0, 1, 2, 3, 4, 5}), boost::test_tools::per_element());
  Json interleaved = old, grouped = old;
  interleaved["multi_query"] = false;
  BOOST_TEST(first_rows(interleaved) == (Rows{0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}), boost::test_tools::per_element());
  grouped["new_decoder_architecture"] = true, grouped["num_kv_heads"] = 2;
  BOOST_TEST(first_rows(grouped) == (Rows{0, 1, 4, 5, 2, 6, 3, 7}), boost::test_tools::per_element());
  BOOST_TEST(AnyFamily<>::tensors(read(grouped)).layers[0].mlp_norm.gain.parts[0].name == "h.0.ln_mlp.weight");
  Json alibi = old;
  alibi["alibi"] = true;
  const ModelConfig c = read(alibi);
  BOOST_CHECK(c.position_kind == PositionKind::alibi);
  BOOST_TEST(c.rounded_alibi);
}

BOOST_AUTO_TEST_CASE(local_layers_of_gpt_neo_have_a_window) {
  Json config = {{"model_type", "gpt_neo"},
                 {"hidden_size", 48},
                 {"num_layers", 3},
                 {"num_heads", 4},
                 {"vocab_size", 99},
                 {"window_size", 7},
                 {"attention_types", {{{"global", "local"}, 1}, {{"local"}, 1}}}};
  BOOST_TEST(read(config).windows == (Rows{0, 7, 7}), boost::test_tools::per_element());
  BOOST_TEST(read(config).window == 0);
  BOOST_TEST(read(config).score_scale(1) == 1);
  BOOST_TEST(read(config).inner == 192);
  config["attention_layers"] = {"local", "local", "global"};  // wins
  BOOST_TEST(read(config).windows == (Rows{7, 7, 0}), boost::test_tools::per_element());
  for (const Json& wrong : {Json("local"), Json{"local"}, Json{"local", "local", "other"}}) {
    config["attention_layers"] = wrong;
    refused(config, "attention_layers");
  }
  config.erase("attention_layers");
  config["attention_types"] = {{{"local"}, 3}};
  BOOST_TEST(read(config).window == 7);
  config["attention_types"] = {{{"global"}, 3}};
  BOOST_TEST(read(config).windows.empty());
  for (const Json& wrong :
       {Json(3), Json{{{"global"}, 2}}, Json{{{"global"}, 1000000}}, Json{{{"other"}, 3}}, Json{{"global", 3}}}) {
    config["attention_types"] = wrong;
    refused(config, "attention_types");
  }
}

BOOST_AUTO_TEST_CASE(granite_4_has_attention_alone) {
  Json config = sizes("granitemoehybrid", {{"layer_types", std::vector<std::string>(6, "attention")},
                                           {"num_local_experts", 0},
                                           {"shared_intermediate_size", 72}});
  BOOST_TEST(read(config).inner == 72);
  BOOST_CHECK(read(config).rotation_of(2) == Rotation::none);
  config["position_embedding_type"] = "rope";
  BOOST_CHECK(read(config).rotation_of(2) == Rotation::global);
  config["layer_types"] = std::vector<std::string>(6, "full_attention");  // as transformers 5 writes it
  BOOST_TEST(AnyFamily<>::tensors(read(config)).layers[1].up.weight.parts[0].name ==
             "layers.1.shared_mlp.input_linear.weight");
  config["layer_types"][3] = "mamba";
  refused(config, "layer_types: \"mamba\"");
  config["layer_types"] = {"attention"};
  refused(config, "layer_types");
  config.erase("layer_types");
  refused(config, "layer_types");
  config["layers_block_type"] = std::vector<std::string>(6, "attention");  // an older name
  BOOST_CHECK_NO_THROW(read(config));
  refused(sizes("granitemoehybrid", {{"layer_types", std::vector<std::string>(6, "attention")},
                                     {"num_local_experts", 4},
                                     {"shared_intermediate_size", 72}}),
          "num_local_experts");
}

BOOST_AUTO_TEST_CASE(layers_of_exaone_4_with_a_window_are_rotated) {
  const ModelConfig none = read(sizes("exaone4", {{"sliding_window", nullptr}, {"sliding_window_pattern", nullptr}}));
  BOOST_TEST(none.windows.empty());
  BOOST_CHECK(none.rotation_of(3) == Rotation::global);
  const ModelConfig some = read(sizes("exaone4", {{"sliding_window", 5}, {"sliding_window_pattern", 3}}));
  BOOST_TEST(some.windows == (Rows{5, 5, 0, 5, 5, 0}), boost::test_tools::per_element());
  BOOST_CHECK(some.rotation_of(2) == Rotation::none);
  BOOST_CHECK(some.rotation_of(3) == Rotation::global);
}

BOOST_AUTO_TEST_CASE(two_names_of_a_field_must_agree) {
  Json mpt = {{"model_type", "mpt"}, {"d_model", 48}, {"n_layers", 2}, {"num_attention_heads", 4}, {"vocab_size", 99}};
  BOOST_TEST(read(mpt).heads == 4);
  mpt["n_heads"] = 4;
  BOOST_TEST(read(mpt).heads == 4);
  mpt["n_heads"] = 2;
  refused(mpt, "num_attention_heads");
}

BOOST_AUTO_TEST_CASE(opt_counts_positions_from_two) {
  Json config = {{"model_type", "opt"}, {"hidden_size", 48}, {"num_hidden_layers", 2},       {"num_attention_heads", 4},
                 {"ffn_dim", 80},       {"vocab_size", 99},  {"max_position_embeddings", 30}};
  const DecoderSpec spec = AnyFamily<>::tensors(read(config));
  BOOST_TEST(spec.position_table.parts[0].first == 2);
  BOOST_TEST(spec.position_table.parts[0].stored == 32);
  BOOST_TEST(read(config).head_width() == 48);
  config["word_embed_proj_dim"] = 40, config["do_layer_norm_before"] = false;
  const ModelConfig c = read(config);
  const DecoderSpec small = AnyFamily<>::tensors(c);
  BOOST_CHECK((small.embedding.shape == Shape{99, 40}));
  BOOST_CHECK((small.embedding_in.weight.shape == Shape{48, 40}));
  BOOST_CHECK((small.embedding_out.weight.shape == Shape{40, 48}));
  BOOST_TEST(small.final_norm.gain.none());
  BOOST_TEST(small.layers[1].attention_norm.gain.none());
  BOOST_TEST(!small.layers[1].after_mlp_norm.gain.none());
}

BOOST_AUTO_TEST_CASE(mixtures_say_which_experts_a_token_chooses) {
  const ModelConfig mixtral = read(sizes("mixtral", {{"num_local_experts", 4}, {"num_experts_per_tok", 2}}));
  BOOST_TEST(mixtral.experts == 4);
  BOOST_TEST(mixtral.experts_chosen == 2);
  BOOST_TEST(mixtral.expert_inner == 80);
  BOOST_CHECK(mixtral.router_kind == RouterKind::normalised);
  BOOST_TEST(AnyFamily<>::tensors(mixtral).layers[5].experts[3].down.weight.parts[0].name ==
             "layers.5.block_sparse_moe.experts.3.w2.weight");
  BOOST_CHECK(read(sizes("olmoe")).router_kind == RouterKind::softmax);
  BOOST_TEST(read(sizes("olmoe")).norms_all_heads);
  const ModelConfig qwen = read(sizes("qwen3_moe", {{"num_experts", 8},
                                                    {"moe_intermediate_size", 40},
                                                    {"norm_topk_prob", true},
                                                    {"decoder_sparse_step", 2},
                                                    {"mlp_only_layers", {3}}}));
  BOOST_TEST(qwen.expert_inner == 40);
  BOOST_TEST(qwen.experts_chosen == 8);
  for (int l = 0; l < 6; ++l) BOOST_TEST(qwen.is_mixture(l) == (l == 1 || l == 5));
  BOOST_TEST(AnyFamily<>::tensors(qwen).layers[3].experts.empty());
  refused(sizes("mixtral", {{"num_local_experts", 4}, {"num_experts_per_tok", 5}}), "num_experts_per_tok");
  refused(sizes("mixtral", {{"num_local_experts", 0}}), "num_local_experts");
  refused(sizes("qwen3_moe", {{"mlp_only_layers", {6}}}), "mlp_only_layers");
  BOOST_TEST(read(sizes("olmoe", {{"clip_qkv", 8.0}})).qkv_bound == 8);
}

BOOST_AUTO_TEST_CASE(qwen2_moe_has_a_shared_expert_beside_the_others) {
  const Json some = {{"num_experts", 8}, {"shared_expert_intermediate_size", 72}, {"mlp_only_layers", {3}}};
  const auto with = [&](Json more) {
    more.update(some);
    return sizes("qwen2_moe", more);
  };
  const ModelConfig c = read(with(Json::object()));
  BOOST_TEST((c.experts_chosen == 4 && c.expert_inner == 1408 && c.shared_inner == 72 && c.qkv_bias));
  BOOST_CHECK(c.router_kind == RouterKind::softmax);
  const DecoderSpec spec = AnyFamily<>::tensors(c);
  BOOST_TEST(spec.layers[0].up.weight.parts[1].name == "layers.0.mlp.shared_expert.up_proj.weight");
  BOOST_CHECK((spec.layers[0].down.weight.shape == Shape{48, 72}));
  BOOST_TEST(spec.layers[0].shared_gate.parts[0].name == "layers.0.mlp.shared_expert_gate.weight");
  BOOST_TEST((spec.layers[3].shared_gate.none() && spec.layers[3].up.weight.shape.rows == 160));
  check_switches(spec, c);
  for (const std::string& broken : testing::model_laws<Qwen2Moe>(c)) BOOST_ERROR(broken);
  ModelConfig none = c;
  none.shared_inner = 0;
  BOOST_CHECK_THROW(check_switches(spec, none), Error);
  const Json null;
  BOOST_TEST(!read(with({{"qkv_bias", null}})).qkv_bias);
  BOOST_TEST(read(sizes("qwen2_moe")).shared_inner == 5632);
  for (const char* field : {"moe_intermediate_size", "shared_expert_intermediate_size"})
    refused(sizes("qwen2_moe", {{field, null}}), field);
  // Without layer_types, transformers 4.57.6 gives one answer with a cache and another without.
  refused(with({{"use_sliding_window", true}}), "use_sliding_window");
  std::vector<std::string> types(6, "full_attention");
  types[2] = "sliding_attention";
  const ModelConfig windows = read(with({{"use_sliding_window", true}, {"sliding_window", 8}, {"layer_types", types}}));
  BOOST_TEST(windows.windows == (Rows{0, 0, 8, 0, 0, 0}), boost::test_tools::per_element());
  refused(with({{"sliding_window", 8}, {"layer_types", types}}), "sliding_window");
}

BOOST_AUTO_TEST_CASE(ernie_mixes_experts_in_the_layers_that_the_file_says) {
  const Json some = {{"moe_num_experts", 8}, {"moe_k", 3}, {"moe_intermediate_size", 24}};
  const auto with = [&](Json more) {
    more.update(some);
    return read(sizes("ernie4_5_moe", more));
  };
  const ModelConfig c = with({{"moe_layer_start_index", 1}, {"moe_layer_end_index", 4}, {"moe_layer_interval", 2}});
  for (int l = 0; l < 6; ++l) BOOST_TEST(c.is_mixture(l) == (l == 1 || l == 3));
  BOOST_TEST(
      (c.experts == 8 && c.experts_chosen == 3 && c.expert_inner == 24 && c.shared_inner == 48 && c.choice_bias));
  BOOST_TEST((c.router_kind == RouterKind::normalised && c.router_epsilon == 1e-12f && c.rotary.neighbours));
  BOOST_TEST((c.head_dim == 12 && c.tied_head));
  const DecoderSpec spec = AnyFamily<>::tensors(c);
  BOOST_TEST(spec.layers[1].choice_bias.parts[0].name == "layers.1.mlp.moe_statics.e_score_correction_bias");
  BOOST_CHECK((spec.layers[1].choice_bias.shape == Shape{1, 8}));
  BOOST_TEST(spec.layers[1].up.weight.parts[0].name == "layers.1.mlp.shared_experts.gate_proj.weight");
  BOOST_TEST((spec.layers[1].shared_gate.none() && spec.layers[1].experts[7].down.bias.none()));
  check_switches(spec, c);
  for (const std::string& broken : testing::model_laws<Ernie45Moe>(c)) BOOST_ERROR(broken);
  const ModelConfig alone = with({{"moe_num_shared_experts", 0}, {"use_bias", true}});
  for (int l = 0; l < 6; ++l) BOOST_TEST(alone.is_mixture(l) == (l > 0));  // from the second layer to the last
  const DecoderSpec biased = AnyFamily<>::tensors(alone);
  BOOST_TEST((biased.head_bias.shape.rows == 99 && spec.head_bias.none()));
  BOOST_TEST((biased.layers[5].up.weight.none() && !biased.layers[5].experts[7].down.bias.none()));
  refused(sizes("ernie4_5_moe", {{"moe_num_experts", 8}, {"moe_k", 9}}), "moe_k");
  refused(sizes("ernie4_5_moe", {{"moe_num_experts", 8}, {"num_experts", 9}}), "num_experts");
}

BOOST_AUTO_TEST_CASE(gpt_oss_stacks_its_experts) {
  const Json yarn = {{"rope_type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 64}};
  const ModelConfig c =
      read(sizes("gpt_oss", {{"num_local_experts", 3}, {"rope_scaling", yarn}, {"sliding_window", 8}}));
  BOOST_TEST(c.windows == (Rows{8, 0, 8, 0, 8, 0}), boost::test_tools::per_element());
  BOOST_TEST(c.expert_gate.limit == 7.0f);
  BOOST_TEST(c.expert_gate.steepness == 1.702f);
  const auto spec = AnyFamily<>::tensors(c);
  // Gate and up alternate in the columns of [experts, hidden, 2 inner].
  const auto& parts = spec.layers[0].experts[2].up.weight.parts;
  BOOST_TEST(parts[0].run(0, 80).at == 2 * 160);
  BOOST_TEST(parts[0].run(1, 80).at == 2 * 160 + 2);
  BOOST_TEST(parts[1].run(79, 1).at == 2 * 160 + 159);
  BOOST_TEST(parts[0].stored_rows() == 3 * 160);
  // A tensor of one expert has its dimension, too.
  BOOST_TEST(AnyFamily<>::tensors(read(sizes("gpt_oss", {{"num_local_experts", 1}})))
                 .layers[0]
                 .experts[0]
                 .up.weight.parts[0]
                 .is_stack);
}

BOOST_AUTO_TEST_CASE(layers_with_a_window_turn_otherwise_in_olmo_3_and_command_r7b) {
  const std::vector<std::string> types = {"sliding_attention", "full_attention",    "sliding_attention",
                                          "full_attention",    "sliding_attention", "full_attention"};
  const Json yarn = {{"rope_type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 64}};
  const ModelConfig olmo = read(
      sizes("olmo3", {{"layer_types", types}, {"sliding_window", 5}, {"rope_scaling", yarn}, {"rope_theta", 3e4}}));
  BOOST_TEST(olmo.windows == (Rows{5, 0, 5, 0, 5, 0}), boost::test_tools::per_element());
  BOOST_CHECK(olmo.rotation_of(0) == Rotation::local);
  BOOST_CHECK(olmo.rotation_of(1) == Rotation::global);
  BOOST_CHECK(olmo.local_rotary == RotaryConfig{.theta = 3e4});
  BOOST_TEST(!read(sizes("olmo3")).turns_twice());  // both are the same without a scaling
  BOOST_TEST(read(sizes("olmo3")).windows == (Rows{4096, 4096, 4096, 0, 4096, 4096}), boost::test_tools::per_element());
  const ModelConfig cohere = read(sizes("cohere2", {{"sliding_window_pattern", 2}}));
  BOOST_CHECK(cohere.rotation_of(0) == Rotation::global);
  BOOST_CHECK(cohere.rotation_of(1) == Rotation::none);
  BOOST_TEST(cohere.window_of(0) == 4096);
  BOOST_TEST(cohere.window_of(1) == 0);
}

BOOST_AUTO_TEST_CASE(switches_of_another_family_are_refused) {
  ModelConfig c = read(sizes("llama"));
  BOOST_CHECK_NO_THROW(check_switches(Llama::tensors(c), c));
  for (const auto& change : {+[](ModelConfig& of) { of.norm_kind = NormKind::layer; },
                             +[](ModelConfig& of) { of.position_kind = PositionKind::learned; },
                             +[](ModelConfig& of) { of.mlp_kind = MlpKind::plain; }}) {
    ModelConfig other = c;
    change(other);
    BOOST_CHECK_THROW(check_switches(Llama::tensors(other), other), Error);
  }
}

BOOST_AUTO_TEST_CASE(one_type_has_the_names_of_every_family) {
  ModelConfig c = read(sizes("gpt_neox", {{"head_dim", 8}}));
  BOOST_TEST(AnyFamily<>::family(c.model_type).name_prefix == "gpt_neox.");
  BOOST_TEST(family_for<Llama>(c).name_prefix == "model.");
  refused(sizes("mamba"), "\"mamba\" is not supported; supported: gpt2, ");
}

BOOST_AUTO_TEST_SUITE_END()
