// The numeric class of an engine: engines with equal fingerprints give equal bits, whatever their schedulers, caches,
// batches and threads.
#pragma once
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "tenon/core/hash.h"
#include "tenon/model/config.h"
#include "tenon/model/with_model.h"
#include "tenon/version.h"

namespace tenon {

namespace detail {
// A name for a type that is stable within a compiler; the promise is made for one build.
template <class T>
constexpr std::string_view type_name() {
  return __PRETTY_FUNCTION__;
}

// The name of the family that the engine runs.
template <class Model>
std::string_view family_name(const ModelConfig& config) {
  if constexpr (ChoosesFamily<Model>)
    return Model::of(config.model_type, [](auto family) { return type_name<decltype(family)>(); });
  else
    return type_name<Model>();
}
}  // namespace detail

/// A hash over every field of a configuration that enters the arithmetic.
std::uint64_t hash_of(const ModelConfig& c);

/// "fp_" and 16 hexadecimal digits: a hash over the library's version, the policies that round, the model's sizes and
/// `weights`, the hash of all weights.
template <class Model, class WeightP, class HeadP, class Element, class AttentionP, class DeviceP>
std::string fingerprint_of(const ModelConfig& config, [[maybe_unused]] const AttentionP& attention,
                           std::uint64_t weights) {
  std::uint64_t hash = hash64(kVersion, mix64(weights));
  for (const std::string_view name :
       {detail::family_name<Model>(config), detail::type_name<WeightP>(), detail::type_name<HeadP>(),
        detail::type_name<Element>(), detail::type_name<AttentionP>(), detail::type_name<DeviceP>()}) {
    hash = hash64(name, hash);
  }
  if constexpr (CarriesValues<AttentionP>) {
    for (const double value : attention.values()) hash = mix64(hash ^ std::bit_cast<std::uint64_t>(value));
  }
  hash = mix64(hash ^ hash_of(config));
  std::string text = "fp_";
  for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[hash >> shift & 15];
  return text;
}

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/fingerprint-inl.h"
#endif
