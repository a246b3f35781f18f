#pragma once
#include <string>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/phi.h"

namespace tenon {

TENON_INLINE ModelConfig Phi::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c = configure_llama_like(file, model_type,
                                       {.tokens = {.bos = 1, .eos = 2},
                                        .epsilon = 1e-5,
                                        .epsilon_name = "layer_norm_eps",
                                        .activation = "gelu_new",
                                        .rotary = {.part = 0.5, .reads_part = true}});
  check_architectures(fields, {"PhiForCausalLM", "PhiModel"});
  refuse_window(fields, c);
  c.norm_kind = NormKind::layer;
  c.mlp_kind = MlpKind::plain;
  c.parallel_residual = c.attention_bias = true;
  c.head_norms = fields.boolean("qk_layernorm", false);
  return c;
}

TENON_INLINE DecoderSpec Phi::tensors(const ModelConfig& c) {
  DecoderSpec spec;
  spec.embedding = matrix_spec("embed_tokens.weight", {c.vocab, c.hidden});
  for (int l = 0; l < c.layers; ++l) {
    const std::string h = "layers." + std::to_string(l) + ".", attention = h + "self_attn.";
    DecoderSpec::Layer layer{
        .attention_norm = layer_norm_spec(h + "input_layernorm", c.hidden),
        .qkv = separate_heads_spec(c, attention + "q_proj", attention + "k_proj", attention + "v_proj", true),
        .attention_out = linear_spec(attention + "dense", {c.hidden, c.query_width()}, true),
        .up = linear_spec(h + "mlp.fc1", {c.inner, c.hidden}, true),
        .down = linear_spec(h + "mlp.fc2", {c.hidden, c.inner}, true)};
    if (c.head_norms) {
      layer.query_norm = {head_gain_spec(c, attention + "q_layernorm.weight", c.heads, false),
                          head_gain_spec(c, attention + "q_layernorm.bias", c.heads, false)};
      layer.key_norm = {head_gain_spec(c, attention + "k_layernorm.weight", c.kv_heads, false),
                        head_gain_spec(c, attention + "k_layernorm.bias", c.kv_heads, false)};
    }
    spec.layers.push_back(std::move(layer));
  }
  spec.final_norm = layer_norm_spec("final_layernorm", c.hidden);
  if (!c.tied_head) spec.head = matrix_spec("lm_head.weight", {c.vocab, c.hidden});
  if (c.language_head) spec.head_bias = vector_spec("lm_head.bias", c.vocab);
  return spec;
}

TENON_INLINE ModelConfig Phi3::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c =
      configure_llama_like(file, model_type,
                           {.positions = 4096,
                            .tokens = {.bos = 1, .eos = 32000, .pad = 32000},
                            .epsilon = 1e-5,
                            .rotary = {.reads_part = true, .trained_positions = 4096, .old_longrope_names = true}});
  check_architectures(fields, {"Phi3ForCausalLM", "Phi3Model"});
  if (fields.has("sliding_window")) c.window = fields.positive_int("sliding_window");
  return c;
}

TENON_INLINE DecoderSpec Phi3::tensors(const ModelConfig& c) {
  DecoderSpec spec = llama_like_tensors(c);
  for (int l = 0; l < c.layers; ++l) {
    const std::string h = "layers." + std::to_string(l) + ".";
    auto& layer = spec.layers[static_cast<std::size_t>(l)];
    layer.qkv = heads_spec(c, false, [&](HeadKind kind, int head) -> HeadRows {
      const int before = kind == HeadKind::query ? 0 : c.heads + (kind == HeadKind::key ? 0 : c.kv_heads);
      return {h + "self_attn.qkv_proj", (before + head) * c.head_dim, c.qkv_width()};
    });
  }
  pack_gates(c, spec);
  return spec;
}

}  // namespace tenon
