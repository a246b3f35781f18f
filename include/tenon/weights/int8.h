// Weights as unsigned 8-bit integers with a scale and a zero point: (q - zero_point) * scale. Panels store codes and
// zero points minus 128. The summed terms then lie around zero, and less precision is lost where the two cancel.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "tenon/core/error.h"
#include "tenon/weights/panel_weights.h"

namespace tenon {

/// Granularities of ZeroPointInt8Of. PerRow rounds to the nearest code; its zero point is an integer, so a weight of 0
/// stays 0. PerTensor is that of the literature: scale = (max - min) / 255, q = (w - min) / scale truncated, and the
/// value is q * scale + min. 0 counts as a value of the matrix, so min is at most 0.
struct PerRow {};
struct PerTensor {};

/// The code of int8 weights.
template <class Granularity>
struct Int8Code {
  static constexpr bool per_tensor = std::is_same_v<Granularity, PerTensor>;
  static constexpr std::string_view name = per_tensor ? "int8_tensor" : "int8";
  static constexpr DType dtype = DType::u8, scale_dtype = DType::f32;
  static constexpr int bits = 8, group = 0;
  static constexpr bool has_scales = true, has_zero_points = true;
  static constexpr float zero_shift = 128.0f;

  static std::int8_t element(const std::byte* code) {
    return static_cast<std::int8_t>(static_cast<std::uint8_t>(*code ^ std::byte{0x80}));
  }

  static void encode(int cols, std::span<const float> rows, const ValueRange& range, CodeBlock& out) {
    out.rows = static_cast<int>(rows.size() / static_cast<std::size_t>(cols));
    out.cols = cols;
    out.codes.resize(rows.size());
    const std::size_t scales = per_tensor ? 1 : static_cast<std::size_t>(out.rows);
    out.scales.resize(scales);
    out.zero_points.resize(scales);
    for (int r = 0; r < out.rows; ++r) {
      const auto begin = static_cast<std::size_t>(r) * static_cast<std::size_t>(cols);
      encode_row(rows.subspan(begin, static_cast<std::size_t>(cols)), range, out.codes.data() + begin,
                 out.scales[per_tensor ? 0 : static_cast<std::size_t>(r)],
                 out.zero_points[per_tensor ? 0 : static_cast<std::size_t>(r)]);
    }
  }

  static float value(const CodeBlock& block, int row, int col) {
    const auto i = static_cast<std::size_t>(row) * static_cast<std::size_t>(block.cols) + static_cast<std::size_t>(col);
    const std::size_t s = per_tensor ? 0 : static_cast<std::size_t>(row);
    // The same expression as in panels.
    return (static_cast<float>(element(&block.codes[i])) - (block.zero_points[s] - zero_shift)) * block.scales[s];
  }

 private:
  static void encode_row(std::span<const float> row, const ValueRange& whole, std::byte* codes, float& scale,
                         float& zero_point) {
    ValueRange range;
    if constexpr (per_tensor)
      range = whole;
    else
      range.add(row);
    scale = (range.largest - range.least) / 255.0f;
    if (!std::isfinite(scale)) {
      throw Error(Error::Kind::unsupported, "weights",
                  "has a range beyond 3.4e38, which int8 cannot hold; use another format");
    }
    if (scale < std::numeric_limits<float>::min())
      scale = 0;  // a subnormal scale would be inaccurate: the row becomes all zeros
    zero_point = scale > 0 ? -range.least / scale : 0.0f;
    if constexpr (!per_tensor) zero_point = std::nearbyint(zero_point);
    if (scale == 0) return std::fill_n(codes, row.size(), std::byte{0}), void();
    for (std::size_t i = 0; i < row.size(); ++i) {
      codes[i] = per_tensor ? truncated(row[i], range) : nearest(row[i] / scale + zero_point);
    }
  }

  // In double, so that the largest value becomes 255 and not 254.99998.
  static std::byte truncated(float w, const ValueRange& range) {
    const double least = static_cast<double>(range.least), width = static_cast<double>(range.largest) - least;
    return static_cast<std::byte>(static_cast<int>((static_cast<double>(w) - least) / width * 255.0));
  }

  // Adding 1.5 * 2^23 leaves the nearest integer in the lowest bits, ties to even.
  static std::byte nearest(float q) {
    const float inside = q < 0.0f ? 0.0f : q > 255.0f ? 255.0f : q;
    return static_cast<std::byte>(std::bit_cast<std::uint32_t>(inside + 12582912.0f) & 0xffu);
  }
};

/// Weight policy: int8 weights in panels, float32 activations and sums.
template <class Granularity>
struct ZeroPointInt8Of : PanelWeights<Int8Code<Granularity>, std::int8_t> {
  static constexpr NumericClass<ZeroPointInt8Of> numeric_class{Int8Code<Granularity>::name};
};
using ZeroPointInt8 = ZeroPointInt8Of<PerRow>;
static_assert(WeightPolicy<ZeroPointInt8> && WeightCode<Int8Code<PerTensor>>);

}  // namespace tenon
