// Models in GGUF files. The test converts a model folder as convert_hf_to_gguf.py of llama.cpp does, by its formulas;
// what is read from the file must have the bits of the folder.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "../checkpoint/gguf_file.h"
#include "../io/scratch.h"
#include "gguf_conversion.h"
#include "made_model.h"
#include "tenon/device/thread_pool.h"
#include "tenon/io/json.h"
#include "tenon/model/any_family.h"
#include "tenon/model/bloom.h"
#include "tenon/model/files.h"
#include "tenon/model/gpt2.h"
#include "tenon/model/gpt_bigcode.h"
#include "tenon/model/llama.h"
#include "tenon/model/merge.h"
#include "tenon/model/quantize.h"
#include "tenon/model/tensor_source.h"
#include "tenon/testing/random_adapter.h"

BOOST_AUTO_TEST_SUITE(model_gguf)

using namespace tenon;
using namespace tenon::test;

namespace {

struct Converted {
  std::string name;  // in the folder, without prefix
  std::function<void(Tensor&)> change = [](Tensor&) {};
};
using Names = std::map<std::string, Converted>;  // by the stem in the file; # is the layer

// The folder's tensors under the names of GGUF.
GgufFile converted(const std::filesystem::path& folder, const Names& names, const nlohmann::json& metadata) {
  const Checkpoint source = Checkpoint::open(folder);
  GgufFile out;
  out.metadata = metadata;
  for (const TensorInfo& info : source.tensors()) {
    if (info.name == "of.no.use") continue;
    for (const auto& [stored, from] : names) {
      for (const std::string layer : {"0", "1"}) {
        const auto numbered = [&](std::string text) {
          if (const auto at = text.find('#'); at != text.npos) text.replace(at, 1, layer);
          return text;
        };
        const std::string suffix = info.name.substr(info.name.rfind('.'));
        if (info.name != numbered(from.name) + suffix) continue;
        std::uint64_t count = 1;
        for (const auto dim : info.shape) count *= dim;
        Tensor tensor{numbered(stored) + suffix, info.shape, std::vector<float>(count)};
        source.read_all(info, tensor.values.data());
        from.change(tensor);
        out.tensors.push_back(std::move(tensor));
        break;
      }
    }
  }
  return out;
}

Names llama_names(std::uint64_t heads, std::uint64_t kv_heads) {
  const std::string layer = "model.layers.#.";
  return {{"token_embd", {"model.embed_tokens"}},
          {"output_norm", {"model.norm"}},
          {"output", {"model.lm_head"}},
          {"blk.#.attn_norm", {layer + "input_layernorm"}},
          {"blk.#.attn_q", {layer + "self_attn.q_proj", [=](Tensor& t) { permute(t, heads); }}},
          {"blk.#.attn_k", {layer + "self_attn.k_proj", [=](Tensor& t) { permute(t, kv_heads); }}},
          {"blk.#.attn_v", {layer + "self_attn.v_proj"}},
          {"blk.#.attn_output", {layer + "self_attn.o_proj"}},
          {"blk.#.ffn_norm", {layer + "post_attention_layernorm"}},
          {"blk.#.ffn_gate", {layer + "mlp.gate_proj"}},
          {"blk.#.ffn_up", {layer + "mlp.up_proj"}},
          {"blk.#.ffn_down", {layer + "mlp.down_proj"}}};
}

Names gpt_names(bool transposed) {
  const auto change = [=](Tensor& t) {
    if (transposed && t.shape.size() == 2) transpose(t);
  };
  const std::string layer = "transformer.h.#.";
  return {{"token_embd", {"transformer.wte"}},
          {"position_embd", {"transformer.wpe"}},
          {"output_norm", {"transformer.ln_f"}},
          {"output", {"transformer.lm_head"}},
          {"blk.#.attn_norm", {layer + "ln_1"}},
          {"blk.#.attn_qkv", {layer + "attn.c_attn", change}},
          {"blk.#.attn_output", {layer + "attn.c_proj", change}},
          {"blk.#.ffn_norm", {layer + "ln_2"}},
          {"blk.#.ffn_up", {layer + "mlp.c_fc", change}},
          {"blk.#.ffn_down", {layer + "mlp.c_proj", change}}};
}

Names bloom_names(std::uint64_t heads) {
  const std::string layer = "transformer.h.#.";
  return {{"token_embd", {"transformer.word_embeddings"}},
          {"token_embd_norm", {"transformer.word_embeddings_layernorm"}},
          {"output_norm", {"transformer.ln_f"}},
          {"blk.#.attn_norm", {layer + "input_layernorm"}},
          {"blk.#.attn_qkv", {layer + "self_attention.query_key_value", [=](Tensor& t) { part(t, heads); }}},
          {"blk.#.attn_output", {layer + "self_attention.dense"}},
          {"blk.#.ffn_norm", {layer + "post_attention_layernorm"}},
          {"blk.#.ffn_up", {layer + "mlp.dense_h_to_4h"}},
          {"blk.#.ffn_down", {layer + "mlp.dense_4h_to_h"}}};
}

// The metadata of kSmallLlama.
const nlohmann::json kLlama = {{"general.architecture", "llama"},
                               {"llama.block_count", 2},
                               {"llama.context_length", 24},
                               {"llama.embedding_length", 45},
                               {"llama.feed_forward_length", 133},
                               {"llama.attention.head_count", 3},
                               {"llama.attention.head_count_kv", 1},
                               {"llama.attention.key_length", 6},
                               {"llama.attention.value_length", 6},
                               {"llama.rope.dimension_count", 6},
                               {"llama.attention.layer_norm_rms_epsilon", 1e-6f}};

GgufFile small_llama(const Scratch& scratch, const nlohmann::json& more = nlohmann::json::object()) {
  nlohmann::json config = test::kSmallLlama;
  config.update(more);
  test::make_model<Llama>(scratch / "folder", config);
  return converted(scratch / "folder", llama_names(3, 1), kLlama);
}

}  // namespace

