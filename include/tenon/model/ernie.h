// ERNIE 4.5 (Baidu, 2025) as in Hugging Face's Ernie4_5ForCausalLM and Ernie4_5_MoeForCausalLM: Llama whose rotary
// pairs are neighbours.
#pragma once
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

/// Llama with rotary positions of neighbours.
struct Ernie45 {
  static constexpr std::string_view model_type = "ernie4_5";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c) { return llama_like_tensors(c); }
};

/// Ernie45 with a mixture of experts in some layers, and an MLP beside them that every token uses.
struct Ernie45Moe {
  static constexpr std::string_view model_type = "ernie4_5_moe";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);
  static DecoderSpec tensors(const ModelConfig& c);
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/ernie-inl.h"
#endif
