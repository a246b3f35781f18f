// SmolLM3 (Hugging Face, 2025) as in Hugging Face's SmolLM3ForCausalLM: Llama with layers that do not rotate.
#pragma once
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

/// Llama whose layers rotate or not, as no_rope_layers says.
struct SmolLm3 {
  static constexpr std::string_view model_type = "smollm3";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/smollm3-inl.h"
#endif
