// Phi 1, 1.5 and 2 (Gunasekar et al., 2023) and Phi-3, Phi-3.5 and Phi-4-mini (Abdin et al., 2024) as in Hugging Face's
// PhiForCausalLM and Phi3ForCausalLM.
#pragma once
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

/// Attention and MLP side by side after one layer norm; part of a head is turned.
struct Phi {
  static constexpr std::string_view model_type = "phi";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

/// Llama with packed matrices; part of a head may be turned; longrope.
struct Phi3 {
  static constexpr std::string_view model_type = "phi3";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/phi-inl.h"
#endif
