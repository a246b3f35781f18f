// HunYuan dense (Tencent, 2025; 0.5B to 7B) as in Hugging Face's HunYuanDenseV1ForCausalLM.
#pragma once
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

/// Llama with an RMS norm of each head's queries and keys after their rotation.
struct HunYuanDense {
  static constexpr std::string_view model_type = "hunyuan_v1_dense";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/hunyuan-inl.h"
#endif
