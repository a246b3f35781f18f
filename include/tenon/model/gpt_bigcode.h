// GPTBigCode (SantaCoder, StarCoder; Li et al., 2023) in the form of Hugging Face's GPTBigCodeForCausalLM: GPT-2 whose
// heads share one head of keys and values (multi-query attention; Shazeer, 2019), or have one each.
#pragma once
#include <string>

#include "tenon/model/gpt2.h"

namespace tenon {

struct GptBigCode {
  static constexpr std::string_view model_type = "gpt_bigcode";
  static constexpr std::string_view name_prefix = "transformer.";
  static constexpr NormKind norm = NormKind::layer;
  static constexpr PositionKind positions = PositionKind::learned;
  static constexpr MlpKind mlp = MlpKind::plain;

  static ModelConfig configure(const ConfigFile& file) {
    const Fields fields = file.fields();
    ModelConfig c = configure_gpt_like(file, model_type, "gelu_pytorch_tanh");
    check_architectures(fields, {"GPTBigCodeForCausalLM", "GPTBigCodeModel"});
    c.interleaved_qkv = !fields.boolean("multi_query", true);
    if (!c.interleaved_qkv) c.kv_heads = 1;
    // A consequence of multi_query, which transformers writes out.
    if (fields.has("num_key_value_heads") && fields.positive_int("num_key_value_heads") != c.kv_heads) {
      fields.refuse("num_key_value_heads", "must be " + std::to_string(c.kv_heads) + ", as multi_query says");
    }
    return c;
  }

  static DecoderSpec tensors(const ModelConfig& c) {
    return gpt_like_tensors(c, [&](const std::string& name, int outputs, int inputs) {
      const bool by_head = c.interleaved_qkv && name.ends_with("attn.c_attn");
      return by_head ? interleaved_qkv_spec(name, c.heads, c.head_dim, inputs, true)
                     : linear_spec(name, {outputs, inputs}, true);
    });
  }

  // The shapes of StarCoder (15.5 billion parameters).
  static ModelConfig starcoder() {
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
};

}  // namespace tenon
