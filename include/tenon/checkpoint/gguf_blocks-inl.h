#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

#include "tenon/checkpoint/gguf_blocks.h"
#include "tenon/checkpoint/gguf_bytes.h"
#include "tenon/checkpoint/gguf_grid_blocks.h"
#include "tenon/core/elements.h"
#include "tenon/core/error.h"
#include "tenon/core/float16.h"
#include "tenon/core/require.h"

namespace tenon::detail {

inline constexpr std::array<std::int8_t, 16> kIq4Values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                           1,    13,   25,  38,  53,  69,  89,  113};

// Twice the values of MXFP4's and NVFP4's codes (E2M1).
inline constexpr std::array<std::int8_t, 16> kDoubledMxfp4Values = {0, 1,  2,  3,  4,  6,  8,  12,
                                                                    0, -1, -2, -3, -4, -6, -8, -12};

// Half the scale 2^(exponent - 127), as ggml-impl.h's ggml_e8m0_to_fp32_half. Exponents 0 and 1 give subnormals.
inline float half_power(int exponent) {
  const auto e = static_cast<std::uint32_t>(exponent);
  return std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23);
}

// d: float16. 32 values d * code(i).
template <class Code>
void scaled_32(const std::byte* block, float* out, Code code) {
  const float d = half_at(block);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(code(i));
}

// d, m: float16. 32 values d * code(i) + m.
template <class Code>
void shifted_32(const std::byte* block, float* out, Code code) {
  const float d = half_at(block), m = half_at(block + 2);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(code(i)) + m;
}

// scales [16], codes of 2 bits [64], d, dmin. Runs of 16 values have a scale (low nibble) and a minimum (high nibble).
inline void decode_q2_k(const std::byte* block, float* out) {
  const float d = half_at(block + 80), dmin = half_at(block + 82);
  for (int i = 0; i < 256; ++i) {
    const int scale = byte_at(block, i / 16);
    const int code = byte_at(block + 16, i / 128 * 32 + i % 32) >> (i / 32 % 4 * 2) & 3;
    out[i] = d * static_cast<float>(scale & 15) * static_cast<float>(code) - dmin * static_cast<float>(scale >> 4);
  }
}

// high bits [32], codes of 2 bits [64], scales of 6 bits [12], d. A clear high bit subtracts 4.
inline void decode_q3_k(const std::byte* block, float* out) {
  const std::byte* const scales = block + 96;
  const float d = half_at(block + 108);
  for (int i = 0; i < 256; ++i) {
    const int run = i / 16;
    const int low = byte_at(scales, run % 8) >> (run / 8 * 4) & 15;
    const int high = byte_at(scales + 8, run % 4) >> (run / 4 * 2) & 3;
    const int code = byte_at(block + 32, i / 128 * 32 + i % 32) >> (i / 32 % 4 * 2) & 3;
    const int offset = byte_at(block, i % 32) >> (i / 32) & 1 ? 0 : 4;
    out[i] = d * static_cast<float>((low | high << 4) - 32) * static_cast<float>(code - offset);
  }
}

// The scale and the minimum of run j < 8, 6 bits each, packed in 12 bytes (ggml-quants.c, get_scale_min_k4).
struct ScaleAndMinimum {
  int scale, minimum;
};
inline ScaleAndMinimum scale_and_minimum(const std::byte* packed, int j) {
  if (j < 4) return {byte_at(packed, j) & 63, byte_at(packed, j + 4) & 63};
  const int low = byte_at(packed, j + 4);
  return {(low & 15) | (byte_at(packed, j - 4) >> 6 << 4), low >> 4 | (byte_at(packed, j) >> 6 << 4)};
}

// d, dmin, scales [12], codes [128]; with `fifth`, high bits [32] before the codes. Runs of 32 values.
inline void decode_q4_k(const std::byte* block, float* out, bool fifth) {
  const float d = half_at(block), dmin = half_at(block + 2);
  const std::byte* const codes = block + (fifth ? 48 : 16);
  for (int j = 0; j < 8; ++j) {
    const auto [scale, minimum] = scale_and_minimum(block + 4, j);
    const float step = d * static_cast<float>(scale), shift = dmin * static_cast<float>(minimum);
    for (int i = 0; i < 32; ++i) {
      int code = byte_at(codes, j / 2 * 32 + i) >> (j % 2 * 4) & 15;
      if (fifth) code |= (byte_at(block + 16, i) >> j & 1) << 4;
      out[j * 32 + i] = step * static_cast<float>(code) - shift;
    }
  }
}

