// A family of decoders is a struct of two names and two functions: `configure` (config.json to sizes and switches) and
// `tensors` (names and shapes). One forward pass runs all families. gpt2.h is a complete example.
#pragma once
#include <concepts>
#include <string_view>

#include "tenon/checkpoint/config.h"
#include "tenon/model/config.h"
#include "tenon/model/parts.h"

namespace tenon {

/// A family of decoders: what config.json and tensors call it, and the functions that read them.
template <class M>
concept ModelTraits = requires(const ModelConfig& config, const ConfigFile& file) {
  { M::configure(file) } -> std::same_as<ModelConfig>;
  { M::name_prefix } -> std::convertible_to<std::string_view>;
  { M::model_type } -> std::convertible_to<std::string_view>;
  { M::tensors(config) } -> std::same_as<DecoderSpec>;
};

}  // namespace tenon
