// SmolVLM (Marafioti et al., 2025) and Idefics3 (Laurencon et al., 2024) as in Hugging Face's
// SmolVLMForConditionalGeneration and Idefics3ForConditionalGeneration: a Llama that reads images, too. They run on
// texts alone.
#pragma once
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

/// The decoder of a SmolVLM.
struct SmolVlm {
  static constexpr std::string_view model_type = "smolvlm";
  static constexpr std::string_view name_prefix = "model.text_model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c) { return Llama::tensors(c); }
};

/// The decoder of an Idefics3.
struct Idefics3 {
  static constexpr std::string_view model_type = "idefics3";
  static constexpr std::string_view name_prefix = "model.text_model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c) { return Llama::tensors(c); }
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/smolvlm-inl.h"
#endif
