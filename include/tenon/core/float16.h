// IEEE 754 binary16, to and from float32.
#pragma once
#include <bit>
#include <cstdint>

#include "tenon/core/require.h"

namespace tenon {

/// IEEE 754 binary16, as storage: arithmetic is in float32.
struct float16 {
  std::uint16_t bits;

  float16() = default;  ///< trivial, like a float
  /// Rounds to nearest, ties to even. Overflow (from 65520 on) goes to infinity; NaN stays NaN, quiet.
  explicit constexpr float16(float x) {
    const auto whole = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t sign = whole >> 16 & 0x8000u, magnitude = whole & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
      bits = static_cast<std::uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x1ffu));
    else if (magnitude >= 0x477ff000u)
      bits = static_cast<std::uint16_t>(sign | 0x7c00u);
    else if (magnitude < 0x38800000u) {
      // Subnormal, in units of 2^-24: adding 0.5 moves these to the lowest bits, and the addition rounds.
      const float moved = std::bit_cast<float>(magnitude) + 0.5f;
      bits = static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(moved) - 0x3f000000u));
    } else {
      const std::uint32_t rounded = magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u);
      bits = static_cast<std::uint16_t>(sign | rounded >> 13);
    }
  }
  explicit constexpr operator float() const {
    const std::uint32_t sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    if (magnitude >= 0x400u) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
    const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(subnormal) | sign);
  }
  friend constexpr bool operator==(float16, float16) = default;  // of bits
};

}  // namespace tenon
