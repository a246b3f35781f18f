/// The elements in which a cache stores keys and values, and how float32 is rounded to them. A row is the key or the
/// value of one token and one head: each row is rounded on its own, once, and never again (docs/numerics.md).
#pragma once
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tenon/core/float16.h"
#include "tenon/core/views.h"

namespace tenon {

/// The upper half of a float32. (Weights<P> has a policy BFloat16, which stores matrices in it.)
struct bfloat16 {
  std::uint16_t bits;

  bfloat16() = default;  ///< trivial, like a float: bfloat16{} is 0, without braces it is uninitialised
  /// Rounds to nearest, ties to even. Overflow goes to infinity; NaN stays NaN, quiet.
  explicit constexpr bfloat16(float x) {
    const auto whole = std::bit_cast<std::uint32_t>(x);
    const bool nan = (whole & 0x7fffffffu) > 0x7f800000u;
    const std::uint32_t rounded = whole + 0x7fffu + ((whole >> 16) & 1u);
    bits = static_cast<std::uint16_t>((nan ? whole | 0x400000u : rounded) >> 16);
  }
  explicit constexpr operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};

/// An element that devices have kernels for.
template <class E>
concept BuiltInKvElement =
    std::same_as<E, float> || std::same_as<E, bfloat16> || std::same_as<E, float16> || std::same_as<E, std::int8_t>;

/// An element of a user's own, for the CPU: `encode` rounds a float32, `decode` reads it. Both are pure and
/// thread-safe; what is not finite is not read back as finite. Attention decodes a tile to float32 before it reads the
/// tile. Storage begins zeroed, so an element of zero bytes must be decodable. `E{}` pads values up to their stride.
template <class E>
concept OwnKvElement = std::is_trivially_copyable_v<E> && std::default_initializable<E> && !std::is_arithmetic_v<E> &&
                       !BuiltInKvElement<E> && alignof(E) <= 16 && requires(float x, const E element) {
  { E::encode(x) } -> std::same_as<E>;
  { element.decode() } -> std::same_as<float>;
};

/// Refinement of an element of a user's own: each row has a float32 scale. An element is then encode(x / scale), read
/// as decode() * scale. A row whose scale is not above 0 (NaN too) is stored as encode(0) and its scale.
template <class E>
concept ScalesRows = OwnKvElement<E> && requires(const float* row, int n) {
  { E::row_scale(row, n) } -> std::same_as<float>;
};

/// An element of keys and values.
template <class E>
concept KvElement = BuiltInKvElement<E> || OwnKvElement<E>;

/// A built-in element, chosen at run time.
enum class KvType : std::uint8_t { float32, bfloat16, float16, int8 };

/// Calls f(std::type_identity<E>{}) with the element E of `type`.
template <class F>
decltype(auto) with_kv_type(KvType type, F&& f) {
  switch (type) {
    case KvType::bfloat16:
      return f(std::type_identity<bfloat16>{});
    case KvType::float16:
      return f(std::type_identity<float16>{});
    case KvType::int8:
      return f(std::type_identity<std::int8_t>{});
    case KvType::float32:
      break;
  }
  return f(std::type_identity<float>{});
}

/// Whether a row is read as element * scale, with a float32 scale of its own.
template <class Element>
inline constexpr bool has_scales =
    std::is_same_v<std::remove_const_t<Element>, std::int8_t> || ScalesRows<std::remove_const_t<Element>>;

/// The scale of an int8 row, symmetric: its largest magnitude / 127, so that this magnitude becomes 127 or -127. NaN if
/// the row is not finite, so that every result of it is NaN too. 0 if the row is zero, or so small that the scale would
/// be subnormal and imprecise: such a row reads back as zeros.
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

/// x / scale to the nearest whole number, ties to even, for a scale above 0 that int8_scale made. Adding 1.5 * 2^23
/// leaves that number in the lowest bits. It is x / scale, not x * (1 / scale), because a compiler might fuse the
/// latter with the sum.
TENON_HD inline std::int8_t to_int8(float x, float scale) {
  return static_cast<std::int8_t>(std::bit_cast<std::uint32_t>(x / scale + 12582912.0f) & 0xffu);
}

/// Stores a row of n elements: element i goes to out[i * stride]. Returns the scale that the row is read with, 1 if its
/// elements have no scales.
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
template <OwnKvElement E>
float store_row(const float* row /* [n] */, int n, E* out, std::ptrdiff_t stride) {
  float scale = 1.0f;
  if constexpr (ScalesRows<E>) scale = E::row_scale(row, n);
  for (int i = 0; i < n; ++i) out[i * stride] = E::encode(scale > 0 ? row[i] / scale : 0.0f);
  return scale;
}

}  // namespace tenon
