// Weights as NormalFloat4, the four-bit code of QLoRA: a table of sixteen values, and the largest magnitude of each
// group of 64 columns in float32.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string_view>

#include "tenon/core/normal_float4.h"
#include "tenon/weights/group_weights.h"

namespace tenon {

/// The code of NormalFloat4, as bitsandbytes' quantize_4bit makes it with its blocksize of 64. Its blocks run over the
/// ends of rows; these do not. Where rows are multiples of 64 columns, encoding a decoded matrix gives its codes again.
struct NormalFloat4Code {
  static constexpr std::string_view name = "nf4";
  static constexpr DType dtype = DType::u8, scale_dtype = DType::f32;
  static constexpr int bits = 4, group = NormalFloat4Panels::group;
  static constexpr bool has_scales = true, has_zero_points = false, per_tensor = false;

  static void encode(int cols, std::span<const float> rows, const ValueRange&, CodeBlock& out) {
    encode_groups<NormalFloat4Code>(cols, rows, out, encode_group);
  }

  /// The code 0 .. 15 of weight i of a block, counted row by row.
  static int code(const CodeBlock& block, std::size_t i) { return four_bits(block, i); }
  TENON_HD static float decoded(int code, float scale) { return normal_float4(code) * scale; }

  static float value(const CodeBlock& block, int row, int col) {
    return group_value<NormalFloat4Code>(block, row, col);
  }

 private:
  // `first`: index of the group's first weight in the block. Returns the scale, the largest magnitude.
  static float encode_group(std::span<const float> values, std::size_t first, std::byte* codes) {
    float largest = 0;
    for (const float v : values) largest = std::max(largest, std::fabs(v));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const int code = nearest_normal_float4(largest > 0 ? values[i] / largest : 0.0f);
      codes[(first + i) / 2] |= static_cast<std::byte>(code << ((first + i) % 2 * 4));
    }
    return largest;
  }
};

/// Weight policy: NormalFloat4 weights, float32 activations and sums.
struct NormalFloat4 : GroupWeights<NormalFloat4Code, NormalFloat4Panels> {
  static constexpr NumericClass<NormalFloat4> numeric_class{NormalFloat4Code::name};
};
static_assert(WeightPolicy<NormalFloat4> && WeightCode<NormalFloat4Code>);

}  // namespace tenon
