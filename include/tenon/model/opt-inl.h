#pragma once
#include <limits>
#include <string>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/opt.h"

namespace tenon {

TENON_INLINE ModelConfig Opt::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  fields.choice("model_type", {model_type});
  check_architectures(fields, {"OPTForCausalLM", "OPTModel"});
  const auto need = [&](const char* name, bool value, bool fallback) {
    if (fields.flag(name, fallback) == value) return;
    throw Error(Error::Kind::unsupported, fields.where(name),
                value ? "false is not supported" : "true is not supported");
  };
  need("layer_norm_elementwise_affine", true, true);
  ModelConfig c;
  c.model_type = model_type;
  c.layers = fields.positive_int("num_hidden_layers");
  c.hidden = width_field(fields, "hidden_size");
  heads_fields(fields, "num_attention_heads", "hidden_size", c);
  c.inner = width_field(fields, "ffn_dim");
  c.vocab = fields.positive_int("vocab_size");
  c.positions = fields.integer("max_position_embeddings", 1, std::numeric_limits<int>::max() - 2, 2048);
  refuse_window(fields, c);
  c.norm_epsilon = 1e-5f;
  c.activation = activation_field(fields, "activation_function", "relu");
  c.tied_head = fields.flag("tie_word_embeddings", true);
  c.attention_bias = c.mlp_bias = fields.flag("enable_bias", true);
  if (fields.has("word_embed_proj_dim")) c.embedding_width = width_field(fields, "word_embed_proj_dim");
  if (c.embedding_width == c.hidden) c.embedding_width = 0;
  c.norms_after = !fields.flag("do_layer_norm_before", true);
  c.final_norm = !c.norms_after && !fields.boolean("_remove_final_layer_norm", false);
  special_tokens(file, c, {.bos = 2, .eos = 2, .pad = 1});
  return c;
}

TENON_INLINE DecoderSpec Opt::tensors(const ModelConfig& c) {
  DecoderSpec spec;
  spec.embedding = matrix_spec("decoder.embed_tokens.weight", {c.vocab, c.head_width()});
  if (c.embedding_width > 0) {
    spec.embedding_in = linear_spec("decoder.project_in", {c.hidden, c.embedding_width}, false);
    spec.embedding_out = linear_spec("decoder.project_out", {c.embedding_width, c.hidden}, false);
  }
  // The first two rows of the table stand for padding.
  spec.position_table = {
      .shape = {c.positions, c.hidden},
      .parts = {{.name = "decoder.embed_positions.weight", .rows = c.positions, .first = 2, .stored = c.positions + 2}},
      .table = true};
  for (int l = 0; l < c.layers; ++l) {
    const std::string h = "decoder.layers." + std::to_string(l) + ".", attention = h + "self_attn.";
    const auto attention_norm = layer_norm_spec(h + "self_attn_layer_norm", c.hidden);
    const auto mlp_norm = layer_norm_spec(h + "final_layer_norm", c.hidden);
    spec.layers.push_back(
        {.attention_norm = c.norms_after ? DecoderSpec::Norm{} : attention_norm,
         .mlp_norm = c.norms_after ? DecoderSpec::Norm{} : mlp_norm,
         .after_attention_norm = c.norms_after ? attention_norm : DecoderSpec::Norm{},
         .after_mlp_norm = c.norms_after ? mlp_norm : DecoderSpec::Norm{},
         .qkv =
             separate_heads_spec(c, attention + "q_proj", attention + "k_proj", attention + "v_proj", c.attention_bias),
         .attention_out = linear_spec(attention + "out_proj", {c.hidden, c.query_width()}, c.attention_bias),
         .up = linear_spec(h + "fc1", {c.inner, c.hidden}, c.mlp_bias),
         .down = linear_spec(h + "fc2", {c.hidden, c.inner}, c.mlp_bias)});
  }
  if (c.final_norm) spec.final_norm = layer_norm_spec("decoder.final_layer_norm", c.hidden);
  if (!c.tied_head) spec.head = matrix_spec("lm_head.weight", {c.vocab, c.head_width()});
  return spec;
}

}  // namespace tenon
