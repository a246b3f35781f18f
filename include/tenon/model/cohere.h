// Command R (Cohere, 2024) and Command R7B and A (2024, 2025) as in Hugging Face's CohereForCausalLM and
// Cohere2ForCausalLM.
#pragma once
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

/// Llama with attention and MLP side by side, layer norms without biases, and neighbours turned.
struct Cohere {
  static constexpr std::string_view model_type = "cohere";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

/// Command R with a window in three of four layers. The others have no rotary positions.
struct Cohere2 {
  static constexpr std::string_view model_type = "cohere2";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c) { return Cohere::tensors(c); }
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/cohere-inl.h"
#endif
