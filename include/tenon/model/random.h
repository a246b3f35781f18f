// Random weights in the shapes of a model, for benchmarks and tests. They need no file and no generator state.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "tenon/core/hash.h"

namespace tenon {

/// SplitMix64. Weights are a hash of (seed, tensor, element), so blocks may be computed in any order.
inline std::uint64_t mix(std::uint64_t x) { return mix64(x + 0x9e3779b97f4a7c15u); }

/// Uniform in +-0.02 sqrt 3, which has GPT-2's initial standard deviation of 0.02.
inline float random_weight(std::uint64_t key, std::uint64_t element) {
  constexpr float kReach = 0.034641016f;
  const auto bits = static_cast<std::int32_t>(mix(key ^ element) >> 40) - (1 << 23);  // -2^23 .. 2^23 - 1
  return static_cast<float>(bits) * (kReach / (1 << 23));
}

/// The key of a tensor for random_weight().
inline std::uint64_t tensor_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t key = mix(seed);
  for (const char c : name) key = mix(key ^ static_cast<unsigned char>(c));
  return key;
}

/// Rows [first, first + count) of a matrix. out: [count, cols].
inline void random_rows(std::uint64_t seed, std::string_view name, int cols, int first, int count, float* out) {
  const std::uint64_t key = tensor_key(seed, name);
  const auto begin = static_cast<std::uint64_t>(first) * static_cast<std::uint64_t>(cols);
  const auto elements = static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(cols);
  for (std::uint64_t i = 0; i < elements; ++i) out[i] = random_weight(key, begin + i);
}

/// A vector [n] in its initial state: gains of norms are 1, biases 0.
inline void random_vector(std::string_view name, int n, float* out) {
  std::fill_n(out, n, name.ends_with(".bias") ? 0.0f : 1.0f);
}

}  // namespace tenon
