// GLM-4 and GLM-Edge (GLM Team, 2024), and GLM-4-0414 (2025) as in Hugging Face's GlmForCausalLM and Glm4ForCausalLM.
#pragma once
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

/// Llama with biases of queries, keys and values. Half of a head is turned, in pairs of neighbours.
struct Glm {
  static constexpr std::string_view model_type = "glm";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

/// GLM-4 with norms of what attention and MLP add to x.
struct Glm4 {
  static constexpr std::string_view model_type = "glm4";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/glm-inl.h"
#endif
