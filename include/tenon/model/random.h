// Random weights in the shapes of a model, for benchmarks and tests without a checkpoint: no file, no generator state.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "tenon/core/hash.h"

namespace tenon {

// SplitMix64: a hash of (seed, tensor, element), so that blocks may be made in any order.
inline std::uint64_t mix(std::uint64_t x) { return mix64(x + 0x9e3779b97f4a7c15u); }

// Uniform with the deviation 0.02 of GPT-2's initialisation: +-0.02 sqrt 3.
inline float random_weight(std::uint64_t key, std::uint64_t element) {
  constexpr float kReach = 0.034641016f;
  const auto bits = static_cast<std::int32_t>(mix(key ^ element) >> 40) - (1 << 23);  // -2^23 .. 2^23 - 1
  return static_cast<float>(bits) * (kReach / (1 << 23));
}

inline std::uint64_t tensor_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t key = mix(seed);
  for (const char c : name) key = mix(key ^ static_cast<unsigned char>(c));
  return key;
}

// out: [count, cols], rows first.. of a matrix.
inline void random_rows(std::uint64_t seed, std::string_view name, int cols, int first, int count, float* out) {
  const std::uint64_t key = tensor_key(seed, name);
  const auto begin = static_cast<std::uint64_t>(first) * static_cast<std::uint64_t>(cols);
  const auto elements = static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(cols);
  for (std::uint64_t i = 0; i < elements; ++i) out[i] = random_weight(key, begin + i);
}

// [n]: gains of norms are 1 and biases 0, as in a model that has just been initialised.
inline void random_vector(std::string_view name, int n, float* out) {
  std::fill_n(out, n, name.ends_with(".bias") ? 0.0f : 1.0f);
}

}  // namespace tenon
