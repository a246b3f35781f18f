// Fields of config.json whose meaning in transformers is not what their name says. The numbers and rules are those of
// transformers 4.57.6, modeling_<family>.py and modeling_rope_utils.py.
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../io/scratch.h"
#include "made_model.h"
#include "tenon/model/any_family.h"
#include "tenon/model/files.h"
#include "tenon/model/tensor_source.h"

BOOST_AUTO_TEST_SUITE(model_family_fields)

using namespace tenon;
using Json = nlohmann::json;

namespace {

const Json kSizes = {{"hidden_size", 48},       {"num_hidden_layers", 3},   {"vocab_size", 99},
                     {"intermediate_size", 80}, {"num_attention_heads", 4}, {"head_dim", 12},
                     {"num_key_value_heads", 2}};

Json llama_like(const std::string& model_type, const Json& more = Json::object()) {
  Json config = kSizes;
  config["model_type"] = model_type;
  config.update(more);
  return config;
}
Json gptj_like(const std::string& model_type, const Json& more = Json::object()) {
  Json config = {{"model_type", model_type}, {"n_embd", 96},     {"n_layer", 2}, {"n_head", 1},
                 {"vocab_size", 99},         {"n_positions", 64}};
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
    BOOST_TEST(std::string(error.what()).find("config.json: " + what) != std::string::npos,
               what << ": " << error.what());
    return true;
  });
}

RotaryConfig rotary(const Json& scaling, const std::string& model_type = "llama") {
  return read(llama_like(model_type, {{"rope_scaling", scaling}, {"max_position_embeddings", 256}})).rotary;
}

}  // namespace

