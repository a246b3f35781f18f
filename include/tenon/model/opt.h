// OPT (Zhang et al., 2022) as in Hugging Face's OPTForCausalLM.
#pragma once
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

/// GPT-2 with separate matrices and a table of positions that begins at its third row.
struct Opt {
  static constexpr std::string_view model_type = "opt";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/opt-inl.h"
#endif
