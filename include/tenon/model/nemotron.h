// Nemotron 4 and Minitron (Parmar et al., 2024; Muralidharan et al., 2024) as in Hugging Face's NemotronForCausalLM.
#pragma once
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

/// Llama with layer norms of gain 1 + w, an MLP without gate, and the square of relu. Half of a head is turned.
struct Nemotron {
  static constexpr std::string_view model_type = "nemotron";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/nemotron-inl.h"
#endif
