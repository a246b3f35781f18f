#pragma once
#include <string>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/falcon.h"

namespace tenon {

TENON_INLINE ModelConfig Falcon::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  fields.choice("model_type", {model_type});
  check_architectures(fields, {"FalconForCausalLM", "FalconModel"});
  ModelConfig c;
  c.model_type = model_type;
  c.rounded_alibi = fields.boolean("alibi", false);
  c.position_kind = c.rounded_alibi ? PositionKind::alibi : PositionKind::rotary;
  // n_layer, n_head and n_head_kv are names of an older class. They count where the newer ones are missing.
  const auto name = [&](const char* newer, const char* older) { return fields.has(newer) ? newer : older; };
  c.layers = fields.positive_int(name("num_hidden_layers", "n_layer"));
  const std::string hidden = name("n_embed", "hidden_size");  // n_embed, an old name, wins
  c.hidden = width_field(fields, hidden);
  heads_fields(fields, name("num_attention_heads", "n_head"), hidden, c);
  c.grouped_qkv = fields.boolean("new_decoder_architecture", false);
  // num_kv_heads counts in the new architecture alone; files of the older one hold the number of heads there.
  const bool multi_query = fields.flag("multi_query", true);
  if (c.grouped_qkv)
    c.kv_heads = fields.positive_int(name("num_kv_heads", "n_head_kv"), c.heads);
  else if (multi_query)
    c.kv_heads = 1;
  if (c.heads % c.kv_heads != 0) fields.refuse("num_kv_heads", "must divide the number of heads");
  c.interleaved_qkv = !c.grouped_qkv && !multi_query;
  c.parallel_residual = c.grouped_qkv || fields.flag("parallel_attn", true);
  c.shared_norm = c.parallel_residual && fields.integer("num_ln_in_parallel_attn", 1, 2, c.grouped_qkv ? 2 : 1) == 1;
  c.inner = inner_field(fields, "ffn_hidden_size", hidden, c.hidden);
  c.vocab = fields.positive_int("vocab_size");
  c.positions = fields.positive_int("max_position_embeddings", 2048);
  if (!c.rounded_alibi) c.rotary = rotary_fields(fields, c.head_dim, c.positions);
  refuse_window(fields, c);
  c.norm_epsilon = static_cast<float>(fields.positive("layer_norm_epsilon", 1e-5));
  c.activation = activation_field(fields, "activation", "gelu");
  c.attention_bias = c.mlp_bias = fields.boolean("bias", false);
  c.tied_head = fields.flag("tie_word_embeddings", true);
  special_tokens(file, c, {.bos = 11, .eos = 11});
  return c;
}

TENON_INLINE DecoderSpec Falcon::tensors(const ModelConfig& c) {
  DecoderSpec spec;
  spec.embedding = matrix_spec("word_embeddings.weight", {c.vocab, c.hidden});
  const bool two = c.parallel_residual && !c.shared_norm;
  // The place of a head among the heads of query_key_value: each group has its queries, a key and a value; a family
  // without groups is one group, or, interleaved, one group for each head.
  const int each = c.heads / c.kv_heads;
  const auto place = [&](HeadKind kind, int head) {
    if (kind == HeadKind::query) return head / each * (each + 2) + head % each;
    return head * (each + 2) + each + (kind == HeadKind::key ? 0 : 1);
  };
  for (int l = 0; l < c.layers; ++l) {
    const std::string h = "h." + std::to_string(l) + ".", attention = h + "self_attention.";
    DecoderSpec::Layer layer{
        .attention_norm = layer_norm_spec(h + (two ? "ln_attn" : "input_layernorm"), c.hidden),
        .qkv = heads_spec(c, c.attention_bias,
                          [&](HeadKind kind, int head) -> HeadRows {
                            return {attention + "query_key_value", place(kind, head) * c.head_dim, c.qkv_width()};
                          }),
        .attention_out = linear_spec(attention + "dense", {c.hidden, c.query_width()}, c.attention_bias),
        .up = linear_spec(h + "mlp.dense_h_to_4h", {c.inner, c.hidden}, c.mlp_bias),
        .down = linear_spec(h + "mlp.dense_4h_to_h", {c.hidden, c.inner}, c.mlp_bias)};
    if (!c.shared_norm) layer.mlp_norm = layer_norm_spec(h + (two ? "ln_mlp" : "post_attention_layernorm"), c.hidden);
    spec.layers.push_back(std::move(layer));
  }
  spec.final_norm = layer_norm_spec("ln_f", c.hidden);
  if (!c.tied_head) spec.head = matrix_spec("lm_head.weight", {c.vocab, c.hidden});
  return spec;
}

}  // namespace tenon
