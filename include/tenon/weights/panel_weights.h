// Weight policies from a code, packed in panels of sixteen rows with one code per weight.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/core/panels.h"
#include "tenon/weights/code.h"

namespace tenon {

/// `C` is the code; C::element(const std::byte*) converts a code of a file to an Element of the panels.
template <class C, class Element>
struct PanelWeights {
  using Code = C;

  struct View {
    CodePanels<Element> packed;

    const CodePanels<Element>& panels() const { return packed; }
    TENON_HD float at(int row, int col) const {
      const float code = static_cast<float>(packed.panel(row / kPanelRows)[col * kPanelRows + row % kPanelRows]);
      if constexpr (!C::has_scales) return code;
      const std::ptrdiff_t i = packed.scale_at(row);
      if constexpr (C::has_zero_points)
        return (code - packed.zero_points[i]) * packed.scales[i];
      else
        return code * packed.scales[i];
    }
  };

  static std::size_t bytes(Shape shape) {
    return whole_lines(codes_bytes(shape)) + (C::has_scales ? whole_lines(scale_bytes(shape)) : 0) +
           (C::has_zero_points ? whole_lines(scale_bytes(shape)) : 0);
  }

  // rows: [n, cols]
  static void encode(Shape shape, int first_row, std::span<const float> rows,
                     std::span<std::byte> packed) requires(!C::per_tensor) {
    encode_and_pack<PanelWeights>(shape, first_row, rows, packed);
  }
  static void encode(Shape shape, int first_row, std::span<const float> rows, std::span<std::byte> packed,
                     const ValueRange& range) requires C::per_tensor {
    encode_and_pack<PanelWeights>(shape, first_row, rows, packed, range);
  }

  static void pack(Shape shape, int first_row, const CodeBlock& block, std::span<std::byte> packed) {
    constexpr std::size_t kSize = C::bits / 8;
    auto* codes = reinterpret_cast<Element*>(packed.data());
    for (int first = 0; first < block.rows; first += kPanelRows) {
      Element* panel = codes + static_cast<std::ptrdiff_t>((first_row + first) / kPanelRows) * shape.cols * kPanelRows;
      // [lanes, cols, kSize]
      const std::byte* in =
          block.codes.data() + static_cast<std::size_t>(first) * static_cast<std::size_t>(shape.cols) * kSize;
      const int lanes = std::min(kPanelRows, block.rows - first);
      for (int k = 0; k < shape.cols; ++k) {
        for (int i = 0; i < lanes; ++i) {
          panel[k * kPanelRows + i] =
              C::element(in + static_cast<std::size_t>(i * std::ptrdiff_t{shape.cols} + k) * kSize);
        }
      }
    }
    if constexpr (C::has_scales) put(first_row, block.rows, block.scales, 0.0f, scales_of(shape, packed));
    if constexpr (C::has_zero_points) {
      put(first_row, block.rows, block.zero_points, C::zero_shift, zero_points_of(shape, packed));
    }
  }

  static View view(Shape shape, std::span<const std::byte> stored) {
    View view;
    view.packed.codes = reinterpret_cast<const Element*>(stored.data());
    if constexpr (C::has_scales) view.packed.scales = scales_of(shape, stored);
    if constexpr (C::has_zero_points) view.packed.zero_points = zero_points_of(shape, stored);
    view.packed.scale_stride = C::per_tensor ? 0 : kPanelRows;
    view.packed.rows = shape.rows;
    view.packed.cols = shape.cols;
    return view;
  }

 private:
  static std::size_t codes_bytes(Shape shape) {
    return panel_count(shape.rows) * kPanelRows * static_cast<std::size_t>(shape.cols) * sizeof(Element);
  }
  static std::size_t scale_bytes(Shape shape) {
    return (C::per_tensor ? 1 : panel_count(shape.rows)) * kPanelRows * sizeof(float);
  }
  template <class Byte>
  static auto* scales_of(Shape shape, std::span<Byte> packed) {
    using Float = std::conditional_t<std::is_const_v<Byte>, const float, float>;
    return reinterpret_cast<Float*>(packed.data() + whole_lines(codes_bytes(shape)));
  }
  template <class Byte>
  static auto* zero_points_of(Shape shape, std::span<Byte> packed) {
    using Float = std::conditional_t<std::is_const_v<Byte>, const float, float>;
    return reinterpret_cast<Float*>(packed.data() + whole_lines(codes_bytes(shape)) + whole_lines(scale_bytes(shape)));
  }
  // A per-tensor value fills every lane of the only panel. The call that packs the first rows writes it.
  static void put(int first_row, int rows, const std::vector<float>& values, float shift,
                  float* out /* [rows of the matrix], or [16] */) {
    if constexpr (C::per_tensor) {
      if (first_row == 0) std::fill_n(out, kPanelRows, values.front() - shift);
    } else {
      for (int i = 0; i < rows; ++i) out[first_row + i] = values[static_cast<std::size_t>(i)] - shift;
    }
  }
};

}  // namespace tenon
