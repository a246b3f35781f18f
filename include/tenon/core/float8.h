/// Eight-bit floats (Micikevicius et al., 2022; the OCP specification OFP8): E4M3 without infinities, up to 448; E5M2
/// in the form of IEEE 754, up to 57344.
#pragma once
#include <bit>
#include <cstdint>

#include "tenon/core/float16.h"

namespace tenon {

/// 4 bits of exponent, 3 of mantissa.
struct E4M3 {
  static constexpr int mantissa_bits = 3, smallest_exponent = -6;  ///< exponent of normal numbers
  static constexpr float largest = 448.0f;
};
/// 5 bits of exponent, 2 of mantissa.
struct E5M2 {
  static constexpr int mantissa_bits = 2, smallest_exponent = -14;
  static constexpr float largest = 57344.0f;
};

/// A float of one byte, as storage: arithmetic is in float32. Format: E4M3 or E5M2.
template <class Format>
struct float8 {
  std::uint8_t bits;

  float8() = default;  ///< trivial, like a float
  /// Rounds to nearest, ties to even, and saturates at the largest of its sign. The caller refuses NaN.
  explicit constexpr float8(float x) {
    constexpr int kDropped = 23 - Format::mantissa_bits;
    constexpr auto kLargest = std::bit_cast<std::uint32_t>(Format::largest);
    const auto whole = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t sign = whole >> 24 & 0x80u, magnitude = whole & 0x7fffffffu;
    // The exponent's bias moves by kRebias; below it, numbers are multiples of the smallest subnormal.
    constexpr auto kRebias = static_cast<std::uint32_t>(Format::smallest_exponent - 1 + 127) << 23;
    constexpr auto kSmallestNormal = static_cast<std::uint32_t>(Format::smallest_exponent + 127) << 23;
    std::uint32_t code = 0;
    if (magnitude < kSmallestNormal) {
      // Adding 2^(smallest + dropped) leaves whole subnormals in the lowest bits, rounded.
      constexpr auto kMove = static_cast<std::uint32_t>(Format::smallest_exponent + kDropped + 127) << 23;
      code = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(kMove)) - kMove;
    } else {
      const std::uint32_t rounded = magnitude + ((1u << (kDropped - 1)) - 1u) + (magnitude >> kDropped & 1u);
      code = ((rounded < kLargest ? rounded : kLargest) - kRebias) >> kDropped;
    }
    bits = static_cast<std::uint8_t>(sign | code);
  }
  explicit constexpr operator float() const {
    const std::uint32_t sign = (bits & 0x80u) << 24, code = bits & 0x7fu;
    constexpr int kDropped = 23 - Format::mantissa_bits;
    constexpr auto kRebias = static_cast<std::uint32_t>(Format::smallest_exponent - 1 + 127) << 23;
    if (code >> Format::mantissa_bits != 0) return std::bit_cast<float>(sign | ((code << kDropped) + kRebias));
    constexpr auto kUnit = static_cast<std::uint32_t>(Format::smallest_exponent - Format::mantissa_bits + 127) << 23;
    const float subnormal = static_cast<float>(code) * std::bit_cast<float>(kUnit);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(subnormal) | sign);
  }
  friend constexpr bool operator==(float8, float8) = default;  // of bits
};
/// Whether the code is a finite number. The conversion from float32 never makes the codes of infinities and NaN;
/// reading them back is undefined, and a file that holds them is refused.
template <class Format>
constexpr bool finite(float8<Format> x) {
  const int code = x.bits & 0x7f;
  return Format::mantissa_bits == 3 ? code != 0x7f : code < 0x7c;
}

}  // namespace tenon
