// AFM (Arcee, 2025) as in Hugging Face's ArceeForCausalLM.
#pragma once
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

/// Llama with an MLP without gate, and the square of relu.
struct Arcee {
  static constexpr std::string_view model_type = "arcee";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c) { return plain_mlp_tensors(c); }
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/arcee-inl.h"
#endif
