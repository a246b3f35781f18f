#pragma once
#include <string>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/granite.h"

namespace tenon {

TENON_INLINE ModelConfig Granite::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c = configure_llama_like(file, model_type, {.tokens = {.bos = 1, .eos = 2}});
  check_architectures(fields, {"GraniteForCausalLM", "GraniteModel"});
  c.attention_bias = fields.boolean("attention_bias", false);
  c.mlp_bias = fields.boolean("mlp_bias", false);
  c.embedding_scale = static_cast<float>(fields.positive("embedding_multiplier", 1));
  c.attention_scale = static_cast<float>(fields.positive("attention_multiplier", 1));
  c.residual_scale = static_cast<float>(fields.positive("residual_multiplier", 1));
  c.logit_scale = static_cast<float>(1 / fields.positive("logits_scaling", 1));
  return c;
}

TENON_INLINE DecoderSpec Granite::tensors(const ModelConfig& c) {
  DecoderSpec spec = llama_like_tensors(c);
  spec.final_norm.gain.times = c.logit_scale;
  return spec;
}

}  // namespace tenon
