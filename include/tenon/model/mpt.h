// MPT (MosaicML, 2023) as in Hugging Face's MptForCausalLM: ALiBi, no biases.
#pragma once
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

/// ALiBi, layer norms without biases, an MLP of four times the width.
struct Mpt {
  static constexpr std::string_view model_type = "mpt";
  static constexpr std::string_view name_prefix = "transformer.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/mpt-inl.h"
#endif
