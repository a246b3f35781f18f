// Weights as float32.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>

#include "tenon/core/concepts.h"
#include "tenon/core/panels.h"

namespace tenon {

/// Weight policy: float32 weights in panels.
struct Float32 {
  static constexpr NumericClass<Float32> numeric_class{"float32"};

  struct View {
    CodePanels<float> packed;

    const CodePanels<float>& panels() const { return packed; }
    TENON_HD float at(int row, int col) const {
      return packed.panel(row / kPanelRows)[col * kPanelRows + row % kPanelRows];
    }
  };

  static std::size_t bytes(Shape shape) {
    return panel_count(shape.rows) * kPanelRows * static_cast<std::size_t>(shape.cols) * sizeof(float);
  }

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
    View view;
    view.packed.codes = reinterpret_cast<const float*>(stored.data());
    view.packed.rows = shape.rows;
    view.packed.cols = shape.cols;
    return view;
  }
};
static_assert(WeightPolicy<Float32> && HasPanels<Float32::View>);

}  // namespace tenon
