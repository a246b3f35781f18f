// GPT-NeoX and Pythia (Black et al., 2022; Biderman et al., 2023) as in Hugging Face's GPTNeoXForCausalLM.
#pragma once
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

/// Layer norms, biases, part of a head turned, attention and MLP side by side or in turn.
struct GptNeoX {
  static constexpr std::string_view model_type = "gpt_neox";
  static constexpr std::string_view name_prefix = "gpt_neox.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/gpt_neox-inl.h"
#endif
