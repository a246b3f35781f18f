#pragma once
#include <algorithm>
#include <string>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/gptj.h"

namespace tenon {

namespace detail {

// transformers turns hidden_size elements of a head where rotary_dim is null. It fails if a head has fewer.
TENON_INLINE int rotary_dim(const Fields& fields, const ModelConfig& c) {
  if (fields.has("rotary_dim")) return fields.positive_int("rotary_dim");
  if (!fields.json().contains("rotary_dim")) return std::min(64, c.head_dim);
  if (c.heads > 1) fields.refuse("rotary_dim", "null needs a model with one head");
  return c.head_dim;
}

TENON_INLINE ModelConfig configure_gptj(const ConfigFile& file, std::string_view model_type) {
  const Fields fields = file.fields();
  ModelConfig c = configure_gpt_like(file, model_type, "gelu_new", 2048);
  c.position_kind = PositionKind::rotary;
  c.parallel_residual = true;
  c.scale_scores = true;
  c.tied_head = !c.language_head || fields.boolean("tie_word_embeddings", false);
  c.rotary.neighbours = true;
  const int width = rotary_dim(fields, c);
  if (width % 2 != 0 || width > c.head_dim || c.head_dim % 2 != 0)
    fields.refuse("rotary_dim", "must be even and at most the width of a head, " + std::to_string(c.head_dim));
  c.rotary.width = width == c.head_dim ? 0 : width;
  return c;
}

template <class Heads>
DecoderSpec gptj_tensors(const ModelConfig& c, Heads&& heads) {
  DecoderSpec spec;
  spec.embedding = matrix_spec("wte.weight", {c.vocab, c.hidden});
  for (int l = 0; l < c.layers; ++l) {
    const std::string h = "h." + std::to_string(l) + ".";
    spec.layers.push_back({.attention_norm = layer_norm_spec(h + "ln_1", c.hidden),
                           .qkv = heads(h + "attn."),
                           .attention_out = linear_spec(h + "attn.out_proj", {c.hidden, c.query_width()}, false),
                           .up = linear_spec(h + "mlp.fc_in", {c.inner, c.hidden}, true),
                           .down = linear_spec(h + "mlp.fc_out", {c.hidden, c.inner}, true)});
  }
  spec.final_norm = layer_norm_spec("ln_f", c.hidden);
  if (!c.tied_head) spec.head = matrix_spec("lm_head.weight", {c.vocab, c.hidden});
  if (c.language_head) spec.head_bias = vector_spec("lm_head.bias", c.vocab);
  return spec;
}

}  // namespace detail

TENON_INLINE ModelConfig GptJ::configure(const ConfigFile& file) {
  check_architectures(file.fields(), {"GPTJForCausalLM", "GPTJModel"});
  return detail::configure_gptj(file, model_type);
}

TENON_INLINE DecoderSpec GptJ::tensors(const ModelConfig& c) {
  return detail::gptj_tensors(c, [&](const std::string& attention) {
    return separate_heads_spec(c, attention + "q_proj", attention + "k_proj", attention + "v_proj", false);
  });
}

TENON_INLINE ModelConfig CodeGen::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  check_architectures(fields, {"CodeGenForCausalLM", "CodeGenModel"});
  ModelConfig c = detail::configure_gptj(file, model_type);
  if (c.heads % 4 != 0) fields.refuse("n_head", "must be a multiple of 4, the groups of the family");
  return c;
}

TENON_INLINE DecoderSpec CodeGen::tensors(const ModelConfig& c) {
  return detail::gptj_tensors(c, [&](const std::string& attention) {
    return heads_spec(c, false, [&](HeadKind kind, int head) -> HeadRows {  // [4, {query, value, key}, heads / 4]
      const int each = c.heads / 4, place = kind == HeadKind::query ? 0 : kind == HeadKind::value ? 1 : 2;
      return {attention + "qkv_proj", ((head / each * 3 + place) * each + head % each) * c.head_dim, c.qkv_width()};
    });
  });
}

}  // namespace tenon
