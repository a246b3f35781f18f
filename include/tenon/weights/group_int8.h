// Weights as signed 8-bit integers in groups of 32 columns, each with a float16 scale: Q8_0 of GGUF.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "tenon/checkpoint/gguf_blocks.h"
#include "tenon/core/error.h"
#include "tenon/weights/group_weights.h"

namespace tenon {

/// The code of group int8, with the codes and scales of Q8_0: encoding the values of a matrix that GGUF stores in Q8_0
/// gives its codes again. The last group of a row may be short.
struct GroupInt8Code {
  static constexpr std::string_view name = "int8_group32";
  static constexpr DType dtype = DType::i8, scale_dtype = DType::f16;
  static constexpr int bits = 8, group = GroupInt8Panels::group;
  static constexpr bool has_scales = true, has_zero_points = false, per_tensor = false;

  static void encode(int cols, std::span<const float> rows, const ValueRange&, CodeBlock& out) {
    encode_groups<GroupInt8Code>(cols, rows, out, encode_group);
  }

  /// The code -128 .. 127 of weight i of a block, counted row by row.
  static int code(const CodeBlock& block, std::size_t i) { return static_cast<std::int8_t>(block.codes[i]); }
  TENON_HD static float decoded(int code, float scale) { return static_cast<float>(code) * scale; }

  static float value(const CodeBlock& block, int row, int col) { return group_value<GroupInt8Code>(block, row, col); }

 private:
  // `first`: index of the group's first weight in the block. Returns the scale, a float16.
  static float encode_group(std::span<const float> values, std::size_t first, std::byte* codes) {
    constexpr GgufBlock block = block_layout(DType::q8_0);
    static_assert(block.values == group && block.bytes == 2 + group);
    std::array<float, group> padded{};
    std::array<std::byte, block.bytes> encoded;
    std::copy(values.begin(), values.end(), padded.begin());
    if (!encode_blocks(DType::q8_0, padded.data(), 1, encoded.data())) {
      throw Error(Error::Kind::unsupported, "weights",
                  "holds a value beyond 8,319,008, which int8_group32 cannot hold; use another format");
    }
    std::memcpy(codes + first, encoded.data() + 2, values.size());
    float16 scale;
    std::memcpy(&scale, encoded.data(), sizeof scale);
    return static_cast<float>(scale);
  }
};

/// Weight policy: group int8 weights, float32 activations and sums.
struct GroupInt8 : GroupWeights<GroupInt8Code, GroupInt8Panels> {
  static constexpr NumericClass<GroupInt8> numeric_class{GroupInt8Code::name};
};
static_assert(WeightPolicy<GroupInt8> && WeightCode<GroupInt8Code>);

}  // namespace tenon
