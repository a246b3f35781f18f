// What a cache may store keys and values as: float, bfloat16, float16 or std::int8_t, and how float32 is rounded to
// them. A row is the key or the value of one token and one head: each is rounded on its own, once, and never again
// (docs/numerics.md).
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tenon/core/float16.h"
#include "tenon/core/views.h"

namespace tenon {

// The upper half of a float32. (Weights<P> has a policy BFloat16, which stores matrices in it.)
struct bfloat16 {
  std::uint16_t bits;

  bfloat16() = default;  // trivial, as a float is: bfloat16{} is 0, without braces it is anything
  // To nearest, ties to even; overflow goes to infinity, and NaN stays NaN, quiet.
  explicit constexpr bfloat16(float x) {
    const auto whole = std::bit_cast<std::uint32_t>(x);
    const bool nan = (whole & 0x7fffffffu) > 0x7f800000u;
    const std::uint32_t rounded = whole + 0x7fffu + ((whole >> 16) & 1u);
    bits = static_cast<std::uint16_t>((nan ? whole | 0x400000u : rounded) >> 16);
  }
  explicit constexpr operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};

// Whether a row is read as element * scale, with a float32 scale of its own.
template <class Element>
inline constexpr bool has_scales = std::is_same_v<std::remove_const_t<Element>, std::int8_t>;

// The elements that devices have kernels for.
template <class Element>
concept KvElement = std::is_same_v<Element, float> || std::is_same_v<Element, bfloat16> ||
    std::is_same_v<Element, float16> || std::is_same_v<Element, std::int8_t>;

// The scale of an int8 row, symmetric: its largest magnitude / 127, so that this becomes 127 or -127. NaN where the row
// is not finite, so that whatever reads it is not, either. 0 where the row is, or so near it that the scale would be
// subnormal and far off: such a row reads back as zeros.
TENON_HD inline float int8_scale(const float* row /* [n] */, int n) {
  std::uint32_t largest = 0;  // the bits of magnitudes order like the magnitudes, with infinity and NaN on top
  for (int i = 0; i < n; ++i) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(row[i]) & 0x7fffffffu;
    largest = magnitude > largest ? magnitude : largest;
  }
  if (largest >= 0x7f800000u) return std::numeric_limits<float>::quiet_NaN();
  const float scale = std::bit_cast<float>(largest) / 127.0f;
  return scale < std::numeric_limits<float>::min() ? 0.0f : scale;
}

// x / scale to the nearest whole number, ties to even, for a scale that int8_scale made and that is above 0. Adding
// 1.5 * 2^23 leaves that number in the lowest bits; x / scale, not x * (1 / scale), whose sum a compiler might fuse.
TENON_HD inline std::int8_t to_int8(float x, float scale) {
  return static_cast<std::int8_t>(std::bit_cast<std::uint32_t>(x / scale + 12582912.0f) & 0xffu);
}

// Element i of a row goes to out[i * stride]. Returns the scale that the row is read with: 1 where elements have none.
TENON_HD inline float store_row(const float* row /* [n] */, int n, float* out, std::ptrdiff_t stride) {
  for (int i = 0; i < n; ++i) out[i * stride] = row[i];
  return 1.0f;
}
TENON_HD inline float store_row(const float* row /* [n] */, int n, bfloat16* out, std::ptrdiff_t stride) {
  for (int i = 0; i < n; ++i) out[i * stride] = bfloat16(row[i]);
  return 1.0f;
}
TENON_HD inline float store_row(const float* row /* [n] */, int n, float16* out, std::ptrdiff_t stride) {
  for (int i = 0; i < n; ++i) out[i * stride] = float16(row[i]);
  return 1.0f;
}
TENON_HD inline float store_row(const float* row /* [n] */, int n, std::int8_t* out, std::ptrdiff_t stride) {
  const float scale = int8_scale(row, n);
  const bool readable = scale > 0;
  for (int i = 0; i < n; ++i) out[i * stride] = readable ? to_int8(row[i], scale) : std::int8_t{0};
  return scale;
}

}  // namespace tenon
