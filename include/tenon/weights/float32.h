// Weights as float32, in panels of 16 rows.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "tenon/core/concepts.h"

namespace tenon {

// Panels [rows / 16, cols, 16], rows padded with zeros: sixteen outputs lie side by side, so that one load feeds sixteen
// sums and no sum is ever split across lanes.
struct Float32 {
  static constexpr int kPanelRows = 16;

  struct View {
    const float* panels = nullptr;  // [ceil(rows / 16), cols, 16]
    int rows = 0, cols = 0;

    TENON_HD const float* panel(int p) const { return panels + static_cast<std::ptrdiff_t>(p) * cols * kPanelRows; }
    TENON_HD float at(int row, int col) const { return panel(row / kPanelRows)[col * kPanelRows + row % kPanelRows]; }
  };

  static std::size_t bytes(Shape shape) {
    const auto panels = (static_cast<std::size_t>(shape.rows) + kPanelRows - 1) / kPanelRows;
    return panels * kPanelRows * static_cast<std::size_t>(shape.cols) * sizeof(float);
  }

  // rows: [n, cols], row-major, the matrix's rows first_row.. ; `packed` is the whole matrix, zeroed before.
  static void encode(Shape shape, int first_row, std::span<const float> rows, std::span<std::byte> packed) {
    const int cols = shape.cols, count = static_cast<int>(rows.size() / static_cast<std::size_t>(cols));
    float* out = reinterpret_cast<float*>(packed.data());
    for (int first = 0; first < count; first += kPanelRows) {
      float* panel = out + static_cast<std::ptrdiff_t>((first_row + first) / kPanelRows) * cols * kPanelRows;
      const float* in = rows.data() + static_cast<std::ptrdiff_t>(first) * cols;
      const int lanes = std::min(kPanelRows, count - first);
      for (int k = 0; k < cols; ++k) {
        for (int i = 0; i < lanes; ++i) panel[k * kPanelRows + i] = in[static_cast<std::ptrdiff_t>(i) * cols + k];
      }
    }
  }

  static View view(Shape shape, std::span<const std::byte> stored) {
    return {reinterpret_cast<const float*>(stored.data()), shape.rows, shape.cols};
  }
};
static_assert(WeightPolicy<Float32> && HasFloatPanels<Float32::View>);

}  // namespace tenon
