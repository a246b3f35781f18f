// The traits of a decoder family, fixed at compile time. A family is a struct of these constants, of `configure`
// (config.json to sizes) and of `tensors` (names and shapes). gpt2.h is a complete example.
#pragma once
#include <concepts>
#include <string_view>

#include "tenon/checkpoint/config.h"
#include "tenon/model/config.h"
#include "tenon/model/parts.h"

namespace tenon {

enum class NormKind { layer, rms };
enum class PositionKind { learned, rotary, alibi };
enum class MlpKind { plain, gated };

/// A family of decoders: its constants, and the functions that read config.json and list the tensors.
template <class M>
concept ModelTraits = requires(const ModelConfig& config, const ConfigFile& file) {
  { M::configure(file) } -> std::same_as<ModelConfig>;
  { M::name_prefix } -> std::convertible_to<std::string_view>;
  { M::model_type } -> std::convertible_to<std::string_view>;
  { M::norm } -> std::convertible_to<NormKind>;
  { M::positions } -> std::convertible_to<PositionKind>;
  { M::mlp } -> std::convertible_to<MlpKind>;
  { M::tensors(config) } -> std::same_as<DecoderSpec>;
};

}  // namespace tenon