BOOST_AUTO_TEST_CASE(llama) {
  for (const nlohmann::json& more : {nlohmann::json::object(), nlohmann::json{{"tie_word_embeddings", true}},
                                     nlohmann::json{{"attention_bias", true}, {"mlp_bias", true}}}) {
    const Scratch scratch;
    scratch.write("model.gguf", small_llama(scratch, more).bytes());
    same_model(family_of<Llama>, scratch / "folder", scratch / "model.gguf");
  }
}

BOOST_AUTO_TEST_CASE(gpt2) {
  const Scratch scratch;
  test::make_model<Gpt2>(scratch / "folder", test::kSmallGpt2);
  const nlohmann::json metadata = {{"general.architecture", "gpt2"},
                                   {"gpt2.block_count", 2},
                                   {"gpt2.context_length", 24},
                                   {"gpt2.embedding_length", 15},
                                   {"gpt2.feed_forward_length", 21},
                                   {"gpt2.attention.head_count", 3},
                                   {"gpt2.attention.layer_norm_epsilon", 1e-5f}};
  scratch.write("model.gguf", converted(scratch / "folder", gpt_names(true), metadata).bytes());
  same_model(family_of<Gpt2>, scratch / "folder", scratch / "model.gguf");
}

BOOST_AUTO_TEST_CASE(starcoder) {
  const Scratch scratch;
  nlohmann::json config = test::kSmallGptBigCode;
  config["multi_query"] = true;
  test::make_model<GptBigCode>(scratch / "folder", config);
  const nlohmann::json metadata = {
      {"general.architecture", "starcoder"},    {"starcoder.block_count", 2},
      {"starcoder.context_length", 24},         {"starcoder.embedding_length", 15},
      {"starcoder.feed_forward_length", 21},    {"starcoder.attention.head_count", 3},
      {"starcoder.attention.head_count_kv", 1}, {"starcoder.attention.layer_norm_epsilon", 1e-5f}};
  scratch.write("model.gguf", converted(scratch / "folder", gpt_names(false), metadata).bytes());
  same_model(family_of<GptBigCode>, scratch / "folder", scratch / "model.gguf");
}

BOOST_AUTO_TEST_CASE(bloom) {
  const Scratch scratch;
  test::make_model<Bloom>(scratch / "folder", test::kSmallBloom);
  const nlohmann::json metadata = {{"general.architecture", "bloom"},    {"bloom.block_count", 2},
                                   {"bloom.context_length", 2048},       {"bloom.embedding_length", 15},
                                   {"bloom.feed_forward_length", 60},    {"bloom.attention.head_count", 3},
                                   {"bloom.attention.head_count_kv", 3}, {"bloom.attention.layer_norm_epsilon", 1e-5f}};
  scratch.write("model.gguf", converted(scratch / "folder", bloom_names(3), metadata).bytes());
  same_model(family_of<Bloom>, scratch / "folder", scratch / "model.gguf");
}

