// EXAONE 4.0 (LG AI Research, 2025) as in Hugging Face's Exaone4ForCausalLM: norms of what attention and MLP add, and
// of each head.
#pragma once
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

/// Llama with norms of outputs and heads. In files with a window, only layers with a window are rotated.
struct Exaone4 {
  static constexpr std::string_view model_type = "exaone4";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/exaone4-inl.h"
#endif
