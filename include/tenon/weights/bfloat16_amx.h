// bfloat16 weights and activations, summed in the order of AMX's tiles. This is its own numeric class. Xeons since 2023
// multiply with tdpbf16ps. Other processors get the same bits with fused multiply-adds. It reads the same files as
// BFloat16.
#pragma once
#include <cstddef>
#include <span>

#include "tenon/weights/bfloat16_dot.h"

namespace tenon {

/// Weight policy: bfloat16 weights and activations, summed in AMX's order.
struct BFloat16Amx {
  static constexpr NumericClass<BFloat16Amx> numeric_class{"bfloat16_amx"};

  using Code = BFloat16Code;

  struct View {
    BFloat16Blocks packed;

    const BFloat16Blocks& panels() const { return packed; }
    TENON_HD float at(int row, int col) const {
      return BFloat16Dot::View{{packed.codes, packed.rows, packed.cols}}.at(row, col);
    }
  };

  static std::size_t bytes(Shape shape) { return BFloat16Dot::bytes(shape); }
  static void encode(Shape shape, int first_row, std::span<const float> rows, std::span<std::byte> packed) {
    BFloat16Dot::encode(shape, first_row, rows, packed);
  }
  static void pack(Shape shape, int first_row, const CodeBlock& block, std::span<std::byte> packed) {
    BFloat16Dot::pack(shape, first_row, block, packed);
  }
  static View view(Shape shape, std::span<const std::byte> stored) {
    const BFloat16Pairs pairs = BFloat16Dot::view(shape, stored).packed;
    return {{pairs.codes, pairs.rows, pairs.cols}};
  }
};
static_assert(WeightPolicy<BFloat16Amx> && HasPanels<BFloat16Amx::View>);

}  // namespace tenon
