// Mistral 7B (Jiang et al., 2023) as in Hugging Face's MistralForCausalLM: Llama with grouped heads and, in version
// 0.1, a sliding window. Ministral (Mistral AI, 2024) as in MinistralForCausalLM, and Ministral 3 (2025) as in
// Ministral3ForCausalLM.
#pragma once
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

/// The traits of Mistral; see ModelTraits.
struct Mistral {
  static constexpr std::string_view model_type = "mistral";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c) { return llama_like_tensors(c); }

  /// The sizes of Mistral 7B v0.1.
  static ModelConfig seven_billion();
};

/// The decoder of a Mistral Small 3.1 or 3.2, or of a Ministral 3, which read images, too: it runs on texts alone.
struct Mistral3 {
  static constexpr std::string_view model_type = "mistral3";
  static constexpr std::string_view name_prefix = "model.language_model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c) { return llama_like_tensors(c); }
};

/// Mistral with a window in some layers. transformers loads a Mistral with layer_types as this one.
struct Ministral {
  static constexpr std::string_view model_type = "ministral";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c) { return llama_like_tensors(c); }
};

/// Mistral whose queries grow with their position in long texts: ModelConfig::query_scale.
struct Ministral3 {
  static constexpr std::string_view model_type = "ministral3";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c) { return llama_like_tensors(c); }
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/mistral-inl.h"
#endif
