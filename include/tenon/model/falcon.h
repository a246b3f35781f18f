// Falcon (Almazrouei et al., 2023) as in Hugging Face's FalconForCausalLM, with rotary positions.
#pragma once
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

/// Layer norms, shared or grouped keys, attention and MLP side by side or in turn.
struct Falcon {
  static constexpr std::string_view model_type = "falcon";
  static constexpr std::string_view name_prefix = "transformer.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/falcon-inl.h"
#endif