// low nibbles [128], high pairs of bits [64], signed scales [16], d. Runs of 16 values.
inline void decode_q6_k(const std::byte* block, float* out) {
  const float d = half_at(block + 208);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, within = i % 128;
    const int low = byte_at(block, half * 64 + within % 64) >> (within / 64 * 4) & 15;
    const int high = byte_at(block + 128, half * 32 + i % 32) >> (within / 32 * 2) & 3;
    const float scale = d * static_cast<float>(signed_at(block + 192, i / 16));
    out[i] = scale * static_cast<float>((low | high << 4) - 32);
  }
}

// d, high bits of scales (16), low nibbles of scales [4], codes [128]. Runs of 32 values.
inline void decode_iq4_xs(const std::byte* block, float* out) {
  const float d = half_at(block);
  const int high = number_at<std::uint16_t>(block + 2);
  for (int j = 0; j < 8; ++j) {
    const int scale = packed_nibble_at(block + 4, j) | (high >> (2 * j) & 3) << 4;
    const float step = d * static_cast<float>(scale - 32);
    for (int i = 0; i < 32; ++i) {
      const int code = nibble_at(block + 8 + 16 * j, i);
      out[32 * j + i] = step * static_cast<float>(kIq4Values[static_cast<std::size_t>(code)]);
    }
  }
}

// trits [52], d. A byte b has five trits, or four in the last 4 bytes: trit k is floor(3 (3^k b mod 256) / 256). Each
// run of 32, 16 and 4 bytes has trit 0 of all its bytes first.
inline void decode_tq1_0(const std::byte* block, float* out) {
  constexpr int powers[] = {1, 3, 9, 27, 81};
  const float d = half_at(block + 52);
  const auto run = [&](int first, int bytes, int trits) {
    for (int k = 0; k < trits; ++k)
      for (int i = 0; i < bytes; ++i)
        *out++ = d * static_cast<float>(((byte_at(block, first + i) * powers[k] & 255) * 3 >> 8) - 1);
  };
  run(0, 32, 5);
  run(32, 16, 5);
  run(48, 4, 4);
}

// codes of 2 bits [64], d.
inline void decode_tq2_0(const std::byte* block, float* out) {
  const float d = half_at(block + 64);
  for (int i = 0; i < 256; ++i)
    out[i] = d * static_cast<float>((byte_at(block, i / 128 * 32 + i % 32) >> (i / 32 % 4 * 2) & 3) - 1);
}

// Half the value of an E4M3 whose sign is ignored. 0x7f is 0, as in ggml-impl.h's ggml_ue4m3_to_fp32.
inline float half_ue4m3(int bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  if (bits == 0x7f) return 0;
  return exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -10)
                       : std::ldexp(static_cast<float>(8 + mantissa), exponent - 11);
}

// scales [4], codes [32]. Runs of 16 values.
inline void decode_nvfp4(const std::byte* block, float* out) {
  for (int j = 0; j < 4; ++j) {
    const float scale = half_ue4m3(byte_at(block, j));
    for (int i = 0; i < 16; ++i) {
      const int code = byte_at(block + 4 + 8 * j, i % 8) >> (i / 8 * 4) & 15;
      out[16 * j + i] = scale * static_cast<float>(kDoubledMxfp4Values[static_cast<std::size_t>(code)]);
    }
  }
}

inline void decode_block(DType type, const std::byte* block, float* out) {
  switch (type) {
    case DType::q4_0:
      return scaled_32(block, out, [&](int i) { return nibble_at(block + 2, i) - 8; });
    case DType::q4_1:
      return shifted_32(block, out, [&](int i) { return nibble_at(block + 4, i); });
    case DType::q5_0:
      return scaled_32(block, out, [&](int i) { return (nibble_at(block + 6, i) | bit_at(block + 2, i) << 4) - 16; });
    case DType::q5_1:
      return shifted_32(block, out, [&](int i) { return nibble_at(block + 8, i) | bit_at(block + 4, i) << 4; });
    case DType::q8_0:
      return scaled_32(block, out, [&](int i) { return signed_at(block + 2, i); });
    case DType::iq4_nl:
      return scaled_32(block, out,
                       [&](int i) { return kIq4Values[static_cast<std::size_t>(nibble_at(block + 2, i))]; });
    case DType::mxfp4: {  // exponent [1], codes [16]
      const float d = half_power(byte_at(block, 0));
      for (int i = 0; i < 32; ++i)
        out[i] = d * static_cast<float>(kDoubledMxfp4Values[static_cast<std::size_t>(nibble_at(block + 1, i))]);
      return;
    }
    case DType::q2_k:
      return decode_q2_k(block, out);
    case DType::q3_k:
      return decode_q3_k(block, out);
    case DType::q4_k:
      return decode_q4_k(block, out, false);
    case DType::q5_k:
      return decode_q4_k(block, out, true);
    case DType::q6_k:
      return decode_q6_k(block, out);
    case DType::iq4_xs:
      return decode_iq4_xs(block, out);
    case DType::tq1_0:
      return decode_tq1_0(block, out);
    case DType::tq2_0:
      return decode_tq2_0(block, out);
    case DType::nvfp4:
      return decode_nvfp4(block, out);
    default:
      return decode_grid_block(type, block, out);
  }
}

