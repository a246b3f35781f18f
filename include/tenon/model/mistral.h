// Mistral 7B (Jiang et al., 2023) in the form of Hugging Face's MistralForCausalLM: Llama with grouped heads and, in
// its first version, a sliding window.
#pragma once
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

struct Mistral {
  static constexpr std::string_view model_type = "mistral";
  static constexpr std::string_view name_prefix = "model.";
  static constexpr NormKind norm = NormKind::rms;
  static constexpr PositionKind positions = PositionKind::rotary;
  static constexpr MlpKind mlp = MlpKind::gated;

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c) { return llama_like_tensors(c); }

  // The shapes of the first version of 7 billion parameters.
  static ModelConfig seven_billion();
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/mistral-inl.h"
#endif
