#pragma once
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/experts.h"
#include "tenon/model/lfm2.h"

namespace tenon::detail {

inline constexpr int kMostTaps = 4096;  // positions whose inputs a thread holds

// The width of the MLP: intermediate_size is that of an MLP without a gate, unless block_auto_adjust_ff_dim is false.
TENON_INLINE int adjusted_inner(const Fields& fields, int inner) {
  if (!fields.flag("block_auto_adjust_ff_dim", true)) return inner;
  inner = static_cast<int>(2LL * inner / 3);
  if (fields.has("block_ffn_dim_multiplier") || !fields.json().contains("block_ffn_dim_multiplier")) {
    const int multiple = fields.positive_int("block_multiple_of", 256);
    const double scaled = fields.positive("block_ffn_dim_multiplier", 1) * inner;
    if (scaled + multiple > kLargestWidth) fields.refuse("block_ffn_dim_multiplier", "makes the MLP too wide");
    inner = (static_cast<int>(scaled) + multiple - 1) / multiple * multiple;
  }
  if (inner == 0) fields.refuse("intermediate_size", "is too small: the MLP has two thirds of it");
  return inner;
}

// Which layers have a convolution. Without layer_types, full_attn_idxs lists those with attention; without both, all
// have attention.
TENON_INLINE std::vector<bool> convolution_layers(const Fields& fields, int layers) {
  std::vector<bool> out = layers_of_kind(fields, layers, "conv");
  if (out.empty() && fields.has("full_attn_idxs")) {
    out.assign(static_cast<std::size_t>(layers), true);
    for (const int layer : fields.integers("full_attn_idxs", 0, kLargestWidth))
      if (layer < layers) out[static_cast<std::size_t>(layer)] = false;
  }
  if (std::find(out.begin(), out.end(), true) == out.end()) out.clear();
  return out;
}

// Reads the fields of the convolutions, and checks that their inputs fit the cache.
TENON_INLINE void read_convolutions(const Fields& fields, ModelConfig& c) {
  c.conv_layers = convolution_layers(fields, c.layers);
  if (c.conv_layers.empty()) return;
  c.conv_taps = fields.integer("conv_L_cache", 1, kMostTaps, 3);
  c.conv_bias = fields.boolean("conv_bias", false);
  if (std::find(c.conv_layers.begin(), c.conv_layers.end(), false) == c.conv_layers.end())
    fields.refuse("layer_types", "must have a full_attention layer, as in transformers");
  if (c.query_width() != c.hidden || c.heads % 2 != 0)
    fields.refuse("num_attention_heads",
                  "must be even, and heads together as wide as hidden_size, beside convolutions");
}

// The older name wins.
TENON_INLINE void read_tied_head(const Fields& fields, ModelConfig& c) {
  if (fields.json().contains("tie_embedding") && c.language_head) c.tied_head = fields.flag("tie_embedding", true);
}

// Rows of in_proj in the order [gates C, then the factors B and x]; it is stored [B, then C, then x].
TENON_INLINE DecoderSpec::Linear convolution_inputs(const ModelConfig& c, const std::string& name) {
  DecoderSpec::Linear out{{{3 * c.hidden, c.hidden}, {}}, {{c.conv_bias ? 3 * c.hidden : 0, 1}, {}}};
  for (const int third : {1, 0, 2}) {
    const auto part = [&](const char* suffix) {
      return TensorPart{.name = name + suffix,
                        .rows = c.hidden,
                        .first = third * c.hidden,
                        .block = c.hidden,
                        .stride = 3 * c.hidden,
                        .stored = 3 * c.hidden};
    };
    out.weight.parts.push_back(part(".weight"));
    if (c.conv_bias) out.bias.parts.push_back(part(".bias"));
  }
  return out;
}

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE ModelConfig Lfm2::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  const auto name_of = [&](const char* first, const char* usual) { return fields.has(first) ? first : usual; };
  ModelConfig c = configure_llama_like(file, model_type,
                                       {.layers = 32,
                                        .hidden = 2560,
                                        .heads = 32,
                                        .inner = 12288,
                                        .vocab = 65536,
                                        .positions = 128000,
                                        .kv_heads = 8,
                                        .tokens = {.bos = 1, .eos = 2, .pad = 0},
                                        .tied_head = true,
                                        .epsilon = 1e-5,
                                        .epsilon_name = "norm_eps",
                                        .inner_name = name_of("block_ff_dim", "intermediate_size"),
                                        .activation_name = nullptr,
                                        .rotary = {.theta = 1e6, .theta_name = name_of("theta", "rope_theta")}});
  check_architectures(fields, {"Lfm2ForCausalLM", "Lfm2Model"});
  detail::read_tied_head(fields, c);
  c.inner = detail::adjusted_inner(fields, c.inner);
  detail::read_convolutions(fields, c);
  return c;
}

