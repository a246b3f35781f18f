// Command R (Cohere, 2024) as in Hugging Face's CohereForCausalLM.
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

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/cohere-inl.h"
#endif
