#pragma once
#include <string>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/starcoder2.h"

namespace tenon {

TENON_INLINE ModelConfig StarCoder2::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c = configure_llama_like(file, model_type,
                                       {.positions = 4096,
                                        .kv_heads = 2,
                                        .tokens = {.bos = 50256, .eos = 50256},
                                        .tied_head = true,
                                        .epsilon = 1e-5,
                                        .epsilon_name = "norm_epsilon",
                                        .activation = "gelu_pytorch_tanh"});
  check_architectures(fields, {"Starcoder2ForCausalLM", "Starcoder2Model"});
  c.norm_kind = NormKind::layer;
  c.mlp_kind = MlpKind::plain;
  c.attention_bias = c.mlp_bias = fields.flag("use_bias", true);
  if (fields.has("sliding_window")) c.window = fields.positive_int("sliding_window");
  return c;
}

TENON_INLINE DecoderSpec StarCoder2::tensors(const ModelConfig& c) {
  DecoderSpec spec = llama_like_tensors(c);
  for (int l = 0; l < c.layers; ++l) {
    const std::string h = "layers." + std::to_string(l) + ".";
    auto& layer = spec.layers[static_cast<std::size_t>(l)];
    layer.attention_norm = layer_norm_spec(h + "input_layernorm", c.hidden);
    layer.mlp_norm = layer_norm_spec(h + "post_attention_layernorm", c.hidden);
    layer.up = linear_spec(h + "mlp.c_fc", {c.inner, c.hidden}, c.mlp_bias);
    layer.down = linear_spec(h + "mlp.c_proj", {c.hidden, c.inner}, c.mlp_bias);
  }
  spec.final_norm = layer_norm_spec("norm", c.hidden);
  return spec;
}

}  // namespace tenon
