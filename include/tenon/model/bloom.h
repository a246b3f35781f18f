// BLOOM (BigScience, 2022) as in Hugging Face's BloomForCausalLM: ALiBi, a norm after the embedding, and queries, keys
// and values stored head by head.
#pragma once

#include "tenon/model/traits.h"

namespace tenon {

/// The traits of BLOOM; see ModelTraits.
struct Bloom {
  static constexpr std::string_view model_type = "bloom";
  static constexpr std::string_view name_prefix = "transformer.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c);

  /// The sizes of BLOOM-560M.
  static ModelConfig small();
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/bloom-inl.h"
#endif