// The product, rounded to float32. The product of the two doubles is exact, so contraction with a sum is impossible.
inline float rounded_product(float a, float b) {
  return static_cast<float>(static_cast<double>(a) * static_cast<double>(b));
}

// The scale of a block and its inverse; 0 if the inverse is no finite number, and then all codes are those of 0.
struct BlockScale {
  float scale, inverse;
  explicit BlockScale(float d) : scale(d), inverse(d == 0 ? 0.0f : 1.0f / d) {
    if (!std::isfinite(inverse)) inverse = 0;
  }
  // Writes the scale as float16. False if it is beyond the largest one.
  bool store(std::byte* out) const {
    const float16 half(scale);
    std::memcpy(out, &half.bits, sizeof half.bits);
    return std::isfinite(static_cast<float>(half));
  }
};

// Codes -127 .. 127, to nearest, ties away from zero.
inline bool encode_q8_0(const float* values, std::byte* out) {
  float largest = 0;
  for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(values[i]));
  const BlockScale scale(largest / 127);
  for (int i = 0; i < 32; ++i) {
    const float x = rounded_product(values[i], scale.inverse), whole = std::floor(std::fabs(x));
    const float magnitude = whole + std::floor(2 * (std::fabs(x) - whole));
    out[2 + i] = static_cast<std::byte>(static_cast<std::int8_t>(std::copysign(magnitude, x)));
  }
  return scale.store(out);
}

// The first of the values with the largest magnitude has the code 0, which stands for -8.
inline bool encode_q4_0(const float* values, std::byte* out) {
  float extreme = values[0];
  for (int i = 1; i < 32; ++i) extreme = std::fabs(values[i]) > std::fabs(extreme) ? values[i] : extreme;
  const BlockScale scale(extreme / -8);
  const auto code = [&](int i) {
    return std::min(15, static_cast<int>(rounded_product(values[i], scale.inverse) + 8.5f));
  };
  for (int i = 0; i < 16; ++i) out[2 + i] = static_cast<std::byte>(code(i) | code(i + 16) << 4);
  return scale.store(out);
}

template <class Float>
bool encode_16_bits(float value, std::byte* out) {
  const Float rounded(value);
  std::memcpy(out, &rounded.bits, sizeof rounded.bits);
  return std::isfinite(static_cast<float>(rounded));
}

inline bool encode_block(DType type, const float* values, std::byte* out) {
  switch (type) {
    case DType::f32:
      std::memcpy(out, values, sizeof *values);
      return true;
    case DType::f16:
      return encode_16_bits<float16>(*values, out);
    case DType::bf16:
      return encode_16_bits<bfloat16>(*values, out);
    case DType::q8_0:
      return encode_q8_0(values, out);
    case DType::q4_0:
      return encode_q4_0(values, out);
    default:
      throw Error(Error::Kind::internal, std::string(dtype_name(type)), "is not encoded");
  }
}

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE bool encode_blocks(DType type, const float* values, std::size_t count, std::byte* out) {
  const GgufBlock layout = block_layout(type);
  bool fits = true;
  for (std::size_t i = 0; i < count; ++i)
    fits = detail::encode_block(type, values + i * static_cast<std::size_t>(layout.values),
                                out + i * static_cast<std::size_t>(layout.bytes)) &&
           fits;
  return fits;
}

TENON_INLINE void decode_blocks(DType type, const std::byte* blocks, std::size_t count, float* out) {
  const GgufBlock layout = block_layout(type);
  for (std::size_t i = 0; i < count; ++i)
    detail::decode_block(type, blocks + i * static_cast<std::size_t>(layout.bytes),
                         out + i * static_cast<std::size_t>(layout.values));
}

}  // namespace tenon
