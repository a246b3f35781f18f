// Granite 3 and later dense models (IBM, 2024) as in Hugging Face's GraniteForCausalLM: Llama with four multipliers.
#pragma once
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

/// Llama with factors of embeddings, scores, residuals and logits.
struct Granite {
  static constexpr std::string_view model_type = "granite";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/granite-inl.h"
#endif
