// GPT-2 (Radford et al., 2019) as in Hugging Face's GPT2LMHeadModel.
#pragma once
#include <string>
#include <string_view>

#include "tenon/model/traits.h"

namespace tenon {

/// Reads the fields of config.json that GPT-2 and GPTBigCode share. `activation`: the default of activation_function.
/// `positions`: the default of n_positions.
ModelConfig configure_gpt_like(const ConfigFile& file, std::string_view model_type, std::string_view activation,
                               int positions);

/// The tensors that GPT-2 and GPTBigCode share. linear(name, outputs, inputs) gives the form of a matrix and its bias.
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

/// The traits of GPT-2; see ModelTraits.
struct Gpt2 {
  static constexpr std::string_view model_type = "gpt2";
  static constexpr std::string_view name_prefix = "transformer.";  ///< checkpoints have names with it or without it

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);

  /// The sizes of GPT-2 124M.
  static ModelConfig small();
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/gpt2-inl.h"
#endif
