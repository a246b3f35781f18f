// ERNIE 4.5 dense (Baidu, 2025) as in Hugging Face's Ernie4_5ForCausalLM: Llama whose rotary pairs are neighbours.
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

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/ernie-inl.h"
#endif
