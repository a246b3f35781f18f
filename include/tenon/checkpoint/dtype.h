// The element types of safetensors, the block types of GGUF, and the exact widening of 16-bit floats to float32.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tenon/core/require.h"

namespace tenon {

/// Element types, with names and sizes as in safetensors 0.8 (tensor.rs, Dtype). Only f32, f16 and bf16 can be read as
/// weights (is_weight). The others are known so that files with such tensors can be laid out; models do not use them.
/// From q4_0 on: block types of GGUF, which gguf_blocks.h decodes. quantised: matrices that a MatrixDecoder decodes.
enum class DType : std::uint8_t {
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  mxfp4,
  iq4_xs,
  tq1_0,
  tq2_0,
  iq2_xxs,
  iq2_xs,
  iq2_s,
  iq3_xxs,
  iq3_s,
  iq1_s,
  iq1_m,
  nvfp4,
  quantised,
};

namespace detail {
struct DTypeEntry {
  DType type;
  int bits;  // 0: a block type or quantised
  std::string_view name;
};
inline constexpr DTypeEntry kDTypes[] = {
    {DType::boolean, 8, "BOOL"},
    {DType::f4, 4, "F4"},
    {DType::f6_e2m3, 6, "F6_E2M3"},
    {DType::f6_e3m2, 6, "F6_E3M2"},
    {DType::u8, 8, "U8"},
    {DType::i8, 8, "I8"},
    {DType::f8_e5m2, 8, "F8_E5M2"},
    {DType::f8_e4m3, 8, "F8_E4M3"},
    {DType::f8_e8m0, 8, "F8_E8M0"},
    {DType::f8_e4m3fnuz, 8, "F8_E4M3FNUZ"},
    {DType::f8_e5m2fnuz, 8, "F8_E5M2FNUZ"},
    {DType::i16, 16, "I16"},
    {DType::u16, 16, "U16"},
    {DType::f16, 16, "F16"},
    {DType::bf16, 16, "BF16"},
    {DType::i32, 32, "I32"},
    {DType::u32, 32, "U32"},
    {DType::f32, 32, "F32"},
    {DType::c64, 64, "C64"},
    {DType::f64, 64, "F64"},
    {DType::i64, 64, "I64"},
    {DType::u64, 64, "U64"},
    {DType::q4_0, 0, "Q4_0"},
    {DType::q4_1, 0, "Q4_1"},
    {DType::q5_0, 0, "Q5_0"},
    {DType::q5_1, 0, "Q5_1"},
    {DType::q8_0, 0, "Q8_0"},
    {DType::q2_k, 0, "Q2_K"},
    {DType::q3_k, 0, "Q3_K"},
    {DType::q4_k, 0, "Q4_K"},
    {DType::q5_k, 0, "Q5_K"},
    {DType::q6_k, 0, "Q6_K"},
    {DType::iq4_nl, 0, "IQ4_NL"},
    {DType::mxfp4, 0, "MXFP4"},
    {DType::iq4_xs, 0, "IQ4_XS"},
    {DType::tq1_0, 0, "TQ1_0"},
    {DType::tq2_0, 0, "TQ2_0"},
    {DType::iq2_xxs, 0, "IQ2_XXS"},
    {DType::iq2_xs, 0, "IQ2_XS"},
    {DType::iq2_s, 0, "IQ2_S"},
    {DType::iq3_xxs, 0, "IQ3_XXS"},
    {DType::iq3_s, 0, "IQ3_S"},
    {DType::iq1_s, 0, "IQ1_S"},
    {DType::iq1_m, 0, "IQ1_M"},
    {DType::nvfp4, 0, "NVFP4"},
    {DType::quantised, 0, "quantised"},
};
}  // namespace detail

/// Whether elements are stored in blocks (gguf_blocks.h). No safetensors file has such a type.
constexpr bool is_block(DType type) { return type >= DType::q4_0 && type != DType::quantised; }
/// Bits of one element; 0 for a block type and for `quantised`.
constexpr int dtype_bits(DType type) { return detail::kDTypes[static_cast<std::size_t>(type)].bits; }
/// Name in a safetensors header, or of a GGUF type: "BF16", "Q4_K".
constexpr std::string_view dtype_name(DType type) { return detail::kDTypes[static_cast<std::size_t>(type)].name; }
/// Whether elements of this type can be read as weights.
constexpr bool is_weight(DType type) { return type == DType::f32 || type == DType::f16 || type == DType::bf16; }

/// The safetensors type of this name; empty where the name is unknown.
constexpr std::optional<DType> dtype_of(std::string_view name) {
  for (const auto& each : detail::kDTypes)
    if (each.name == name && each.bits > 0) return each.type;
  return std::nullopt;
}

/// IEEE binary16 to binary32, exactly, NaN payloads included.
/// A subnormal m 2^-24 is computed as (1 + m 2^-10) 2^-14 - 2^-14. This is exact and avoids float32 subnormals. A
/// thread that flushes them to zero therefore reads the same weights.
constexpr float float_of_f16(std::uint16_t half) {
  constexpr std::uint32_t rebias = (127 - 15) << 23, top = 31u << 23, smallest_normal = (127 - 14) << 23;
  const std::uint32_t sign = (half & 0x8000u) << 16, magnitude = (half & 0x7fffu) << 13;
  // Masks instead of branches: g++ sinks the subtraction into a branch, and then does not vectorise for plain x86-64.
  const std::uint32_t special = 0u - std::uint32_t{magnitude >= top};   // infinity or NaN: exponent becomes 255
  const std::uint32_t tiny = 0u - std::uint32_t{magnitude < 1u << 23};  // subnormal or zero
  const std::uint32_t normal = magnitude + rebias + (special & rebias);
  const float subnormal = std::bit_cast<float>(magnitude + smallest_normal) - std::bit_cast<float>(smallest_normal);
  return std::bit_cast<float>(sign | (tiny & std::bit_cast<std::uint32_t>(subnormal)) | (~tiny & normal));
}

/// bfloat16 to binary32, exactly.
constexpr float float_of_bf16(std::uint16_t upper) { return std::bit_cast<float>(std::uint32_t{upper} << 16); }

namespace detail {
// Works in strips of a fixed length: g++ -O2 vectorises a loop only where it knows the trip count.
template <float (*Convert)(std::uint16_t)>
inline void widen(const std::uint16_t* in, float* out, std::size_t n) {
  constexpr std::size_t strip = 16;
  const std::size_t whole = n - n % strip;
  for (std::size_t i = 0; i < whole; i += strip)
    for (std::size_t j = 0; j < strip; ++j) out[i + j] = Convert(in[i + j]);
  for (std::size_t i = whole; i < n; ++i) out[i] = Convert(in[i]);
}
}  // namespace detail

/// Widens n elements of type f16 or bf16. in, out: [n], not overlapping.
void floats_of_f16(const std::uint16_t* in, float* out, std::size_t n);
void floats_of_bf16(const std::uint16_t* in, float* out, std::size_t n);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/dtype-inl.h"
#endif
