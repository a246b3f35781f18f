// GPT-J (Wang and Komatsuzaki, 2021) and CodeGen (Nijkamp et al., 2022) as in Hugging Face's GPTJForCausalLM and
// CodeGenForCausalLM.
#pragma once
#include <string_view>

#include "tenon/model/gpt2.h"

namespace tenon {

/// Attention and MLP side by side after one layer norm; neighbours of a head are turned.
struct GptJ {
  static constexpr std::string_view model_type = "gptj";
  static constexpr std::string_view name_prefix = "transformer.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

/// GPT-J with queries, values and keys packed in four groups.
struct CodeGen {
  static constexpr std::string_view model_type = "codegen";
  static constexpr std::string_view name_prefix = "transformer.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/gptj-inl.h"
#endif
