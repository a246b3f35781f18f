/// NaN and infinity, found by bit pattern, and bounds that round towards infinity.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "tenon/core/require.h"

namespace tenon {

/// Whether no element is NaN or infinite. Compared as integers, so that no compiler flag can remove the check.
inline bool all_finite(std::span<const float> values) {
  constexpr std::size_t strip = 64;
  const auto odd = [](float value) { return (std::bit_cast<std::uint32_t>(value) & 0x7f800000u) == 0x7f800000u; };
  const std::size_t whole = values.size() - values.size() % strip;
  for (std::size_t i = 0; i < whole; i += strip) {
    std::uint32_t found = 0;
    for (std::size_t j = 0; j < strip; ++j) found |= std::uint32_t{odd(values[i + j])};
    if (found != 0) return false;
  }
  for (std::size_t i = whole; i < values.size(); ++i)
    if (odd(values[i])) return false;
  return true;
}

/// A float above a bound of 0 or more. Infinity if the bound exceeds all other floats, or is NaN.
inline float float_above(double bound) {
  using Float = std::numeric_limits<float>;
  bound = bound * (1.0 + 0x1p-20) + static_cast<double>(Float::min());
  return bound < static_cast<double>(Float::max()) ? static_cast<float>(bound) : Float::infinity();
}

}  // namespace tenon
