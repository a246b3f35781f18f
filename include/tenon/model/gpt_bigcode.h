// GPTBigCode (SantaCoder, StarCoder; Li et al., 2023) as in Hugging Face's GPTBigCodeForCausalLM: GPT-2 with one shared
// head of keys and values (multi-query attention; Shazeer, 2019) or with one per query head.
#pragma once

#include "tenon/model/gpt2.h"

namespace tenon {

/// The traits of GPTBigCode; see ModelTraits.
struct GptBigCode {
  static constexpr std::string_view model_type = "gpt_bigcode";
  static constexpr std::string_view name_prefix = "transformer.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);

  /// The sizes of StarCoder (15.5 billion parameters).
  static ModelConfig starcoder();
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/gpt_bigcode-inl.h"
#endif