// gguf_names.json has a config and gguf-py's names for each architecture (make_gguf_names.py).
BOOST_AUTO_TEST_CASE(further_architectures) {
  const Json all = Json::parse(read_text_file(TENON_SOURCE_DIR "/tests/model/gguf_names.json", 1 << 20));
  for (const auto& [architecture, each] : all.items()) {
    BOOST_TEST_CONTEXT(architecture) {
      const std::string name = architecture;
      const nlohmann::json config = converted_config(all, name);
      const Family& family = find_family(BuiltInModels{}, config["model_type"].get<std::string>());
      const Scratch scratch;
      test::make_model(family, scratch / "folder", config);
      const GgufFile file =
          renamed(scratch / "folder", std::string(family.name_prefix), all[name]["names"], name, config);
      scratch.write("model.gguf", file.bytes());
      same_model(family, scratch / "folder", scratch / "model.gguf");
    }
  }
}

// The decoder of a Qwen-VL is a Qwen for texts.
BOOST_AUTO_TEST_CASE(qwen_vl) {
  const Json all = Json::parse(read_text_file(TENON_SOURCE_DIR "/tests/model/gguf_names.json", 1 << 20));
  for (const std::string name : {"qwen2", "qwen3"}) {
    const nlohmann::json config = converted_config(all, name);
    const Family& family = find_family(BuiltInModels{}, name);
    const Scratch scratch;
    test::make_model(family, scratch / "folder", config);
    GgufFile file = renamed(scratch / "folder", std::string(family.name_prefix), all[name]["names"], name, config);
    nlohmann::json metadata = {{name + "vl.rope.dimension_sections", {1, 1, 0, 0}},
                               {name + "vl.n_deepstack_layers", 3}};
    for (const auto& [key, value] : file.metadata.items())
      metadata[key.starts_with(name + ".") ? name + "vl" + key.substr(name.size()) : key] = value;
    metadata["general.architecture"] = name + "vl";
    file.metadata = metadata;
    scratch.write("model.gguf", file.bytes());
    same_model(family, scratch / "folder", scratch / "model.gguf");
    // Its adapters have the names of the whole model.
    const ModelFiles files = load_checkpoint(scratch / "model.gguf");
    const AdapterSites sites = adapter_sites(tensors_of(family, configure(files, family)), family.name_prefix, files);
    BOOST_TEST(sites.sites.front().module.path == "model.language_model.layers.0.self_attn.q_proj");
    BOOST_TEST(sites.base.find("base_model.model.model.language_model.norm.weight") != nullptr);
    testing::write_adapter(scratch / "adapter", sites.sites, {.rank = 2});
    ThreadPool pool(1);
    const MergeReport merged = merge_checkpoint(scratch / "model.gguf", scratch / "adapter", scratch / "merged", pool);
    BOOST_TEST(static_cast<std::size_t>(merged.changed) == sites.sites.size());
  }
}

// Files of Mistral Small 3.1 have the architecture of Ministral 3, and neither its scaling nor its growth of queries.
BOOST_AUTO_TEST_CASE(mistral_small_3_1) {
  const Json all = Json::parse(read_text_file(TENON_SOURCE_DIR "/tests/model/gguf_names.json", 1 << 20));
  const std::string name = "mistral3";
  nlohmann::json config = converted_config(all, name);
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1000.0}, {"llama_4_scaling_beta", 0}};
  const Scratch scratch;
  test::make_model<Ministral3>(scratch / "folder", config);
  const GgufFile file = renamed(scratch / "folder", "model.", all[name]["names"], name, config);
  BOOST_TEST(!file.metadata.contains(name + ".rope.scaling.type"));
  scratch.write("model.gguf", file.bytes());
  same_model(family_of<Ministral3>, scratch / "folder", scratch / "model.gguf");
}

