// Gemma 1, 2 and 3 (text alone; Gemma Team, 2024 and 2025) as in Hugging Face's GemmaForCausalLM, Gemma2ForCausalLM and
// Gemma3ForCausalLM.
#pragma once
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

/// Llama with scaled embeddings, gains of 1 + w and a tied head.
struct Gemma {
  static constexpr std::string_view model_type = "gemma";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

/// Gemma with norms of what each block adds, windows in every second layer, and soft caps.
struct Gemma2 {
  static constexpr std::string_view model_type = "gemma2";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

/// Gemma 2 with norms of queries and keys, and rotations of its own for layers with a window.
struct Gemma3 {
  static constexpr std::string_view model_type = "gemma3_text";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

/// The decoder of a Gemma 3 that reads images, too: it runs on texts alone.
struct Gemma3WithImages {
  static constexpr std::string_view model_type = "gemma3";
  static constexpr std::string_view name_prefix = "model.language_model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c) { return Gemma3::tensors(c); }
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/gemma-inl.h"
#endif
