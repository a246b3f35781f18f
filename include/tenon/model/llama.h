// Llama (Touvron et al., 2023; versions 1 to 3) in the form of Hugging Face's LlamaForCausalLM.
#pragma once

#include "tenon/model/traits.h"

namespace tenon {

// What transformers assumes of a field that is not there.
struct LlamaDefaults {
  int positions = 2048;
  int kv_heads = 0;  // 0, and null in the file: as many as heads
  SpecialTokenDefaults tokens = {};
};

// What Llama and the families after it have in common: sizes, rotary positions, a gated MLP.
ModelConfig configure_llama_like(const ConfigFile& file, std::string_view model_type, const LlamaDefaults& defaults);

DecoderSpec llama_like_tensors(const ModelConfig& c);

struct Llama {
  static constexpr std::string_view model_type = "llama";
  static constexpr std::string_view name_prefix = "model.";
  static constexpr NormKind norm = NormKind::rms;
  static constexpr PositionKind positions = PositionKind::rotary;
  static constexpr MlpKind mlp = MlpKind::gated;

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c) { return llama_like_tensors(c); }

  // The shapes of Llama 3.2 of 1.24 billion parameters.
  static ModelConfig one_billion();
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/llama-inl.h"
#endif