// Keys that few files have.
BOOST_AUTO_TEST_CASE(bounds_of_queries_and_the_base_of_gpt_neox) {
  const Json all = Json::parse(read_text_file(TENON_SOURCE_DIR "/tests/model/gguf_names.json", 1 << 20));
  const nlohmann::json changes = {
      {"olmo", {{"clip_qkv", 0.5}}},
      {"mpt", {{"attn_config", {{"clip_qkv", 0.5}}}}},
      {"gptneox", {{"rope_parameters", nullptr}, {"rotary_emb_base", 500.0}, {"rotary_pct", 0.5}}}};
  for (const auto& [name, change] : changes.items()) {
    nlohmann::json config = converted_config(all, name);
    config.merge_patch(change);  // null takes a field away
    const Family& family = find_family(BuiltInModels{}, config["model_type"].get<std::string>());
    const Scratch scratch;
    test::make_model(family, scratch / "folder", config);
    scratch.write(
        "model.gguf",
        renamed(scratch / "folder", std::string(family.name_prefix), all[name]["names"], name, config).bytes());
    same_model(family, scratch / "folder", scratch / "model.gguf");
    const ModelConfig read = family.configure(*load_checkpoint(scratch / "model.gguf").config);
    BOOST_TEST((name == "gptneox" ? read.rotary.theta == 500 : read.qkv_bound == 0.5f), name);
  }
}

// The folder that `tenon quantize` writes does not depend on which of the two the model came from.
BOOST_AUTO_TEST_CASE(quantized_folders_are_the_same) {
  const Scratch scratch;
  const GgufFile file = small_llama(scratch, {{"attention_bias", true}, {"tie_word_embeddings", true}});
  scratch.write("model.gguf", file.bytes());
  ThreadPool pool(1);
  for (const std::string format : {"int8", "int4", "bfloat16"}) {
    quantize_checkpoint(scratch / "folder", scratch / ("a" + format), format, pool);
    quantize_checkpoint(scratch / "model.gguf", scratch / ("b" + format), format, pool);
    const auto weights = [&](const std::string& folder) {
      return read_text_file(scratch / (folder + format) / "model.safetensors", 1 << 20);
    };
    BOOST_TEST((weights("a") == weights("b")), format);
    same_config(family_of<Llama>, load_checkpoint(scratch / "folder"), load_checkpoint(scratch / ("b" + format)));
  }
}

BOOST_AUTO_TEST_CASE(ends_of_texts_are_those_of_the_metadata) {
  const Scratch scratch;
  GgufFile file = small_llama(scratch);
  const auto config = [&] {
    scratch.write("model.gguf", file.bytes());
    return Llama::configure(*load_checkpoint(scratch / "model.gguf").config);
  };
  BOOST_TEST(config().eos.empty());  // not the default of the class: the converter writes the ids
  BOOST_TEST(!config().bos);
  file.metadata.update({{"tokenizer.ggml.bos_token_id", 1},
                        {"tokenizer.ggml.eos_token_id", 2},
                        {"tokenizer.ggml.eot_token_id", 5},
                        {"tokenizer.ggml.eom_token_id", 2}});
  BOOST_TEST((config().bos == 1));
  BOOST_TEST(config().eos == (std::vector<TokenId>{2, 5}));
}

BOOST_AUTO_TEST_CASE(rotary_scaling) {
  const Scratch scratch;
  GgufFile file = small_llama(scratch);
  const auto rotary = [&] {
    scratch.write("model.gguf", file.bytes());
    return Llama::configure(*load_checkpoint(scratch / "model.gguf").config).rotary;
  };
  const auto message = [&] { return refusal(rotary); };
  BOOST_TEST((rotary().scaling == RotaryScaling::none));
  file.metadata["llama.rope.freq_base"] = 500000.0f;
  BOOST_TEST(rotary().theta == 500000.0);
  // The factors that the converter writes for Llama 3.1; a head of 6 has frequencies 1, 1 / 79.4, 1 / 6300.
  file.tensors.push_back({"rope_freqs.weight", {3}, {1, 1, 8}});
  BOOST_TEST((rotary().scaling == RotaryScaling::llama3));
  BOOST_TEST(rotary().factor == 8.0);
  BOOST_TEST(rotary().trained_positions == 8192);
  file.at("rope_freqs.weight").values = {1, 1, 1};
  BOOST_TEST((rotary().scaling == RotaryScaling::none));
  file.at("rope_freqs.weight").values = {1, 2, 8};
  BOOST_TEST(mentions(message(), {"model.gguf: rope_freqs.weight", "Llama 3.1"}));
  file.at("rope_freqs.weight").shape = {1, 3};
  BOOST_TEST(mentions(message(), {"model.gguf: rope_freqs.weight", "[1, 3]"}));
  file.tensors.pop_back();
  file.metadata.update({{"llama.rope.scaling.type", "linear"}, {"llama.rope.scaling.factor", 4.0f}});
  BOOST_TEST((rotary().scaling == RotaryScaling::linear));
  BOOST_TEST(rotary().factor == 4.0);
  file.metadata["llama.rope.scaling.type"] = "none";
  BOOST_TEST((rotary().scaling == RotaryScaling::none));
  file.metadata["llama.rope.scaling.type"] = "longrope";
  BOOST_TEST(mentions(message(), {"model.gguf: llama.rope.scaling.type", "longrope"}));
}

