#pragma once
#include <string>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/glm.h"

namespace tenon {

namespace detail {

TENON_INLINE ModelConfig configure_glm(const ConfigFile& file, std::string_view model_type) {
  const Fields fields = file.fields();
  ModelConfig c = configure_llama_like(file, model_type,
                                       {.positions = 131072,
                                        .kv_heads = 2,
                                        .tokens = {.eos = 151329, .pad = 151329, .more_eos = {151336, 151338}},
                                        .head_dim = 128,
                                        .epsilon = 1.5625e-7,
                                        .rotary = {.part = 0.5, .reads_part = true, .neighbours = true}});
  refuse_window(fields, c);
  c.qkv_bias = fields.flag("attention_bias", true);
  return c;
}

}  // namespace detail

TENON_INLINE ModelConfig Glm::configure(const ConfigFile& file) {
  check_architectures(file.fields(), {"GlmForCausalLM", "GlmModel"});
  return detail::configure_glm(file, model_type);
}

TENON_INLINE DecoderSpec Glm::tensors(const ModelConfig& c) {
  DecoderSpec spec = llama_like_tensors(c);
  pack_gates(c, spec);
  return spec;
}

TENON_INLINE ModelConfig Glm4::configure(const ConfigFile& file) {
  check_architectures(file.fields(), {"Glm4ForCausalLM", "Glm4Model"});
  ModelConfig c = detail::configure_glm(file, model_type);
  c.output_norms = true;
  return c;
}

TENON_INLINE DecoderSpec Glm4::tensors(const ModelConfig& c) {
  DecoderSpec spec = Glm::tensors(c);
  for (int l = 0; l < c.layers; ++l) {
    const std::string h = "layers." + std::to_string(l) + ".";
    auto& layer = spec.layers[static_cast<std::size_t>(l)];
    layer.attention_out_norm = rms_norm_spec(h + "post_self_attn_layernorm", c.hidden);
    layer.mlp_out_norm = rms_norm_spec(h + "post_mlp_layernorm", c.hidden);
  }
  return spec;
}

}  // namespace tenon