BOOST_AUTO_TEST_CASE(experts_have_the_activation_of_the_config) {
  for (const char* family : {"mixtral", "qwen2_moe", "qwen3_moe", "olmoe"}) {
    BOOST_CHECK(read(llama_like(family)).expert_gate == ExpertGate{});
    BOOST_CHECK(read(llama_like(family, {{"hidden_act", "relu"}})).expert_gate == ExpertGate{Activation::relu});
  }
  const Json oss = {{"hidden_act", "relu"}, {"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}}}};
  BOOST_CHECK((read(llama_like("gpt_oss", oss)).expert_gate == ExpertGate{Activation::silu, 7.0f, 1.702f}));
}

BOOST_AUTO_TEST_CASE(scores_of_gemma_2_alone_are_capped) {
  BOOST_TEST(read(llama_like("gemma2", {{"attn_logit_softcapping", 2}})).attention_soft_cap == 2);
  const ModelConfig three = read(llama_like("gemma3_text", {{"attn_logit_softcapping", 2}}));
  BOOST_TEST(three.attention_soft_cap == 0);
  BOOST_TEST(read(llama_like("gemma3_text", {{"final_logit_softcapping", 3}})).logit_soft_cap == 3);
}

BOOST_AUTO_TEST_CASE(gemma_1_reads_hidden_act) {
  BOOST_CHECK(read(llama_like("gemma", {{"hidden_act", "gelu"}})).activation == Activation::gelu);
  BOOST_CHECK(read(llama_like("gemma", {{"hidden_activation", "silu"}})).activation == Activation::gelu_new);
  BOOST_CHECK(read(llama_like("gemma", {{"hidden_act", "relu"}, {"hidden_activation", "silu"}})).activation ==
              Activation::relu);
}

BOOST_AUTO_TEST_CASE(bloom_without_two_biases_is_refused) {
  Json config = {{"model_type", "bloom"}, {"hidden_size", 48},      {"n_layer", 2},
                 {"n_head", 4},           {"slow_but_exact", true}, {"vocab_size", 99}};
  BOOST_CHECK_NO_THROW(read(config));
  config["pretraining_tp"] = 2;
  refused(config, "slow_but_exact");
  config["slow_but_exact"] = false;
  BOOST_CHECK_NO_THROW(read(config));
}

BOOST_AUTO_TEST_CASE(rotary_dim_may_be_null) {
  BOOST_TEST(read(gptj_like("gptj")).rotary.width == 64);
  BOOST_TEST(read(gptj_like("gptj", {{"rotary_dim", nullptr}})).rotary.width == 0);  // the whole head
  refused(gptj_like("gptj", {{"rotary_dim", nullptr}, {"n_head", 2}}), "rotary_dim");
  refused(gptj_like("codegen", {{"rotary_dim", nullptr}, {"n_head", 4}}), "rotary_dim");
}

BOOST_AUTO_TEST_CASE(layer_types_of_smollm3_win_over_use_sliding_window) {
  Json config = llama_like("smollm3", {{"use_sliding_window", false},
                                       {"sliding_window", 7},
                                       {"no_rope_layers", {1, 0, 1}},
                                       {"layer_types", {"sliding_attention", "full_attention", "sliding_attention"}}});
  BOOST_TEST(read(config).windows == (std::vector<int>{7, 0, 7}), boost::test_tools::per_element());
  config["sliding_window"] = nullptr;
  refused(config, "sliding_window");
  config["layer_types"] = {"full_attention", "full_attention", "full_attention"};
  BOOST_TEST(read(config).windows.empty());
  config["use_sliding_window"] = true, config["sliding_window"] = 7;
  BOOST_TEST(read(config).windows.empty());
  config.erase("layer_types");
  BOOST_TEST(read(config).windows == (std::vector<int>{0, 7, 0}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(phi_3_was_trained_on_4096_positions_if_the_file_is_silent) {
  const Json factors = {1, 2, 3, 4, 5, 6};
  const Json scaling = {{"type", "longrope"}, {"short_factor", factors}, {"long_factor", factors}};
  Json config = llama_like("phi3", {{"rope_scaling", scaling}, {"max_position_embeddings", 8192}});
  BOOST_TEST(read(config).rotary.trained_positions == 4096);
  BOOST_TEST(read(config).rotary.angle_scale == 1.0408329997330663f);  // sqrt(1 + ln 2 / ln 4096)
  config["original_max_position_embeddings"] = 2048;
  BOOST_TEST(read(config).rotary.trained_positions == 2048);
  BOOST_TEST(rotary({{"type", "longrope"}, {"short_factor", factors}, {"long_factor", factors}}).trained_positions ==
             256);  // other families: max_position_embeddings
}

BOOST_AUTO_TEST_CASE(members_of_rope_scaling_without_effect_are_ignored) {
  const Json position = 64;
  BOOST_CHECK(rotary({{"rope_type", "default"}, {"factor", 4}}) == rotary({{"rope_type", "default"}}));
  for (const char* type : {"linear", "dynamic"}) {
    BOOST_CHECK(rotary({{"rope_type", type}, {"factor", 4}, {"original_max_position_embeddings", position}}) ==
                rotary({{"rope_type", type}, {"factor", 4}}));
  }
  const Json yarn = {{"rope_type", "yarn"}, {"factor", 4}};
  for (const Json& more :
       {Json{{"mrope_section", {2, 2, 2}}}, Json{{"long_factor", {1, 2}}}, Json{{"finetuned", true}},
        Json{{"attn_factor", 2}}, Json{{"extrapolation_factor", 2}}, Json{{"beta_fast", 0}}, Json{{"beta_slow", 0}},
        Json{{"mscale", 0.7}, {"mscale_all_dim", 0}}, Json{{"mscale", 0}, {"mscale_all_dim", 0.7}}}) {
    Json changed = yarn;
    changed.update(more);
    BOOST_TEST((rotary(changed) == rotary(yarn)), more.dump());
  }
  BOOST_CHECK(rotary(yarn).angle_scale !=
              rotary({{"rope_type", "yarn"}, {"factor", 4}, {"attention_factor", 2}}).angle_scale);
  refused(llama_like("llama", {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}, {"beta_fast", -1}}}}),
          "rope_scaling.beta_fast");
}

BOOST_AUTO_TEST_CASE(what_has_no_effect_in_rope_scaling_is_listed) {
  const Json scaling = {{"rope_type", "linear"}, {"factor", 2}, {"low_freq_factor", 1}};
  const Json json = llama_like("llama", {{"rope_scaling", scaling}, {"max_position_embeddings", 256}});
  const ConfigFile file(std::make_shared<const tenon::Json>(tenon::Json::parse(json.dump())), "config.json");
  Llama::configure(file);
  const std::vector<std::string> expected = {"config.json: rope_scaling.low_freq_factor"};
  BOOST_TEST(file.unread() == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(su_and_yarn_are_longrope_in_phi_3_alone) {
  const Json factors = {1, 2, 3, 4, 5, 6};
  Json scaling = {{"short_factor", factors}, {"long_factor", factors}, {"factor", 4}};
  for (const char* name : {"su", "yarn", "longrope"}) {
    scaling["type"] = name;
    BOOST_CHECK(rotary(scaling, "phi3").scaling == RotaryScaling::longrope);
  }
  scaling["type"] = "yarn";
  BOOST_CHECK(rotary(scaling).scaling == RotaryScaling::yarn);
  scaling["type"] = "su";
  refused(llama_like("llama", {{"rope_scaling", scaling}}), "rope_scaling.type");
}

BOOST_AUTO_TEST_CASE(layer_types_make_mistral_ministral) {
  Json config = llama_like("mistral", {{"sliding_window", 7}});
  BOOST_TEST(read(config).window == 7);
  config["layer_types"] = nullptr;
  BOOST_TEST(read(config).window == 7);
  config["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  BOOST_TEST(read(config).window == 0);
  BOOST_TEST(read(config).windows == (std::vector<int>{7, 0, 7}), boost::test_tools::per_element());
  config["sliding_window"] = nullptr, config["layer_types"] = {"full_attention", "full_attention", "full_attention"};
  BOOST_TEST(read(config).window == 0);
  BOOST_TEST(read(config).windows.empty());
}

// DynamicCache of transformers drops keys before the window, in families without one, too.
BOOST_AUTO_TEST_CASE(a_window_that_only_the_cache_has_is_refused) {
  const Json gpt2 = {{"model_type", "gpt2"}, {"n_embd", 48},     {"n_layer", 3},
                     {"n_head", 4},          {"vocab_size", 99}, {"n_positions", 64}};
  std::vector<Json> files = {gpt2};
  for (const char* family :
       {"llama", "gemma", "phi", "granite", "olmo", "olmo2", "olmoe", "stablelm", "cohere", "ernie4_5", "ernie4_5_moe",
        "gpt_neox", "falcon", "glm", "glm4", "nemotron", "arcee", "helium", "hunyuan_v1_dense"})
    files.push_back(llama_like(family, {{"max_position_embeddings", 64}, {"head_dim", 16}, {"hidden_size", 64}}));
  for (Json config : files) {
    config["sliding_window"] = 63;
    refused(config, "sliding_window");
    config["layer_types"] = {"full_attention", "full_attention", "full_attention"};
    BOOST_CHECK_NO_THROW(read(config));
    config["layer_types"] = {"full_attention", "sliding_attention", "full_attention"};
    refused(config, "sliding_window");
    config["layer_types"] = {"chunked_attention", "full_attention", "full_attention"};
    refused(config, "sliding_window");
    for (const Json& without_effect : {Json(64), Json(0), Json()}) {
      config["sliding_window"] = without_effect;
      config.erase("layer_types");
      BOOST_TEST(read(config).window == 0, config.dump());
      BOOST_TEST(read(config).most_positions == (without_effect == 64 ? 64 : 0));
    }
  }
}

// Python's `if config.tie_word_embeddings:`
BOOST_AUTO_TEST_CASE(null_is_false_where_the_default_is_true) {
  const Json null;
  BOOST_TEST(!read(llama_like("gemma", {{"tie_word_embeddings", null}})).tied_head);
  BOOST_TEST(!read(llama_like("starcoder2", {{"use_bias", null}})).attention_bias);
  const ModelConfig neox =
      read(llama_like("gpt_neox", {{"use_parallel_residual", null}, {"attention_bias", null}, {"head_dim", 8}}));
  BOOST_TEST(!neox.parallel_residual);
  BOOST_TEST(!neox.attention_bias);
  const ModelConfig gptj = read(gptj_like("gpt2", {{"scale_attn_weights", null}, {"tie_word_embeddings", null}}));
  BOOST_TEST(!gptj.scale_scores);
  BOOST_TEST(!gptj.tied_head);
  BOOST_TEST(read(gptj_like("gpt_bigcode", {{"multi_query", null}})).interleaved_qkv);
  BOOST_TEST(!read(llama_like("falcon", {{"parallel_attn", null}})).parallel_residual);
  BOOST_TEST(!rotary({{"rope_type", "yarn"}, {"factor", 4}, {"truncate", null}}).truncate);
}

BOOST_AUTO_TEST_CASE(scalings_of_kinds_of_layers_are_read_in_two_families_alone) {
  const Json both = {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 5e5}}},
                     {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 5e5}}}};
  for (const char* family : {"llama", "qwen3", "ministral", "cohere2", "gpt_oss"})
    refused(llama_like(family, {{"rope_parameters", both}}), "rope_parameters.full_attention");
  BOOST_TEST(read(llama_like("olmo3", {{"rope_parameters", both}})).rotary.theta == 5e5);
  // Files of the first transformers 5 hold one scaling, for layers with and without a window.
  const Json yarn = {{"rope_type", "yarn"}, {"rope_theta", 500}, {"factor", 4}};
  const ModelConfig flat = read(llama_like("olmo3", {{"rope_parameters", yarn}}));
  BOOST_TEST(flat.rotary.theta == 500);
  BOOST_CHECK(flat.local_rotary == RotaryConfig{.theta = 500});
}

