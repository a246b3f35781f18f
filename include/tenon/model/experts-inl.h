#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/experts.h"
#include "tenon/model/granite.h"

namespace tenon {

namespace detail {

inline constexpr int kMostExperts = 4096;  // in a layer
inline constexpr ExpertNames kExpertNames{"mlp.", "gate", "gate_proj", "up_proj", "down_proj"};

TENON_INLINE void read_experts(const Fields& fields, std::initializer_list<const char*> names, int fallback, int chosen,
                               ModelConfig& c, std::initializer_list<const char*> chosen_names) {
  const std::string name = one_name(fields, names);
  c.experts = fields.integer(name, 1, kMostExperts, fallback);
  if (std::int64_t{c.experts} * std::max(2 * c.inner, c.hidden) > std::numeric_limits<int>::max())
    fields.refuse(name, "makes matrices of more rows than 2^31");
  c.experts_chosen = fields.integer(one_name(fields, chosen_names), 1, c.experts, std::min(chosen, c.experts));
  c.expert_inner = c.inner;
  c.expert_gate.activation = c.activation;
}

TENON_INLINE int expert_width(const Fields& fields, const char* name, int fallback) {
  return fields.json().contains(name) ? width_field(fields, name) : fallback;
}

TENON_INLINE RouterKind router_kind(const Fields& fields) {
  return fields.boolean("norm_topk_prob", false) ? RouterKind::normalised : RouterKind::softmax;
}

// Sets dense_layers as Qwen's classes do.
TENON_INLINE void read_sparse_layers(const Fields& fields, ModelConfig& c) {
  const int step = fields.positive_int("decoder_sparse_step", 1);
  for (int l = 0; l < c.layers; ++l) c.dense_layers.push_back((l + 1) % step != 0);
  if (!fields.has("mlp_only_layers")) return;
  for (const int layer : fields.integers("mlp_only_layers", 0, c.layers - 1))
    c.dense_layers[static_cast<std::size_t>(layer)] = true;
}

// The gated MLP whose three matrices begin with `name`.
TENON_INLINE DecoderSpec::Expert expert_spec(const ModelConfig& c, const std::string& name, const ExpertNames& names,
                                             int inner) {
  return {stacked_spec({{name + names.gate, inner}, {name + names.up, inner}}, c.hidden, c.mlp_bias),
          linear_spec(name + names.down, {c.hidden, inner}, c.mlp_bias)};
}

TENON_INLINE void add_experts(const ModelConfig& c, const ExpertNames& names, DecoderSpec& spec) {
  for (int l = 0; l < c.layers; ++l) {
    if (!c.is_mixture(l)) continue;
    auto& layer = spec.layers[static_cast<std::size_t>(l)];
    layer.up = layer.down = {};
    const std::string mixture = "layers." + std::to_string(l) + "." + names.mixture;
    layer.router = table_spec(mixture + names.router + ".weight", {c.experts, c.hidden});
    for (int e = 0; e < c.experts; ++e)
      layer.experts.push_back(expert_spec(c, mixture + "experts." + std::to_string(e) + ".", names, c.expert_inner));
    if (c.choice_bias)
      layer.choice_bias = names.bias_is_row ? table_spec(mixture + names.choice_bias, {1, c.experts})
                                            : vector_spec(mixture + names.choice_bias, c.experts);
    if (c.shared_inner > 0) {
      const auto shared = expert_spec(c, mixture + names.shared, names, c.shared_inner);
      layer.up = shared.up, layer.down = shared.down;
    }
    if (names.shared_gate) layer.shared_gate = table_spec(mixture + names.shared_gate, {1, c.hidden});
  }
}

// The tensors of Llama, with experts instead of the MLPs of mixtures.
TENON_INLINE DecoderSpec with_experts(const ModelConfig& c, const ExpertNames& names) {
  DecoderSpec spec = llama_like_tensors(c);
  add_experts(c, names, spec);
  return spec;
}

}  // namespace detail

TENON_INLINE ModelConfig Mixtral::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c = configure_llama_like(file, model_type,
                                       {.positions = 4096 * 32,
                                        .kv_heads = 8,
                                        .tokens = {.bos = 1, .eos = 2},
                                        .epsilon = 1e-5,
                                        .rotary = {.theta = 1e6}});
  check_architectures(fields, {"MixtralForCausalLM", "MixtralModel"});
  if (fields.has("sliding_window")) c.window = fields.positive_int("sliding_window");
  detail::read_experts(fields, {"num_local_experts", "num_experts"}, 8, 2, c);
  c.router_kind = RouterKind::normalised;
  return c;
}

