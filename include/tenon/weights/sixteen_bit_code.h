// The code of BFloat16 and Float16: one 16-bit float per weight, as in safetensors.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstring>
#include <span>

#include "tenon/core/error.h"
#include "tenon/weights/panel_weights.h"

namespace tenon {

/// A code of 16-bit floats without scales. Error unsupported for values beyond its largest number.
template <class Float, DType kType>
struct SixteenBitCode {
  static constexpr DType dtype = kType, scale_dtype = DType::f32;
  static constexpr int bits = 16, group = 0;
  static constexpr bool has_scales = false, has_zero_points = false, per_tensor = false;

  static Float element(const std::byte* code) {
    Float x;
    std::memcpy(&x, code, sizeof x);
    return x;
  }

  static void encode(int cols, std::span<const float> rows, const ValueRange&, CodeBlock& out) {
    out.rows = static_cast<int>(rows.size() / static_cast<std::size_t>(cols));
    out.cols = cols;
    out.codes.resize(rows.size() * sizeof(Float));
    float largest = 0;
    auto* codes = reinterpret_cast<Float*>(out.codes.data());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      codes[i] = Float(rows[i]);
      const float size = std::fabs(static_cast<float>(codes[i]));
      largest = size > largest ? size : largest;
    }
    if (!std::isfinite(largest)) {
      throw Error(Error::Kind::unsupported, "weights",
                  "holds a value that a 16-bit float of this format cannot hold; use another format");
    }
  }

  static float value(const CodeBlock& block, int row, int col) {
    const auto i = static_cast<std::size_t>(row) * static_cast<std::size_t>(block.cols) + static_cast<std::size_t>(col);
    return static_cast<float>(element(block.codes.data() + i * sizeof(Float)));
  }
};

}  // namespace tenon
