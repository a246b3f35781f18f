// StableLM 2 and 3B (Bellagente et al., 2024) as in Hugging Face's StableLmForCausalLM.
#pragma once
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

/// Llama with layer norms; a quarter of a head is turned.
struct StableLm {
  static constexpr std::string_view model_type = "stablelm";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/stablelm-inl.h"
#endif
