// Helium 1 (Kyutai, 2025) as in Hugging Face's HeliumForCausalLM.
#pragma once
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

/// Llama with interleaved rotary pairs.
struct Helium {
  static constexpr std::string_view model_type = "helium";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c) { return llama_like_tensors(c); }
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/helium-inl.h"
#endif