TENON_INLINE ModelConfig Lfm2Moe::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c = configure_llama_like(file, model_type,
                                       {.layers = 32,
                                        .hidden = 2048,
                                        .heads = 32,
                                        .inner = 7168,
                                        .vocab = 65536,
                                        .positions = 128000,
                                        .kv_heads = 8,
                                        .tokens = {.bos = 1, .eos = 2, .pad = 0},
                                        .tied_head = true,
                                        .epsilon = 1e-5,
                                        .epsilon_name = "norm_eps",
                                        .activation_name = nullptr,
                                        .rotary = {.theta = 1e6}});
  check_architectures(fields, {"Lfm2MoeForCausalLM", "Lfm2MoeModel"});
  detail::read_tied_head(fields, c);
  if (!fields.has("layer_types")) fields.refuse("layer_types", "is missing, which transformers needs");
  detail::read_convolutions(fields, c);
  detail::read_experts(fields, {"num_experts"}, 32, 4, c);
  c.expert_inner = detail::expert_width(fields, "moe_intermediate_size", 1792);
  const int dense = fields.integer("num_dense_layers", 0, std::numeric_limits<int>::max(), 2);
  for (int l = 0; l < c.layers; ++l) c.dense_layers.push_back(l < dense);
  c.router_kind = fields.flag("norm_topk_prob", true) ? RouterKind::normalised_sigmoid : RouterKind::sigmoid;
  c.router_epsilon = 1e-6f;
  c.router_scale = static_cast<float>(fields.number("routed_scaling_factor", -1e9, 1e9, 1));
  c.choice_bias = fields.flag("use_expert_bias", true);
  return c;
}

TENON_INLINE DecoderSpec Lfm2::tensors(const ModelConfig& c) {
  DecoderSpec spec = llama_like_tensors(c);
  for (int l = 0; l < c.layers; ++l) {
    const std::string h = "layers." + std::to_string(l) + ".", attention = h + "self_attn.", mlp = h + "feed_forward.";
    DecoderSpec::Layer& layer = spec.layers[static_cast<std::size_t>(l)];
    layer.attention_norm = rms_norm_spec(h + "operator_norm", c.hidden);
    layer.mlp_norm = rms_norm_spec(h + "ffn_norm", c.hidden);
    layer.up = stacked_spec({{mlp + "w1", c.inner}, {mlp + "w3", c.inner}}, c.hidden, false);
    layer.down = linear_spec(mlp + "w2", {c.hidden, c.inner}, false);
    if (c.is_convolution(l)) {
      layer.qkv = detail::convolution_inputs(c, h + "conv.in_proj");
      layer.conv_weight = table_spec(h + "conv.conv.weight", {c.hidden, c.conv_taps});
      layer.conv_weight.parts.front().stacked = c.hidden;  // stored [hidden, 1, taps]
      if (c.conv_bias) layer.conv_bias = vector_spec(h + "conv.conv.bias", c.hidden);
      layer.attention_out = linear_spec(h + "conv.out_proj", {c.hidden, c.hidden}, c.conv_bias);
      continue;
    }
    layer.query_norm.gain = head_gain_spec(c, attention + "q_layernorm.weight", c.heads, false);
    layer.key_norm.gain = head_gain_spec(c, attention + "k_layernorm.weight", c.kv_heads, false);
    layer.attention_out = linear_spec(attention + "out_proj", {c.hidden, c.query_width()}, false);
  }
  spec.final_norm = rms_norm_spec("embedding_norm", c.hidden);
  return spec;
}

TENON_INLINE DecoderSpec Lfm2Moe::tensors(const ModelConfig& c) {
  DecoderSpec spec = Lfm2::tensors(c);
  detail::add_experts(c, {"feed_forward.", "gate", "w1", "w3", "w2", "expert_bias"}, spec);
  return spec;
}

}  // namespace tenon
