#pragma once
#include <string>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/hunyuan.h"

namespace tenon {

TENON_INLINE ModelConfig HunYuanDense::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c = configure_llama_like(
      file, model_type, {.tokens = {.bos = 1, .eos = 2, .pad = 0}, .epsilon = 1e-5, .rotary = {.reads_alpha = true}});
  check_architectures(fields, {"HunYuanDenseV1ForCausalLM", "HunYuanDenseV1Model"});
  refuse_window(fields, c);
  c.attention_bias = fields.boolean("attention_bias", false);
  // Fields of Tencent's own code. The class in transformers has no other values.
  if (!fields.boolean("use_qk_norm", true)) fields.refuse("use_qk_norm", "false is not supported");
  if (fields.boolean("use_cla", false)) fields.refuse("use_cla", "true is not supported");
  c.norms_after_rotation = true;
  return c;
}

TENON_INLINE DecoderSpec HunYuanDense::tensors(const ModelConfig& c) {
  DecoderSpec spec = llama_like_tensors(c);
  for (int l = 0; l < c.layers; ++l) {
    const std::string attention = "layers." + std::to_string(l) + ".self_attn.";
    auto& layer = spec.layers[static_cast<std::size_t>(l)];
    layer.query_norm.gain = head_gain_spec(c, attention + "query_layernorm.weight", c.heads, false);
    layer.key_norm.gain = head_gain_spec(c, attention + "key_layernorm.weight", c.kv_heads, false);
  }
  return spec;
}

}  // namespace tenon