BOOST_AUTO_TEST_CASE(layers_with_a_window_need_its_size) {
  for (const char* family : {"gemma2", "gemma3_text", "cohere2", "olmo3", "gpt_oss"})
    refused(llama_like(family, {{"sliding_window", nullptr}}), "sliding_window");
  const Json types = {"sliding_attention", "full_attention", "full_attention"};
  for (const char* family : {"mistral", "ministral", "qwen2", "qwen3", "exaone4", "cohere2"})
    refused(llama_like(family, {{"sliding_window", nullptr}, {"layer_types", types}}), "sliding_window");
  BOOST_TEST(read(llama_like("mistral", {{"sliding_window", nullptr}})).window == 0);
}

BOOST_AUTO_TEST_CASE(glm_ends_texts_with_three_tokens) {
  const ModelConfig c = read(llama_like("glm", {{"vocab_size", 151552}, {"head_dim", 16}}));
  BOOST_TEST(c.eos == (std::vector<TokenId>{151329, 151336, 151338}), boost::test_tools::per_element());
  BOOST_TEST(read(llama_like("glm", {{"eos_token_id", 7}, {"head_dim", 16}})).eos.size() == 1u);
}

BOOST_AUTO_TEST_CASE(names_that_a_class_overwrites_have_no_effect) {
  const ModelConfig neox = read(
      llama_like("gpt_neox", {{"rope_theta", 5}, {"partial_rotary_factor", 1}, {"head_dim", 16}, {"rotary_pct", 0.5}}));
  BOOST_TEST(neox.rotary.theta == 10000);
  BOOST_TEST(neox.rotary.width == 8);
  BOOST_TEST(read(llama_like("falcon", {{"n_layer", 5}})).layers == 3);
  BOOST_TEST(read(llama_like("falcon", {{"n_embed", 32}})).hidden == 32);
  BOOST_TEST(read(llama_like("qwen3_moe", {{"moe_intermediate_size", nullptr}})).expert_inner == 80);
  const ModelConfig gemma = read(llama_like("gemma3_text", {{"_sliding_window_pattern", 2}, {"num_hidden_layers", 6}}));
  BOOST_TEST(gemma.window_of(1) == 4096);
  BOOST_TEST(gemma.window_of(5) == 0);
}

