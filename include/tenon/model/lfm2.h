// LFM2 (Liquid AI, 2025) as in Hugging Face's Lfm2ForCausalLM and Lfm2MoeForCausalLM: short convolutions in most
// layers, attention in the others.
#pragma once
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

/// Llama with norms of queries and keys, and with gated convolutions over a few positions in place of attention in the
/// layers that layer_types calls "conv".
struct Lfm2 {
  static constexpr std::string_view model_type = "lfm2";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);
  static DecoderSpec tensors(const ModelConfig& c);
};

/// Lfm2 with a mixture of experts in all layers but the first num_dense_layers.
struct Lfm2Moe {
  static constexpr std::string_view model_type = "lfm2_moe";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);
  static DecoderSpec tensors(const ModelConfig& c);
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/lfm2-inl.h"
#endif
