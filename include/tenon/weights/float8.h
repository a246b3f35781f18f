// Weights as eight-bit floats with one scale per row, which maps the row's largest magnitude to the format's largest.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "tenon/core/float8.h"
#include "tenon/weights/panel_weights.h"

namespace tenon {

/// The code of float8 weights. `Format`: E4M3 or E5M2.
template <class Format>
struct Float8Code {
  static constexpr bool is_e4m3 = Format::mantissa_bits == 3;
  static constexpr std::string_view name = is_e4m3 ? "float8_e4m3" : "float8_e5m2";
  static constexpr DType dtype = is_e4m3 ? DType::f8_e4m3 : DType::f8_e5m2, scale_dtype = DType::f32;
  static constexpr int bits = 8, group = 0;
  static constexpr bool has_scales = true, has_zero_points = false, per_tensor = false;

  static float8<Format> element(const std::byte* code) {
    float8<Format> x;
    x.bits = static_cast<std::uint8_t>(*code);
    return x;
  }

  static void encode(int cols, std::span<const float> rows, const ValueRange&, CodeBlock& out) {
    out.rows = static_cast<int>(rows.size() / static_cast<std::size_t>(cols));
    out.cols = cols;
    out.codes.resize(rows.size());
    out.scales.resize(static_cast<std::size_t>(out.rows));
    for (int r = 0; r < out.rows; ++r) {
      const auto begin = static_cast<std::size_t>(r) * static_cast<std::size_t>(cols);
      const std::span<const float> row = rows.subspan(begin, static_cast<std::size_t>(cols));
      ValueRange range;
      range.add(row);
      float scale = std::max(range.largest, -range.least) / Format::largest;
      if (scale < std::numeric_limits<float>::min())
        scale = 0;  // a subnormal scale would be inaccurate: the row becomes all zeros
      out.scales[static_cast<std::size_t>(r)] = scale;
      for (std::size_t i = 0; i < row.size(); ++i) {
        out.codes[begin + i] = static_cast<std::byte>(float8<Format>(scale > 0 ? row[i] / scale : 0.0f).bits);
      }
    }
  }

  static float value(const CodeBlock& block, int row, int col) {
    const auto i = static_cast<std::size_t>(row) * static_cast<std::size_t>(block.cols) + static_cast<std::size_t>(col);
    return static_cast<float>(element(block.codes.data() + i)) * block.scales[static_cast<std::size_t>(row)];
  }
};

/// Weight policy: float8 weights in panels, float32 activations and sums.
template <class Format>
struct Float8 : PanelWeights<Float8Code<Format>, float8<Format>> {
  static constexpr NumericClass<Float8> numeric_class{Float8Code<Format>::name};
};
static_assert(WeightPolicy<Float8<E4M3>> && WeightPolicy<Float8<E5M2>> && WeightCode<Float8Code<E4M3>>);

}  // namespace tenon
