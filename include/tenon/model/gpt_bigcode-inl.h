#pragma once
#include <string>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/gpt_bigcode.h"

namespace tenon {

TENON_INLINE ModelConfig GptBigCode::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c = configure_gpt_like(file, model_type, "gelu_pytorch_tanh", 1024);
  check_architectures(fields, {"GPTBigCodeForCausalLM", "GPTBigCodeModel"});
  c.interleaved_qkv = !fields.flag("multi_query", true);
  if (!c.interleaved_qkv) c.kv_heads = 1;
  // num_key_value_heads follows from multi_query; transformers writes it, too.
  if (fields.has("num_key_value_heads") && fields.positive_int("num_key_value_heads") != c.kv_heads) {
    fields.refuse("num_key_value_heads", "must be " + std::to_string(c.kv_heads) + ", as multi_query says");
  }
  return c;
}

TENON_INLINE DecoderSpec GptBigCode::tensors(const ModelConfig& c) {
  return gpt_like_tensors(c, [&](const std::string& name, int outputs, int inputs) {
    const bool by_head = c.interleaved_qkv && name.ends_with("attn.c_attn");
    return by_head ? interleaved_qkv_spec(name, c.heads, c.head_dim, inputs, true)
                   : linear_spec(name, {outputs, inputs}, true);
  });
}

TENON_INLINE ModelConfig GptBigCode::starcoder() {
  ModelConfig c;
  c.model_type = model_type;
  c.layers = 40;
  c.hidden = 6144;
  c.heads = 48;
  c.kv_heads = 1;
  c.head_dim = 128;
  c.inner = 24576;
  c.vocab = 49152;
  c.positions = 8192;
  c.norm_epsilon = 1e-5f;
  return c;
}

}  // namespace tenon