BOOST_AUTO_TEST_CASE(wrong_models_are_refused) {
  const Scratch scratch;
  const GgufFile sound = small_llama(scratch);
  const auto refuses = [&](const std::function<void(GgufFile&)>& change, const std::vector<std::string>& words) {
    GgufFile file = sound;
    change(file);
    scratch.write("model.gguf", file.bytes());
    const std::string message = refusal([&] {
      const ModelFiles files = load_checkpoint(scratch / "model.gguf");
      const ModelConfig config = Llama::configure(*files.config);
      TensorSource(files, Llama::name_prefix).check(Llama::tensors(config), config.tied_head);
    });
    BOOST_TEST(mentions(message, words), message);
    BOOST_TEST(mentions(message, {"model.gguf"}), message);
  };
  const auto key = [](const char* name, const nlohmann::json& value) {
    return [=](GgufFile& file) { file.metadata[name] = value; };
  };
  const auto without = [](const char* name) { return [=](GgufFile& file) { file.metadata.erase(name); }; };
  refuses(key("general.architecture", "rwkv7"), {"general.architecture", "rwkv7", "llama"});
  refuses(without("general.architecture"), {"general.architecture"});
  refuses(without("llama.block_count"), {"llama.block_count"});
  refuses(without("llama.attention.head_count"), {"llama.attention.head_count"});
  refuses(key("llama.attention.head_count", 0), {"llama.attention.head_count"});
  refuses(key("llama.attention.head_count_kv", 4), {"llama.attention.head_count_kv"});
  refuses(key("llama.attention.value_length", 8), {"llama.attention.value_length", "key_length"});
  refuses(key("llama.rope.dimension_count", 4), {"llama.rope.dimension_count", "6"});
  refuses(key("llama.expert_count", 8), {"llama.expert_used_count", "missing"});
  refuses(key("llama.attention.sliding_window", 8), {"llama.attention.sliding_window", "not known"});
  refuses(key("llama.vocab_size", 38), {"llama.vocab_size", "37"});
  refuses(key("llama.vocab_size", "\xFF"), {"llama.vocab_size", "37"});
  refuses(key("tokenizer.chat_template", "\xFF"), {"tokenizer.chat_template", "UTF-8"});
  refuses(key("split.count", 2), {"split.no", "missing"});
  refuses(key("llama.pooling_type", 1), {"llama.pooling_type", "other than 0 and 3"});
  refuses(key("llama.attention.causal", false), {"llama.attention.causal", "false"});
  refuses(key("llama.block_count", 3), {"layers.2."});
  refuses([](GgufFile& file) { file.at("token_embd.weight").name = "token_embedding.weight"; }, {"token_embd.weight"});
  refuses([](GgufFile& file) { file.at("blk.0.attn_q.weight").name = "blk.0.attn_z.weight"; },
          {"blk.0.attn_z.weight", "no tensor of this name"});
  refuses(
      [](GgufFile& file) {
        file.tensors.push_back({"blk.1.attn_output.bias", {45}, std::vector<float>(45, 1.0f)});
      },
      {"blk.1.attn_output.bias", "may change the output"});
  refuses([](GgufFile& file) { file.at("blk.0.attn_q.weight").name = "blk.x.attn_q.weight"; }, {"blk.x.attn_q.weight"});
  refuses([](GgufFile& file) { file.at("blk.0.attn_q.weight").name = "blk.0.attn_q.scale"; }, {"blk.0.attn_q.scale"});
  refuses(
      [](GgufFile& file) {
        file.at("blk.0.attn_q.weight").shape = {45, 18};
      },
      {"blk.0.attn_q.weight", "[45, 18]", "[18, 45]"});
}

BOOST_AUTO_TEST_SUITE_END()
