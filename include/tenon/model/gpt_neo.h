// GPT-Neo (Black et al., 2021) as in Hugging Face's GPTNeoForCausalLM: GPT-2 with windows in some layers.
#pragma once
#include <string_view>

#include "tenon/model/traits.h"

namespace tenon {

/// GPT-2 with unscaled scores of attention. Layers of type "local" have a window.
struct GptNeo {
  static constexpr std::string_view model_type = "gpt_neo";
  static constexpr std::string_view name_prefix = "transformer.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/gpt_neo-inl.h"
#endif