TENON_INLINE DecoderSpec Mixtral::tensors(const ModelConfig& c) {
  return detail::with_experts(c, {"block_sparse_moe.", "gate", "w1", "w3", "w2"});
}

TENON_INLINE ModelConfig OlMoE::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c =
      configure_llama_like(file, model_type, {.positions = 4096, .tokens = {.eos = 50279, .pad = 1}, .epsilon = 1e-5});
  check_architectures(fields, {"OlmoeForCausalLM", "OlmoeModel"});
  refuse_window(fields, c);
  c.attention_bias = fields.boolean("attention_bias", false);
  if (fields.has("clip_qkv")) c.qkv_bound = static_cast<float>(fields.positive("clip_qkv"));
  detail::read_experts(fields, {"num_experts", "num_local_experts"}, 64, 8, c);
  c.router_kind = detail::router_kind(fields);
  c.norms_all_heads = true;
  return c;
}

TENON_INLINE DecoderSpec OlMoE::tensors(const ModelConfig& c) {
  DecoderSpec spec = detail::with_experts(c, detail::kExpertNames);
  add_head_gains(c, true, spec);
  return spec;
}

TENON_INLINE ModelConfig Qwen2Moe::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c = configure_llama_like(file, model_type, {.positions = 32768, .kv_heads = 16});
  check_architectures(fields, {"Qwen2MoeForCausalLM", "Qwen2MoeModel"});
  c.qkv_bias = fields.flag("qkv_bias", true);
  const bool windows = fields.boolean("use_sliding_window", false);
  if (windows && !fields.has("layer_types"))
    fields.refuse("use_sliding_window",
                  "true needs layer_types: without it, transformers gives one answer with a cache and another without");
  read_windows(
      fields, windows ? window_field(fields, 4096) : 0, [](int) { return false; }, c);
  detail::read_experts(fields, {"num_experts"}, 60, 4, c);
  c.expert_inner = detail::expert_width(fields, "moe_intermediate_size", 1408);
  c.shared_inner = detail::expert_width(fields, "shared_expert_intermediate_size", 5632);
  c.router_kind = detail::router_kind(fields);
  detail::read_sparse_layers(fields, c);
  return c;
}

TENON_INLINE DecoderSpec Qwen2Moe::tensors(const ModelConfig& c) {
  detail::ExpertNames names = detail::kExpertNames;
  names.shared = "shared_expert.", names.shared_gate = "shared_expert_gate.weight";
  return detail::with_experts(c, names);
}

TENON_INLINE ModelConfig Qwen3Moe::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c = configure_llama_like(file, model_type, {.positions = 32768, .kv_heads = 4});
  check_architectures(fields, {"Qwen3MoeForCausalLM", "Qwen3MoeModel"});
  c.attention_bias = fields.boolean("attention_bias", false);
  if (fields.boolean("use_sliding_window", false)) c.window = window_field(fields, 4096);
  detail::read_experts(fields, {"num_experts", "num_local_experts"}, 128, 8, c);
  if (fields.has("moe_intermediate_size"))
    c.expert_inner = width_field(fields, "moe_intermediate_size");
  else if (!fields.json().contains("moe_intermediate_size"))
    c.expert_inner = 768;  // null: intermediate_size
  c.router_kind = detail::router_kind(fields);
  detail::read_sparse_layers(fields, c);
  return c;
}

TENON_INLINE DecoderSpec Qwen3Moe::tensors(const ModelConfig& c) {
  DecoderSpec spec = detail::with_experts(c, detail::kExpertNames);
  add_head_gains(c, false, spec);
  return spec;
}

TENON_INLINE ModelConfig GraniteMoe::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c = configure_llama_like(file, model_type, {.tokens = {.bos = 1, .eos = 2}});
  check_architectures(fields, {"GraniteMoeForCausalLM", "GraniteMoeModel"});
  refuse_window(fields, c);
  detail::read_multipliers(fields, c);
  const char* const kind = fields.json().contains("position_embedding_type") ? "" : "rope";  // null turns nothing
  if (fields.string("position_embedding_type", kind) != "rope")
    c.rotations.assign(static_cast<std::size_t>(c.layers), Rotation::none);
  detail::read_experts(fields, {"num_local_experts"}, 8, 2, c);
  c.router_kind = RouterKind::chosen_softmax;
  return c;
}

