#pragma once
#include <string>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/mpt.h"

namespace tenon {

TENON_INLINE ModelConfig Mpt::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  fields.choice("model_type", {model_type});
  check_architectures(fields, {"MptForCausalLM", "MptModel"});
  ModelConfig c;
  c.model_type = model_type;
  c.position_kind = PositionKind::alibi;
  c.layers = fields.positive_int(one_name(fields, {"n_layers", "num_hidden_layers"}));
  const std::string hidden = one_name(fields, {"d_model", "hidden_size"});
  c.hidden = width_field(fields, hidden);
  heads_fields(fields, one_name(fields, {"n_heads", "num_attention_heads"}), hidden, c);
  c.inner = inner_field(fields, "", hidden, c.hidden);
  c.vocab = fields.positive_int("vocab_size");
  c.positions = fields.positive_int("max_seq_len", 2048);
  refuse_window(fields, c);
  c.norm_epsilon = static_cast<float>(fields.positive("layer_norm_epsilon", 1e-5));
  c.activation = Activation::gelu;
  c.tied_head = fields.flag("tie_word_embeddings", true);
  if (fields.has("attn_config")) {
    // The reference ignores the other members: it has ALiBi of 8 and no norms of queries and keys, always.
    const Fields attention = fields.object("attn_config");
    if (attention.has("softmax_scale")) c.attention_scale = static_cast<float>(attention.positive("softmax_scale"));
    c.qkv_bound = static_cast<float>(attention.number("clip_qkv", 0, 1e9, 0));
  }
  special_tokens(file, c);
  return c;
}

TENON_INLINE DecoderSpec Mpt::tensors(const ModelConfig& c) {
  DecoderSpec spec;
  spec.embedding = matrix_spec("wte.weight", {c.vocab, c.hidden});
  for (int l = 0; l < c.layers; ++l) {
    const std::string h = "blocks." + std::to_string(l) + ".";
    spec.layers.push_back({.attention_norm = biasless_norm_spec(h + "norm_1", c.hidden),
                           .mlp_norm = biasless_norm_spec(h + "norm_2", c.hidden),
                           .qkv = linear_spec(h + "attn.Wqkv", {c.qkv_width(), c.hidden}, false),
                           .attention_out = linear_spec(h + "attn.out_proj", {c.hidden, c.query_width()}, false),
                           .up = linear_spec(h + "ffn.up_proj", {c.inner, c.hidden}, false),
                           .down = linear_spec(h + "ffn.down_proj", {c.hidden, c.inner}, false)});
  }
  spec.final_norm = biasless_norm_spec("norm_f", c.hidden);
  if (!c.tied_head) spec.head = matrix_spec("lm_head.weight", {c.vocab, c.hidden});
  return spec;
}

}  // namespace tenon
