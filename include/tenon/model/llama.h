// Llama (Touvron et al., 2023; versions 1 to 3) as in Hugging Face's LlamaForCausalLM.
#pragma once

#include "tenon/model/traits.h"

namespace tenon {

/// Values of missing fields, as in transformers.
struct LlamaDefaults {
  int positions = 2048;
  int kv_heads = 0;  ///< 0, or null in the file: as many as heads
  SpecialTokenDefaults tokens = {};
};

/// Reads what Llama and later families share: sizes, rotary positions, a gated MLP.
ModelConfig configure_llama_like(const ConfigFile& file, std::string_view model_type, const LlamaDefaults& defaults);

/// The tensors that Llama and later families share.
DecoderSpec llama_like_tensors(const ModelConfig& c);

/// The traits of Llama; see ModelTraits.
struct Llama {
  static constexpr std::string_view model_type = "llama";
  static constexpr std::string_view name_prefix = "model.";
  static constexpr NormKind norm = NormKind::rms;
  static constexpr PositionKind positions = PositionKind::rotary;
  static constexpr MlpKind mlp = MlpKind::gated;

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c) { return llama_like_tensors(c); }

  /// The sizes of Llama 3.2 1B (1.24 billion parameters).
  static ModelConfig one_billion();
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/llama-inl.h"
#endif