TENON_INLINE DecoderSpec GraniteMoe::tensors(const ModelConfig& c) {
  DecoderSpec spec = Granite::tensors(c);
  for (int l = 0; l < c.layers; ++l) {
    auto& layer = spec.layers[static_cast<std::size_t>(l)];
    layer.up = layer.down = {};
    const std::string mixture = "layers." + std::to_string(l) + ".block_sparse_moe.";
    layer.router = table_spec(mixture + "router.layer.weight", {c.experts, c.hidden});
    // The rows of one expert in the tensor of all, those of gate before those of up.
    const auto of_expert = [&](const char* name, int expert, int rows, int columns) -> MatrixSpec {
      return {{rows, columns},
              {{.name = mixture + name + ".weight",
                .rows = rows,
                .first = expert * rows,
                .stored = c.experts * rows,
                .stacked = c.experts,
                .is_stack = true}}};
    };
    for (int e = 0; e < c.experts; ++e)
      layer.experts.push_back({{of_expert("input_linear", e, 2 * c.expert_inner, c.hidden), {}},
                               {of_expert("output_linear", e, c.hidden, c.expert_inner), {}}});
  }
  return spec;
}

namespace detail {

// The class has yarn where the file has no field for the scaling.
TENON_INLINE void read_gpt_oss_rotary(const Fields& fields, ModelConfig& c) {
  const RotaryDefaults defaults{.theta = 150000};
  if (fields.json().contains("rope_scaling") || fields.json().contains("rope_parameters")) {
    c.rotary = rotary_fields(fields, c.head_dim, c.positions, defaults);
    return;
  }
  const Json usual = {
      {"rope_type", "yarn"}, {"factor", 32.0}, {"truncate", false}, {"original_max_position_embeddings", 4096}};
  const Fields scaling(usual, fields.file(), "rope_scaling");
  c.rotary = rotary_scaling(fields, &scaling, c.head_dim, c.positions, defaults);
}

}  // namespace detail

TENON_INLINE ModelConfig GptOss::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c = configure_llama_like(
      file, model_type, {.positions = 131072, .kv_heads = 8, .head_dim = 64, .epsilon = 1e-5, .reads_rotary = false});
  detail::read_gpt_oss_rotary(fields, c);
  check_architectures(fields, {"GptOssForCausalLM", "GptOssModel"});
  c.attention_bias = fields.flag("attention_bias", true);
  read_windows(
      fields, window_field(fields, 128), [](int layer) { return layer % 2 == 0; }, c, true);
  detail::read_experts(fields, {"num_local_experts", "num_experts"}, 128, 4, c);
  c.router_kind = RouterKind::chosen_softmax;
  c.expert_gate = {Activation::silu, static_cast<float>(fields.positive("swiglu_limit", 7.0)),
                   static_cast<float>(fields.positive("swiglu_alpha", 1.702))};
  return c;
}

TENON_INLINE DecoderSpec GptOss::tensors(const ModelConfig& c) {
  DecoderSpec spec = llama_like_tensors(c);
  for (int l = 0; l < c.layers; ++l) {
    auto& layer = spec.layers[static_cast<std::size_t>(l)];
    layer.up = layer.down = {};
    const std::string h = "layers." + std::to_string(l) + ".", experts = h + "mlp.experts.", router = h + "mlp.router.";
    layer.sinks = vector_spec(h + "self_attn.sinks", c.heads);
    layer.router = table_spec(router + "weight", {c.experts, c.hidden});
    layer.router_bias = vector_spec(router + "bias", c.experts);
    const int both = 2 * c.expert_inner;
    // Rows of an expert in a tensor of all experts; every second row where gate and up alternate.
    const auto part = [&](const std::string& name, int first, int rows, int each, bool matrix) -> TensorPart {
      const bool alternate = each != rows;
      return {.name = experts + name,
              .rows = rows,
              .transposed = matrix,
              .first = first,
              .block = alternate ? 1 : 0,
              .stride = alternate ? 2 : 0,
              .stored = c.experts * each,
              .stacked = c.experts,
              .is_stack = true};
    };
    const auto gate_and_up = [&](const std::string& name, int expert, bool matrix) -> std::vector<TensorPart> {
      return {part(name, expert * both, c.expert_inner, both, matrix),
              part(name, expert * both + 1, c.expert_inner, both, matrix)};
    };
    for (int e = 0; e < c.experts; ++e) {
      layer.experts.push_back(
          {{{{both, c.hidden}, gate_and_up("gate_up_proj", e, true)},
            {{both, 1}, gate_and_up("gate_up_proj_bias", e, false)}},
           {{{c.hidden, c.expert_inner}, {part("down_proj", e * c.hidden, c.hidden, c.hidden, true)}},
            {{c.hidden, 1}, {part("down_proj_bias", e * c.hidden, c.hidden, c.hidden, false)}}}});
    }
  }
  return spec;
}

}  // namespace tenon
