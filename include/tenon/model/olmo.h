// OLMo 1 (Groeneveld et al., 2024), 2 (OLMo Team, 2024) and 3 (2025) as in Hugging Face's OlmoForCausalLM,
// Olmo2ForCausalLM and Olmo3ForCausalLM.
#pragma once
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

/// Llama with layer norms that have no weights.
struct Olmo {
  static constexpr std::string_view model_type = "olmo";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

/// Llama with norms of what each block adds in place of norms before, and of all queries and all keys.
struct Olmo2 {
  static constexpr std::string_view model_type = "olmo2";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

/// OLMo 2 with a window in three of four layers. Their rotary positions are not scaled.
struct Olmo3 {
  static constexpr std::string_view model_type = "olmo3";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/olmo-inl.h"
#endif
