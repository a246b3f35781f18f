// Granite 3 and 4 (IBM, 2024) as in Hugging Face's GraniteForCausalLM and GraniteMoeHybridForCausalLM: Llama with four
// multipliers.
#pragma once
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

namespace detail {

// Reads the four multipliers and attention_bias.
void read_multipliers(const Fields& fields, ModelConfig& c);

}  // namespace detail

/// Llama with factors of embeddings, scores, residuals and logits.
struct Granite {
  static constexpr std::string_view model_type = "granite";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

/// Granite 4 without Mamba layers and experts: Granite whose MLP has one tensor for gate and up. Positions are rotary,
/// or there are none.
struct GraniteHybrid {
  static constexpr std::string_view model_type = "granitemoehybrid";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/granite-inl.h"
#endif
