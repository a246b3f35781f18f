// Fingerprints: engines with equal ones give equal bits, whatever their schedulers, caches, batches, threads, compilers
// and instruction sets. Formats of fast math, such as FastMathBFloat16, are left out: their bits follow the batch.
#pragma once
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "tenon/core/numeric_class.h"
#include "tenon/io/hex.h"
#include "tenon/model/any_family.h"
#include "tenon/model/config.h"
#include "tenon/ops/attention.h"
#include "tenon/tokenizer/bpe.h"

namespace tenon {

namespace detail {

template <class T>
constexpr std::string_view compiler_name() {
  return __PRETTY_FUNCTION__;
}

// The name of a policy's arithmetic. A policy without one gets its type's name in the compiler's spelling: such
// fingerprints compare within one compiler.
template <class P>
constexpr std::string_view class_name() {
  if constexpr (NamesNumericClass<P>)
    return P::numeric_class.name;
  else
    return compiler_name<P>();
}
template <>
constexpr std::string_view class_name<float>() {
  return "float32";
}
template <>
constexpr std::string_view class_name<bfloat16>() {
  return "bfloat16";
}
template <>
constexpr std::string_view class_name<float16>() {
  return "float16";
}
template <>
constexpr std::string_view class_name<std::int8_t>() {
  return "int8";
}

template <class Model, class List>
inline constexpr bool is_listed = false;
template <class Model, class... Models>
inline constexpr bool is_listed<Model, ModelList<Models...>> = (std::is_same_v<Model, Models> || ...);

// The library's families are named by their model_type. A family of a user's own may have the model_type of one of
// these.
template <class Model>
constexpr std::string_view own_family_name() {
  if constexpr (is_listed<Model, BuiltInModels>) return Model::model_type;
  return class_name<Model>();
}
// The name of the family of a list that config.json chose.
template <class... Models>
constexpr std::string_view family_name_in(ModelList<Models...>, std::string_view model_type) {
  std::string_view name;
  ((model_type == Models::model_type && (name = own_family_name<Models>(), true)) || ...);
  return name;
}
template <class Model>
constexpr std::string_view family_name([[maybe_unused]] std::string_view model_type) {
  if constexpr (ChoosesFamily<Model>) return family_name_in(typename Model::Families{}, model_type);
  return own_family_name<Model>();
}

}  // namespace detail

/// The canonical name of an engine's numeric class, such as "numerics 1, family gpt2, weights int8, head float32, kv
/// float32, attention flash, device exact". An attention with values has their bits after its name. An attention that
/// was chosen at run time counts like the same type.
template <class Model, class WeightP, class HeadP, class Element, class AttentionP, class DeviceP>
std::string numeric_class_of(const ModelConfig& config, [[maybe_unused]] const AttentionP& attention) {
  if constexpr (std::is_same_v<AttentionP, AnyAttention>) {
    if (attention.direct) return numeric_class_of<Model, WeightP, HeadP, Element, DirectAttention, DeviceP>(config, {});
    return numeric_class_of<Model, WeightP, HeadP, Element, FlashAttention, DeviceP>(config, {});
  }
  std::string name = "numerics " + std::to_string(kNumericsVersion);
  const auto add = [&name](const char* axis, std::string_view of) {
    name.append(", ").append(axis).append(" ").append(of);
  };
  add("family", detail::family_name<Model>(config.model_type));
  add("weights", detail::class_name<WeightP>());
  add("head", detail::class_name<HeadP>());
  add("kv", detail::class_name<Element>());
  add("attention", detail::class_name<AttentionP>());
  if constexpr (CarriesValues<AttentionP>) {
    for (const double value : attention.values()) name += " " + hex_of(std::bit_cast<std::uint64_t>(value), 16);
  }
  add("device", detail::class_name<DeviceP>());
  return name;
}

/// 64 hexadecimal digits: SHA-256 over the canonical name of the numeric class, the fields of the configuration that
/// enter the arithmetic, the tokenizer (null: none) and `weights`, the hash of all weights. The tokenizer
/// counts by the bytes of each token, the special tokens, and the tokens around a prompt: all that gives ids a meaning.
std::string fingerprint_of(std::string_view numeric_class, const ModelConfig& config, const Tokenizer* tokenizer,
                           std::uint64_t weights);

/// "fp_" and the first 16 digits of a fingerprint.
std::string short_fingerprint(std::string_view fingerprint);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/fingerprint-inl.h"
#endif