BOOST_AUTO_TEST_CASE(gpt_oss_has_yarn_unless_the_file_says_null) {
  const ModelConfig usual = read(llama_like("gpt_oss"));
  BOOST_CHECK(usual.rotary.scaling == RotaryScaling::yarn);
  BOOST_TEST(usual.rotary.factor == 32);
  BOOST_TEST(usual.rotary.trained_positions == 4096);
  BOOST_TEST(!usual.rotary.truncate);
  BOOST_CHECK(read(llama_like("gpt_oss", {{"rope_scaling", nullptr}})).rotary.scaling == RotaryScaling::none);
  BOOST_TEST(read(llama_like("gpt_oss", {{"head_dim", nullptr}})).head_dim == 12);
}

// google/gemma-3-4b-it: its text_config has only what differs from the class.
BOOST_AUTO_TEST_CASE(a_model_of_images_and_texts_has_the_sizes_of_its_decoder) {
  const Json text = {{"hidden_size", 2560},
                     {"intermediate_size", 10240},
                     {"model_type", "gemma3_text"},
                     {"num_hidden_layers", 34},
                     {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
                     {"sliding_window", 1024}};
  Json config = {{"architectures", {"Gemma3ForConditionalGeneration"}},
                 {"eos_token_id", {1, 106}},
                 {"model_type", "gemma3"},
                 {"text_config", text},
                 {"vision_config", {{"hidden_size", 1152}}}};
  const ModelConfig c = read(config);
  BOOST_TEST(c.model_type == "gemma3");
  BOOST_TEST(c.layers == 34);
  BOOST_TEST(c.heads == 8);
  BOOST_TEST(c.kv_heads == 4);
  BOOST_TEST(c.head_dim == 256);
  BOOST_TEST(c.vocab == 262208);
  BOOST_TEST(c.window_of(0) == 1024);
  BOOST_TEST(c.window_of(5) == 0);
  BOOST_TEST(c.eos == (std::vector<TokenId>{1, 106}), boost::test_tools::per_element());
  BOOST_TEST((c.bos == 2));
  config["text_config"]["hidden_size"] = 0;
  refused(config, "text_config.hidden_size");
  config.erase("text_config");
  refused(config, "text_config: is missing");
  config["text_config"] = text, config["architectures"] = {"Gemma3ForSequenceClassification"};
  refused(config, "architectures");
}

// Qwen2.5-VL-3B-Instruct has the fields of its decoder in config.json itself; newer files have a text_config.
BOOST_AUTO_TEST_CASE(qwen_vl_has_the_sizes_of_its_decoder) {
  const Json text = {{"hidden_size", 2048},
                     {"intermediate_size", 11008},
                     {"max_position_embeddings", 128000},
                     {"num_attention_heads", 16},
                     {"num_hidden_layers", 36},
                     {"num_key_value_heads", 2},
                     {"rms_norm_eps", 1e-6},
                     {"rope_scaling", {{"type", "mrope"}, {"mrope_section", {16, 24, 24}}}},
                     {"sliding_window", 32768},
                     {"tie_word_embeddings", true},
                     {"use_sliding_window", false},
                     {"vocab_size", 151936}};
  Json flat = text, nested = {{"model_type", "qwen2_5_vl"}, {"text_config", text}};
  flat["model_type"] = "qwen2_5_vl";
  nested["text_config"]["model_type"] = "qwen2_5_vl_text";
  for (const Json& config : {flat, nested}) {
    const ModelConfig c = read(config);
    BOOST_TEST(c.model_type == "qwen2_5_vl");
    BOOST_TEST(c.layers == 36);
    BOOST_TEST(c.head_dim == 128);
    BOOST_TEST(c.rotary.theta == 1e6);
    BOOST_TEST(c.qkv_bias);
    BOOST_TEST(c.tied_head);
    BOOST_TEST(c.window_of(0) == 0);
  }
  flat["rope_scaling"]["rope_type"] = "default";
  BOOST_TEST(read(flat).layers == 36);
  flat["rope_scaling"]["rope_type"] = "yarn";  // `type` replaces it
  BOOST_CHECK(read(flat).rotary.scaling == RotaryScaling::none);
  flat["rope_scaling"].erase("rope_type");
  flat["rope_scaling"]["partial_rotary_factor"] = 0.5;
  refused(flat, "rope_scaling.partial_rotary_factor");
  flat["rope_scaling"].erase("partial_rotary_factor");
  flat["rope_scaling"]["mrope_section"] = {16, 24, 25};
  refused(flat, "rope_scaling.mrope_section");
  flat.erase("rope_scaling");
  refused(flat, "rope_scaling");
  nested["model_type"] = "qwen3_vl";
  nested["text_config"]["model_type"] = "qwen3_vl_text";
  nested["text_config"].erase("sliding_window");
  refused(nested, "text_config.rope_scaling.rope_type");  // the class reads this name alone
  nested["text_config"].erase("rope_scaling");
  refused(nested, "text_config.rope_scaling");
  nested["text_config"]["rope_parameters"] = {// as transformers 5 writes it
                                              {"rope_type", "default"},
                                              {"rope_theta", 5e6},
                                              {"mrope_section", {24, 20, 20}}};
  nested["text_config"].erase("model_type");
  BOOST_TEST(!read(nested).qkv_bias);
  BOOST_TEST(read(nested).rotary.theta == 5e6);
}

// A text_config of SmolVLM names a class of its own.
BOOST_AUTO_TEST_CASE(smolvlm_has_the_sizes_of_its_llama) {
  Json text = llama_like("llama", {{"architectures", {"VLlama3ForCausalLM"}}});
  for (const char* type : {"smolvlm", "idefics3"}) {
    const ModelConfig c = read({{"model_type", type}, {"text_config", text}});
    BOOST_TEST(c.model_type == type);
    BOOST_TEST(c.layers == text["num_hidden_layers"].get<int>());
  }
  text["model_type"] = "qwen2";
  refused({{"model_type", "smolvlm"}, {"text_config", text}}, "text_config.model_type");
}

BOOST_AUTO_TEST_CASE(queries_keys_and_values_may_be_clamped) {
  BOOST_TEST(read(llama_like("olmo", {{"clip_qkv", 8}})).qkv_bound == 8);
  BOOST_TEST(read(llama_like("olmo", {{"clip_qkv", nullptr}})).qkv_bound == 0);
  refused(llama_like("olmo", {{"clip_qkv", -8}}), "clip_qkv");
  const Json mpt = {{"model_type", "mpt"},      {"hidden_size", 48}, {"num_hidden_layers", 2},
                    {"num_attention_heads", 4}, {"vocab_size", 99},  {"attn_config", {{"clip_qkv", 6}}}};
  BOOST_TEST(read(mpt).qkv_bound == 6);
}

BOOST_AUTO_TEST_CASE(model_type_alone_says_the_family_of_a_language_model) {
  for (const Json& names : {Json::array(), Json{"LLaMAForCausalLM"}, Json{"MyLMHeadModel"}})
    BOOST_TEST(read(llama_like("llama", {{"architectures", names}})).language_head, names.dump());
  for (const char* name : {"LlamaForTokenClassification", "LlavaForConditionalGeneration", "LLaMAModel", ""})
    refused(llama_like("llama", {{"architectures", {name}}}), "architectures");
}

BOOST_AUTO_TEST_CASE(spellings_of_an_activation) {
  for (const char* name : {"gelu", "gelu_python"})
    BOOST_CHECK(read(llama_like("llama", {{"hidden_act", name}})).activation == Activation::gelu);
  for (const char* name : {"gelu_new", "gelu_fast", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_accurate"})
    BOOST_CHECK(read(llama_like("llama", {{"hidden_act", name}})).activation == Activation::gelu_new);
  const auto named = [](const char* name) { return read(llama_like("llama", {{"hidden_act", name}})).activation; };
  BOOST_CHECK(named("quick_gelu") == Activation::quick_gelu);
  BOOST_CHECK(named("relu2") == Activation::relu2);
  BOOST_CHECK(named("linear") == Activation::none);
  for (const char* name : {"gelu_10", "mish", "tanh"})
    refused(llama_like("llama", {{"hidden_act", name}}), "hidden_act");
}

BOOST_AUTO_TEST_CASE(norms_of_heads_of_cohere_have_two_dimensions) {
  const test::Scratch scratch;
  const Json config = llama_like("cohere", {{"use_qk_norm", true}, {"num_key_value_heads", 1}});
  test::make_model<Cohere>(scratch.folder(), config);
  ModelFiles files = load_checkpoint(scratch.folder());
  const ModelConfig c = Cohere::configure(*files.config);
  const DecoderSpec spec = Cohere::tensors(c);
  const TensorSource source(files, Cohere::name_prefix);
  BOOST_CHECK_NO_THROW(source.check(spec, c.tied_head));
  const auto* const keys = files.tensors->find("model.layers.1.self_attn.k_norm.weight");
  BOOST_REQUIRE(keys != nullptr);
  BOOST_TEST(keys->shape == (std::vector<std::uint64_t>{1, 12}), boost::test_tools::per_element());
  const auto read_gain = [&](const VectorSpec& gain) {
    std::vector<float> values(static_cast<std::size_t>(gain.shape.rows));
    source.read(gain, values.data());
    return values;
  };
  std::vector<float> stored(48);
  files.tensors->read(*files.tensors->find("model.layers.1.self_attn.q_norm.weight"), 0, 4, 0, 12, stored.data());
  // Neighbours are turned, so a head's even elements come first.
  const std::vector<float> gain = read_gain(spec.layers[1].query_norm.gain);
  for (std::size_t head = 0; head < 4; ++head) {
    for (std::size_t i = 0; i < 12; ++i) BOOST_TEST(gain[head * 12 + i] == stored[head * 12 + i % 6 * 2 + i / 6]);
  }
}

BOOST_AUTO_TEST_CASE(a_model_without_a_language_head_has_no_bias_of_it) {
  const auto has_bias = [](Json config, const std::string& architecture) {
    config["architectures"] = {architecture};
    return !AnyFamily<>::tensors(read(config)).head_bias.none();
  };
  BOOST_TEST(has_bias(llama_like("phi"), "PhiForCausalLM"));
  BOOST_TEST(!has_bias(llama_like("phi"), "PhiForSequenceClassification"));
  BOOST_TEST(has_bias(gptj_like("gptj"), "GPTJForCausalLM"));
  BOOST_TEST(!has_bias(gptj_like("gptj"), "GPTJForSequenceClassification"));
}

// AutoModel saves a model without lm_head, whether or not it is tied to the embedding.
BOOST_AUTO_TEST_CASE(a_bare_model_has_no_bias_of_the_head) {
  for (const bool tied : {false, true}) {
    const test::Scratch scratch;
    Json config =
        llama_like("phi", {{"architectures", {"PhiForSequenceClassification"}}, {"tie_word_embeddings", tied}});
    test::make_model<Phi>(scratch.folder(), config);
    config["architectures"] = {"PhiModel"};
    scratch.write("config.json", config.dump());
    const ModelConfig c = configure(load_checkpoint(scratch.folder()), family_of<Phi>);
    BOOST_TEST(!c.language_head);
    BOOST_TEST(c.tied_head);
    BOOST_TEST(Phi::tensors(c).head_bias.none());
  }
}

BOOST_AUTO_TEST_SUITE_END()
