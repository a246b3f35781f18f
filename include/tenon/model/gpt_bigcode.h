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
    DecoderSpec spec;
    spec.embedding = matrix_spec("wte.weight", {c.vocab, c.hidden});
    spec.position_table = table_spec("wpe.weight", {c.positions, c.hidden});
    for (int l = 0; l < c.layers; ++l) {
      const std::string h = "h." + std::to_string(l) + ".", qkv = h + "attn.c_attn";
      spec.layers.push_back({.attention_norm = layer_norm_spec(h + "ln_1", c.hidden),
                             .mlp_norm = layer_norm_spec(h + "ln_2", c.hidden),
                             .qkv = c.interleaved_qkv ? interleaved_qkv_spec(qkv, c.heads, c.head_dim, c.hidden, true)
                                                      : linear_spec(qkv, {c.qkv_width(), c.hidden}, true),
                             .attention_out = linear_spec(h + "attn.c_proj", {c.hidden, c.query_width()}, true),
                             .up = linear_spec(h + "mlp.c_fc", {c.inner, c.hidden}, true),
                             .down = linear_spec(h + "mlp.c_proj", {c.hidden, c.inner}, true)});
    }
    spec.final_norm = layer_norm_spec("ln_f", c.hidden);
    if (!c.tied_head) spec.head = matrix_spec("lm_head.weight", {c.vocab, c.hidden});
    return spec;
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
