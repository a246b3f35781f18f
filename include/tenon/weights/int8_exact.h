// A head in float32 with an int8 copy: where only the best logits are asked for, the copy says which rows they can be
// among, and only those are read in float32. The same bits as Head<Float32>; a quarter of the bytes a step, five
// quarters in memory.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tenon/weights/float32.h"
#include "tenon/weights/int8.h"

namespace tenon {

struct Int8Exact {
  using Rough = ZeroPointInt8;

  struct View {
    ExactAndRough packed;

    const CodePanels<float>& panels() const { return packed.exact; }
    const ExactAndRough& exact_and_rough() const { return packed; }
    TENON_HD float at(int row, int col) const { return Float32::View{packed.exact}.at(row, col); }
  };

 private:
  // Sections: float32, int8, errors.
  static std::size_t rough_begin(Shape shape) { return whole_lines(Float32::bytes(shape)); }
  static std::size_t errors_begin(Shape shape) { return rough_begin(shape) + whole_lines(Rough::bytes(shape)); }
  template <class Byte>
  static std::span<Byte> rough_of(Shape shape, std::span<Byte> packed) {
    return packed.subspan(rough_begin(shape), Rough::bytes(shape));
  }

 public:
  static std::size_t bytes(Shape shape) {
    return errors_begin(shape) + panel_count(shape.rows) * kPanelRows * sizeof(float);
  }

  static void encode(Shape shape, int first_row, std::span<const float> rows, std::span<std::byte> packed) {
    CodeBlock block;
    Rough::Code::encode(shape.cols, rows, {}, block);
    Float32::encode(shape, first_row, rows, packed.first(Float32::bytes(shape)));
    Rough::pack(shape, first_row, block, rough_of(shape, packed));
    auto* errors = reinterpret_cast<float*>(packed.data() + errors_begin(shape));
    for (int r = 0; r < block.rows; ++r) {
      float furthest = 0;
      for (int k = 0; k < shape.cols; ++k) {
        const float w =
            rows[static_cast<std::size_t>(r) * static_cast<std::size_t>(shape.cols) + static_cast<std::size_t>(k)];
        furthest = std::max(furthest, std::fabs(w - Rough::Code::value(block, r, k)));
      }
      errors[first_row + r] = bound(furthest, block.scales[static_cast<std::size_t>(r)], shape.cols);
    }
  }

  static View view(Shape shape, std::span<const std::byte> stored) {
    return {{Float32::view(shape, stored).packed, Rough::view(shape, rough_of(shape, stored)).packed,
             reinterpret_cast<const float*>(stored.data() + errors_begin(shape))}};
  }

 private:
  // What a rough weight is off by, and the roundings of both sums: of two chains of `cols` fused multiply-adds and a
  // few operations more, each off by 2^-24 of a sum that no order makes larger than the largest weight, at most 256
  // scale + furthest, times the sum of |x|.
  static float bound(float furthest, float scale, int cols) {
    const double weight = 256.0 * static_cast<double>(scale) + static_cast<double>(furthest);
    const double roundings = (2.0 * cols + 64.0) * 0x1p-24 * weight;
    return static_cast<float>((static_cast<double>(furthest) + roundings) * (1.0 + 0x1p-16));
  }
};
static_assert(WeightPolicy<Int8Exact> && HasRoughPanels<Int8Exact::View>);

}  // namespace tenon
