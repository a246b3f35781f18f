// The block types of GGUF, decoded to float32 with the bits of gguf-py's `dequantize`, and some of them encoded with
// those of its `quantize` (gguf 0.19, quants.py).
//
// A block is a run of 32, 64 or 256 values of one row. Each value is `scale * code` or `scale * code - minimum`. The
// products before a sum have at most 22 bits: 11 of a float16 scale, 6 of a sub-scale, 5 of a code. They are exact in
// float32, so a compiler that contracts product and sum changes no bit (docs/numerics.md, R3).
#pragma once
#include <cstddef>

#include "tenon/checkpoint/dtype.h"

namespace tenon {

/// Values and bytes of one block.
struct GgufBlock {
  int values, bytes;
};

/// The layout of a block type. Any other type has blocks of one value.
constexpr GgufBlock block_layout(DType type) {
  switch (type) {
    case DType::q4_0:
    case DType::iq4_nl:
      return {32, 18};
    case DType::q4_1:
      return {32, 20};
    case DType::q5_0:
      return {32, 22};
    case DType::q5_1:
      return {32, 24};
    case DType::q8_0:
      return {32, 34};
    case DType::mxfp4:
      return {32, 17};
    case DType::q2_k:
      return {256, 84};
    case DType::q3_k:
      return {256, 110};
    case DType::q4_k:
      return {256, 144};
    case DType::q5_k:
      return {256, 176};
    case DType::q6_k:
      return {256, 210};
    case DType::iq4_xs:
      return {256, 136};
    case DType::tq1_0:
      return {256, 54};
    case DType::tq2_0:
    case DType::iq2_xxs:
      return {256, 66};
    case DType::iq2_xs:
      return {256, 74};
    case DType::iq2_s:
      return {256, 82};
    case DType::iq3_xxs:
      return {256, 98};
    case DType::iq3_s:
      return {256, 110};
    case DType::iq1_s:
      return {256, 50};
    case DType::iq1_m:
      return {256, 56};
    case DType::nvfp4:
      return {64, 36};
    default:
      return {1, dtype_bits(type) / 8};
  }
}

/// Decodes `count` blocks of a block type. blocks: [count, bytes of a block]; out: [count, values of a block].
/// A scale that is not finite gives values that are not finite.
void decode_blocks(DType type, const std::byte* blocks, std::size_t count, float* out);

/// Whether encode_blocks writes this type: f32, f16, bf16, q8_0 and q4_0.
constexpr bool is_encoded(DType type) { return is_weight(type) || type == DType::q8_0 || type == DType::q4_0; }

/// Encodes finite float32 values. values: [count, values of a block]; out: [count, bytes of a block]. Returns false if
/// a value, or the scale of a block, is beyond the largest number of its 16-bit float. Error internal for another type.
bool encode_blocks(DType type, const float* values, std::size_t count, std::byte* out);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/gguf_blocks-inl.h"
#endif
