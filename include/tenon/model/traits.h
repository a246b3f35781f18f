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

/// A family as a value. Code that runs once for a model takes one, and is compiled once for all families.
struct Family {
  std::string_view model_type;   ///< in config.json
  std::string_view name_prefix;  ///< that tensor names may have
  ModelConfig (*configure)(const ConfigFile& file);
  DecoderSpec (*tensors)(const ModelConfig& config);
};

/// The value of a type.
template <ModelTraits M>
inline constexpr Family family_of = {M::model_type, M::name_prefix,
                                     [](const ConfigFile& file) -> ModelConfig { return M::configure(file); },
                                     [](const ModelConfig& config) -> DecoderSpec { return M::tensors(config); }};

}  // namespace tenon
