// Qwen2 and 2.5 (Yang et al., 2024) and Qwen3 (Yang et al., 2025) as in Hugging Face's Qwen2ForCausalLM and
// Qwen3ForCausalLM: Llama with biases of queries, keys and values, or with norms of each head's queries and keys.
#pragma once
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

/// Llama with biases of queries, keys and values; some layers may have a window.
struct Qwen2 {
  static constexpr std::string_view model_type = "qwen2";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

/// Llama with an RMS norm of each head's queries and keys; some layers may have a window.
struct Qwen3 {
  static constexpr std::string_view model_type = "qwen3";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);
};

/// The decoder of a Qwen2-VL (Wang et al., 2024), which reads images, too: it runs on texts alone.
struct Qwen2Vl {
  static constexpr std::string_view model_type = "qwen2_vl";
  static constexpr std::string_view name_prefix = "model.language_model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c) { return Qwen2::tensors(c); }
};

/// The decoder of a Qwen2.5-VL (Bai et al., 2025).
struct Qwen25Vl {
  static constexpr std::string_view model_type = "qwen2_5_vl";
  static constexpr std::string_view name_prefix = "model.language_model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c) { return Qwen2::tensors(c); }
};

/// The decoder of a Qwen3-VL (2025).
struct Qwen3Vl {
  static constexpr std::string_view model_type = "qwen3_vl";
  static constexpr std::string_view name_prefix = "model.language_model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c) { return Qwen3::tensors(c); }
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/qwen-inl.h"
#endif
