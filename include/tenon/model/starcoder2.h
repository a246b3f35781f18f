// StarCoder 2 (Lozhkov et al., 2024) as in Hugging Face's Starcoder2ForCausalLM.
#pragma once
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

/// Layer norms, biases, rotary positions, grouped heads and an MLP without a gate.
struct StarCoder2 {
  static constexpr std::string_view model_type = "starcoder2";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/starcoder2-inl.h"
#endif
