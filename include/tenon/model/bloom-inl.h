#pragma once
#include <string>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/bloom.h"
#include "tenon/model/configure.h"

namespace tenon {

TENON_INLINE ModelConfig Bloom::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  fields.choice("model_type", {model_type});
  check_architectures(fields, {"BloomForCausalLM", "BloomModel"});
  ModelConfig c;
  c.model_type = model_type;
  c.position_kind = PositionKind::alibi;
  c.layers = fields.positive_int(one_name(fields, {"n_layer", "num_hidden_layers"}));
  const std::string hidden = fields.has("n_embed") ? "n_embed" : "hidden_size";  // n_embed, an old name, wins
  c.hidden = width_field(fields, hidden);
  heads_fields(fields, one_name(fields, {"n_head", "num_attention_heads"}), hidden, c);
  c.inner = inner_field(fields, "", hidden, c.hidden);  // whatever n_inner says
  if (fields.boolean("apply_residual_connection_post_layernorm", false)) {
    throw Error(Error::Kind::unsupported, fields.where("apply_residual_connection_post_layernorm"),
                "true is not supported");
  }
  if (fields.boolean("slow_but_exact", false) && fields.positive_int("pretraining_tp", 1) > 1) {
    throw Error(Error::Kind::unsupported, fields.where("slow_but_exact"),
                "true is not supported with pretraining_tp above 1: transformers drops two biases of each layer there");
  }
  c.vocab = fields.positive_int("vocab_size");
  c.positions = fields.positive_int("seq_length", 2048);  // length in training: ALiBi itself has no limit
  refuse_window(fields, c);
  c.norm_epsilon = static_cast<float>(fields.positive("layer_norm_epsilon", 1e-5));
  c.activation = Activation::gelu_new;
  c.tied_head = fields.flag("tie_word_embeddings", true);
  special_tokens(file, c, {.bos = 1, .eos = 2});
  return c;
}

TENON_INLINE DecoderSpec Bloom::tensors(const ModelConfig& c) {
  DecoderSpec spec;
  spec.embedding = matrix_spec("word_embeddings.weight", {c.vocab, c.hidden});
  spec.embedding_norm = layer_norm_spec("word_embeddings_layernorm", c.hidden);
  for (int l = 0; l < c.layers; ++l) {
    const std::string h = "h." + std::to_string(l) + ".";
    spec.layers.push_back(
        {.attention_norm = layer_norm_spec(h + "input_layernorm", c.hidden),
         .mlp_norm = layer_norm_spec(h + "post_attention_layernorm", c.hidden),
         .qkv = interleaved_qkv_spec(h + "self_attention.query_key_value", c.heads, c.head_dim, c.hidden, true),
         .attention_out = linear_spec(h + "self_attention.dense", {c.hidden, c.query_width()}, true),
         .up = linear_spec(h + "mlp.dense_h_to_4h", {c.inner, c.hidden}, true),
         .down = linear_spec(h + "mlp.dense_4h_to_h", {c.hidden, c.inner}, true)});
  }
  spec.final_norm = layer_norm_spec("ln_f", c.hidden);
  if (!c.tied_head) spec.head = matrix_spec("lm_head.weight", {c.vocab, c.hidden});
  return spec;
}

TENON_INLINE ModelConfig Bloom::small() {
  ModelConfig c;
  c.model_type = model_type;
  c.position_kind = PositionKind::alibi;
  c.layers = 24;
  c.hidden = 1024;
  c.heads = c.kv_heads = 16;
  c.head_dim = 64;
  c.inner = 4096;
  c.vocab = 250880;
  c.positions = 2048;
  c.norm_epsilon = 1e-5f;
  return c;
}

}  // namespace tenon
