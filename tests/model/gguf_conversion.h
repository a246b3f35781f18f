// Models in GGUF files: conversion by the formulas of convert_hf_to_gguf.py of llama.cpp, with gguf-py's names, and the
// comparison of two models.
#pragma once
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../checkpoint/gguf_file.h"
#include "../checkpoint/tensor_file.h"
#include "tenon/model/files.h"
#include "tenon/model/parts.h"
#include "tenon/model/tensor_source.h"

namespace tenon::test {

using Tensor = GgufFile::Tensor;

inline std::uint64_t cols_of(const Tensor& t) { return t.shape.size() == 2 ? t.shape[1] : 1; }

// LlamaModel.permute: reshape(heads, 2, rows / heads / 2, cols).swapaxes(1, 2)
inline void permute(Tensor& t, std::uint64_t heads) {
  const std::vector<float> old = t.values;
  const std::uint64_t half = t.shape[0] / heads / 2, cols = cols_of(t);
  std::size_t out = 0;
  for (std::uint64_t h = 0; h < heads; ++h)
    for (std::uint64_t i = 0; i < half; ++i)
      for (std::uint64_t j = 0; j < 2; ++j)
        for (std::uint64_t c = 0; c < cols; ++c) t.values[out++] = old[((h * 2 + j) * half + i) * cols + c];
}

// GPT2Model: data_torch.transpose(1, 0)
inline void transpose(Tensor& t) {
  const std::vector<float> old = t.values;
  const std::uint64_t rows = t.shape[0], cols = t.shape[1];
  for (std::uint64_t r = 0; r < rows; ++r)
    for (std::uint64_t c = 0; c < cols; ++c) t.values[c * rows + r] = old[r * cols + c];
  std::swap(t.shape[0], t.shape[1]);
}

// BloomModel: qkv.reshape(heads, 3, width / heads, cols), then all [:, 0], all [:, 1] and all [:, 2]
inline void part(Tensor& t, std::uint64_t heads) {
  const std::vector<float> old = t.values;
  const std::uint64_t run = t.shape[0] / heads / 3 * cols_of(t);
  std::size_t out = 0;
  for (std::uint64_t which = 0; which < 3; ++which)
    for (std::uint64_t h = 0; h < heads; ++h)
      for (std::uint64_t i = 0; i < run; ++i) t.values[out++] = old[(h * 3 + which) * run + i];
}

inline std::uint64_t heads_of(const nlohmann::json& config) {
  return config[config.contains("num_attention_heads") ? "num_attention_heads" : "n_heads"];
}

// The configuration of an architecture in gguf_names.json, `all`, as keys of GGUF can say it.
inline nlohmann::json converted_config(const nlohmann::json& all, const std::string& architecture) {
  nlohmann::json config = all[architecture]["config"];
  config["query_pre_attn_scalar"] = 16;  // the width of a head
  // The architecture gives the windows: five of six layers of Gemma 3, three of four of Command R7B, none of
  // StarCoder2.
  if (architecture == "gemma3" || architecture == "cohere2") config.erase("layer_types");
  if (architecture == "starcoder2") config["sliding_window"] = nullptr;
  if (architecture == "arcee") config.erase("rope_scaling");
  return config;
}

// Keys below the architecture, and the fields of config.json whose values they have.
inline constexpr std::pair<const char*, const char*> kCopiedFields[] = {
    {"block_count", "num_hidden_layers"},
    {"context_length", "max_position_embeddings"},
    {"embedding_length", "hidden_size"},
    {"feed_forward_length", "intermediate_size"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {"attention.layer_norm_epsilon", "layer_norm_eps"},
    {"attention.layer_norm_epsilon", "norm_epsilon"},
    {"attention.layer_norm_epsilon", "norm_eps"},
    {"attention.clamp_kqv", "clip_qkv"},
    {"attention.layer_norm_epsilon", "layer_norm_epsilon"},
    {"block_count", "n_layers"},
    {"context_length", "max_seq_len"},
    {"embedding_length", "d_model"},
    {"feed_forward_length", "ffn_hidden_size"},
    {"attention.head_count", "n_heads"},
    {"rope.scaling.original_context_length", "original_max_position_embeddings"},
    {"attn_logit_softcapping", "attn_logit_softcapping"},
    {"final_logit_softcapping", "final_logit_softcapping"},
    {"use_parallel_residual", "use_parallel_residual"},
    {"logit_scale", "logit_scale"},
    {"logit_scale", "logits_scaling"},
    {"attention.scale", "attention_multiplier"},
    {"embedding_scale", "embedding_multiplier"},
    {"residual_scale", "residual_multiplier"}};

// Metadata as the converter writes it for a config.json of transformers.
inline nlohmann::json metadata_of(const std::string& architecture, const nlohmann::json& config) {
  nlohmann::json out = {{"general.architecture", architecture}};
  const auto rope = config.value("rope_parameters", nlohmann::json::object());
  const auto global = rope.value("full_attention", rope);
  const std::uint64_t heads = heads_of(config),
                      width = config[config.contains("hidden_size") ? "hidden_size" : "d_model"];
  const std::uint64_t head_dim = config.value("head_dim", width / heads);
  const auto set = [&](const char* key, const nlohmann::json& value) { out[architecture + "." + key] = value; };
  const auto copy = [&](const char* key, const char* field) {
    if (config.contains(field) && !config[field].is_null()) set(key, config[field]);
  };
  for (const auto& [key, field] : kCopiedFields) copy(key, field);
  if (architecture == "olmo") set("attention.layer_norm_epsilon", 1e-5);
  if (architecture == "lfm2") {  // a number of heads for each layer, and the width of the MLP as it is
    out.erase(architecture + ".attention.layer_norm_epsilon");
    set("attention.layer_norm_rms_epsilon", config["norm_eps"]);
    set("shortconv.l_cache", config["conv_L_cache"]);
    nlohmann::json counts = nlohmann::json::array();
    for (const auto& type : config["layer_types"])
      counts.push_back(type == "conv" ? nlohmann::json(0) : config["num_key_value_heads"]);
    set("attention.head_count_kv", counts);
  }
  if (architecture == "falcon") set("attention.head_count_kv", 1), set("tensor_data_layout", "jploski");
  if (architecture == "mpt") {
    set("feed_forward_length", 4 * width), set("attention.max_alibi_bias", 8.0);
    const auto clip = config.value("attn_config", nlohmann::json::object()).value("clip_qkv", nlohmann::json());
    if (!clip.is_null()) set("attention.clamp_kqv", clip);
    return out;
  }
  if (architecture.starts_with("gemma") || architecture == "cohere2")
    copy("attention.sliding_window", "sliding_window");
  set("rope.freq_base",
      global.value("rope_theta", config.value("rope_theta", config.value("rotary_emb_base", 10000.0))));
  const double part =
      global.value("partial_rotary_factor", config.value("partial_rotary_factor", config.value("rotary_pct", 1.0)));
  const double turned = static_cast<double>(head_dim) * part;
  set("rope.dimension_count", static_cast<std::uint64_t>(turned));
  if (head_dim != width / heads) set("attention.key_length", head_dim), set("attention.value_length", head_dim);
  const auto scaling = config.value("rope_scaling", global);
  if (!scaling.is_object() || !scaling.contains("factor")) return out;
  if (architecture == "hunyuan-dense") {  // HunYuanModel.set_gguf_parameters
    const double base = config["rope_theta"], alpha = scaling["alpha"], dim = static_cast<double>(head_dim);
    set("rope.freq_base", base * std::pow(alpha, dim / (dim - 2)));
    return out;
  }
  set("rope.scaling.type", "linear"), set("rope.scaling.factor", scaling["factor"]);
  if (architecture == "mistral3") {  // TextModel.set_gguf_parameters and Ministral3Model.set_gguf_parameters
    set("rope.scaling.type", "yarn");
    for (const auto& [key, field] :
         {std::pair("rope.scaling.original_context_length", "original_max_position_embeddings"),
          {"rope.scaling.yarn_beta_fast", "beta_fast"},
          {"rope.scaling.yarn_beta_slow", "beta_slow"},
          {"rope.scaling.yarn_log_multiplier", "mscale_all_dim"},
          {"attention.temperature_scale", "llama_4_scaling_beta"}})
      set(key, scaling[field]);
  }
  return out;
}

// Norms of Gemma: multiples of 2^-10, so that the sum with 1 is exact. The folder gets them, too.
inline void add_one(Tensor& tensor, TensorFile::Tensor& from) {
  for (std::size_t i = 0; i < tensor.values.size(); ++i) {
    const float exact = std::round(tensor.values[i] * 1024) / 1024;
    from.put(i, exact);
    tensor.values[i] = exact + 1;
  }
}

// The folder's tensors under gguf-py's names, changed as the converter changes those of the architecture.
inline GgufFile renamed(const std::filesystem::path& folder, const std::string& prefix, const nlohmann::json& names,
                        const std::string& architecture, const nlohmann::json& config) {
  const std::uint64_t heads = heads_of(config);
  const std::uint64_t kv_heads = config.value("num_key_value_heads", heads);
  const std::set<std::string> permuted = {"llama", "smollm3", "granite", "olmo", "arcee", "mistral3"};
  TensorFile source;
  source.read(folder / "model.safetensors");
  GgufFile out;
  out.metadata = metadata_of(architecture, config);
  for (auto& [name, from] : source.tensors) {
    if (name == "of.no.use") continue;
    const std::string without = name.substr(name.starts_with(prefix) ? prefix.size() : 0);
    const std::string key = names.contains(name) ? name : without;
    BOOST_TEST_REQUIRE(names.contains(key), name);
    Tensor tensor{names[key].get<std::string>(), from.shape, std::vector<float>(from.bytes.size() / sizeof(float))};
    std::memcpy(tensor.values.data(), from.bytes.data(), from.bytes.size());
    const auto is = [&](const char* part_of_name) { return tensor.name.find(part_of_name) != std::string::npos; };
    if (permuted.contains(architecture) && is("attn_q.")) permute(tensor, heads);
    if (permuted.contains(architecture) && is("attn_k.")) permute(tensor, kv_heads);
    if (is("shortconv.conv")) tensor.shape.erase(tensor.shape.begin() + 1);  // squeeze(1)
    if (architecture == "gptneox" && is("attn_qkv.")) part(tensor, heads);
    const bool adds_one = architecture.starts_with("gemma") || architecture == "nemotron";
    if (adds_one && is("norm.weight")) add_one(tensor, from);
    out.tensors.push_back(std::move(tensor));
  }
  source.write(folder / "model.safetensors");
  if (architecture != "phi3") return out;
  const auto factors = [&](const char* name) { return config["rope_parameters"][name].get<std::vector<float>>(); };
  out.tensors.push_back({"rope_factors_short.weight", {8}, factors("short_factor")});
  out.tensors.push_back({"rope_factors_long.weight", {8}, factors("long_factor")});
  return out;
}

// The sizes with which a step computes.
inline void same_arithmetic(const ModelConfig& a, const ModelConfig& b) {
  BOOST_TEST((a.norm_kind == b.norm_kind && a.position_kind == b.position_kind && a.mlp_kind == b.mlp_kind));
  BOOST_TEST((a.parallel_residual == b.parallel_residual && a.output_norms == b.output_norms));
  BOOST_TEST((a.norms_all_heads == b.norms_all_heads && a.head_norms == b.head_norms && a.qkv_bias == b.qkv_bias));
  BOOST_TEST((a.embedding_scale == b.embedding_scale && a.residual_scale == b.residual_scale));
  BOOST_TEST((a.logit_scale == b.logit_scale && a.attention_scale == b.attention_scale));
  BOOST_TEST(a.qkv_bound == b.qkv_bound);
  BOOST_TEST((a.conv_layers == b.conv_layers && a.conv_taps == b.conv_taps && a.conv_bias == b.conv_bias));
  BOOST_TEST(a.norms_after_rotation == b.norms_after_rotation);
  BOOST_TEST((a.query_growth == b.query_growth && a.query_period == b.query_period));
  BOOST_TEST((a.logit_soft_cap == b.logit_soft_cap && a.attention_soft_cap == b.attention_soft_cap));
  BOOST_TEST((a.window == b.window && a.windows == b.windows && a.rotations == b.rotations));
  for (const auto& [x, y] : {std::pair(a.rotary, b.rotary), std::pair(a.local_rotary, b.local_rotary)}) {
    BOOST_TEST((x.scaling == y.scaling && x.factor == y.factor && x.width == y.width));
    // HunYuan's is a power, which GGUF has in float32.
    BOOST_TEST(
        (a.norms_after_rotation ? static_cast<float>(x.theta) == static_cast<float>(y.theta) : x.theta == y.theta));
    BOOST_TEST((x.neighbours == y.neighbours && x.angle_scale == y.angle_scale));
    BOOST_TEST((x.short_factors == y.short_factors && x.long_factors == y.long_factors));
  }
}

inline void same_config(const Family& family, const ModelFiles& wanted, const ModelFiles& found) {
  const ModelConfig a = family.configure(*wanted.config), b = family.configure(*found.config);
  BOOST_TEST_REQUIRE((a.layers == b.layers && a.hidden == b.hidden && a.heads == b.heads && a.kv_heads == b.kv_heads));
  BOOST_TEST_REQUIRE((a.head_dim == b.head_dim && a.inner == b.inner && a.vocab == b.vocab));
  BOOST_TEST((a.positions == b.positions && a.norm_epsilon == b.norm_epsilon && a.tied_head == b.tied_head));
  BOOST_TEST((a.activation == b.activation && a.interleaved_qkv == b.interleaved_qkv));
  BOOST_TEST((a.attention_bias == b.attention_bias && a.mlp_bias == b.mlp_bias));
  same_arithmetic(a, b);
}

// Compares the model of the file with that of the folder, tensor by tensor.
inline void same_model(const Family& family, const std::filesystem::path& folder, const std::filesystem::path& file) {
  const ModelFiles wanted = load_checkpoint(folder), found = load_checkpoint(file);
  same_config(family, wanted, found);
  const ModelConfig a = family.configure(*wanted.config);
  const DecoderSpec spec = family.tensors(a);
  const TensorSource one(wanted, family.name_prefix), other(found, family.name_prefix);
  other.check(spec, a.tied_head);
  BOOST_TEST(other.unused(spec, a.tied_head).empty());
  const auto same = [](const auto& part, const std::vector<float>& x, const std::vector<float>& y) {
    const std::string name = part.parts.empty() ? "" : part.parts.front().name;
    BOOST_TEST(std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0, name);
    return 0;
  };
  const auto size = [](Shape shape) {
    return static_cast<std::size_t>(shape.rows) * static_cast<std::size_t>(shape.cols);
  };
  const auto matrix = [&](const MatrixSpec& m) {
    std::vector<float> x(size(m.shape)), y(x.size());
    one.read(m, 0, m.shape.rows, x.data());
    for (int row = 0; row < m.shape.rows; row += 5)  // blocks of rows, as they are loaded
      other.read(m, row, std::min(5, m.shape.rows - row), y.data() + static_cast<std::ptrdiff_t>(row) * m.shape.cols);
    same(m, x, y);
  };
  const auto vector = [&](const VectorSpec& v) {
    std::vector<float> x(size(v.shape)), y(x.size());
    one.read(v, x.data());
    other.read(v, y.data());
    same(v, x, y);
  };
  visit_parts(spec, a.tied_head, {matrix, matrix, vector});
}

}  // namespace tenon::test
