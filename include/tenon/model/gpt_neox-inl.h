#pragma once
#include <string>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/gpt_neox.h"

namespace tenon {

TENON_INLINE ModelConfig GptNeoX::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  // The class overwrites rope_theta and partial_rotary_factor with these two.
  ModelConfig c = configure_llama_like(
      file, model_type,
      {.tokens = {.bos = 0, .eos = 2},
       .epsilon = 1e-5,
       .epsilon_name = "layer_norm_eps",
       .activation = "gelu",
       .rotary = {.theta_name = "rotary_emb_base", .part = 0.25, .reads_part = true, .part_name = "rotary_pct"}});
  check_architectures(fields, {"GPTNeoXForCausalLM", "GPTNeoXModel"});
  refuse_window(fields, c);
  c.norm_kind = NormKind::layer;
  c.mlp_kind = MlpKind::plain;
  c.parallel_residual = fields.flag("use_parallel_residual", true);
  c.attention_bias = fields.flag("attention_bias", true);
  return c;
}

TENON_INLINE DecoderSpec GptNeoX::tensors(const ModelConfig& c) {
  DecoderSpec spec;
  spec.embedding = matrix_spec("embed_in.weight", {c.vocab, c.hidden});
  for (int l = 0; l < c.layers; ++l) {
    const std::string h = "layers." + std::to_string(l) + ".", attention = h + "attention.";
    spec.layers.push_back(
        {.attention_norm = layer_norm_spec(h + "input_layernorm", c.hidden),
         .mlp_norm = layer_norm_spec(h + "post_attention_layernorm", c.hidden),
         .qkv = heads_spec(
             c, c.attention_bias,
             [&](HeadKind kind, int head) -> HeadRows {  // [heads, {query, key, value}, head_dim]
               return {attention + "query_key_value", (3 * head + static_cast<int>(kind)) * c.head_dim, c.qkv_width()};
             }),
         .attention_out = linear_spec(attention + "dense", {c.hidden, c.query_width()}, c.attention_bias),
         .up = linear_spec(h + "mlp.dense_h_to_4h", {c.inner, c.hidden}, true),
         .down = linear_spec(h + "mlp.dense_4h_to_h", {c.hidden, c.inner}, true)});
  }
  spec.final_norm = layer_norm_spec("final_layer_norm", c.hidden);
  if (!c.tied_head) spec.head = matrix_spec("embed_out.weight", {c.vocab, c.hidden});
  return spec;
}

}  // namespace tenon
