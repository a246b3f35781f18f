// GPT-2 (Radford et al., 2019) in the form of Hugging Face's GPT2LMHeadModel.
#pragma once
#include <string>
#include <string_view>

#include "tenon/model/traits.h"

namespace tenon {

// What GPT-2 and GPTBigCode have in common.
ModelConfig configure_gpt_like(const ConfigFile& file, std::string_view model_type, std::string_view activation);

// Their names. linear(name, outputs, inputs): how a matrix and its bias are stored.
template <class Linear>
DecoderSpec gpt_like_tensors(const ModelConfig& c, Linear&& linear) {
  DecoderSpec spec;
  spec.embedding = matrix_spec("wte.weight", {c.vocab, c.hidden});
  spec.position_table = table_spec("wpe.weight", {c.positions, c.hidden});
  for (int l = 0; l < c.layers; ++l) {
    const std::string h = "h." + std::to_string(l) + ".";
    spec.layers.push_back({.attention_norm = layer_norm_spec(h + "ln_1", c.hidden),
                           .mlp_norm = layer_norm_spec(h + "ln_2", c.hidden),
                           .qkv = linear(h + "attn.c_attn", c.qkv_width(), c.hidden),
                           .attention_out = linear(h + "attn.c_proj", c.hidden, c.query_width()),
                           .up = linear(h + "mlp.c_fc", c.inner, c.hidden),
                           .down = linear(h + "mlp.c_proj", c.hidden, c.inner)});
  }
  spec.final_norm = layer_norm_spec("ln_f", c.hidden);
  if (!c.tied_head) spec.head = matrix_spec("lm_head.weight", {c.vocab, c.hidden});
  return spec;
}

struct Gpt2 {
  static constexpr std::string_view model_type = "gpt2";
  static constexpr std::string_view name_prefix = "transformer.";  // names are stored with it or without it
  static constexpr NormKind norm = NormKind::layer;
  static constexpr PositionKind positions = PositionKind::learned;
  static constexpr MlpKind mlp = MlpKind::plain;

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);

  // The shapes of the published model of 124 million parameters.
  static ModelConfig small();
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/gpt2-inl.h"
#endif
