// Weights as BFloat16 has them, and activations rounded to bfloat16 as well, for the tensor cores of an NVIDIA GPU: a numeric
// class of its own, whose sums are in an order that only that hardware has. A CPU refuses it when an engine is compiled. The
// file form is the same.
#pragma once
#include <cstddef>
#include <span>

#include "tenon/weights/bfloat16_dot.h"

namespace tenon {

struct BFloat16Mma {
  using Code = BFloat16Code;

  struct View {
    static constexpr bool on_tensor_cores = true;
    BFloat16Fragments packed;

    const BFloat16Fragments& panels() const { return packed; }
    TENON_HD float at(int row, int col) const { return BFloat16Dot::View{packed.pairs}.at(row, col); }
  };

  static std::size_t bytes(Shape shape) { return BFloat16Dot::bytes(shape); }
  static void encode(Shape shape, int first_row, std::span<const float> rows, std::span<std::byte> packed) {
    BFloat16Dot::encode(shape, first_row, rows, packed);
  }
  static void pack(Shape shape, int first_row, const CodeBlock& block, std::span<std::byte> packed) {
    BFloat16Dot::pack(shape, first_row, block, packed);
  }
  static View view(Shape shape, std::span<const std::byte> stored) { return {{BFloat16Dot::view(shape, stored).packed}}; }
};
static_assert(WeightPolicy<BFloat16Mma> && HasPanels<BFloat16Mma::View>);

}  // namespace tenon
