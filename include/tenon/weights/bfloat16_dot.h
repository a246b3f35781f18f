// BFloat16 weights and activations rounded to bfloat16, for processors that multiply pairs of them. Files are those of
// BFloat16.
#pragma once
#include <cstddef>
#include <cstring>
#include <span>

#include "tenon/weights/bfloat16.h"

namespace tenon {

/// Weight policy: bfloat16 weights and activations, multiplied in pairs.
struct BFloat16Dot {
  static constexpr NumericClass<BFloat16Dot> numeric_class{"bfloat16_dot"};

  using Code = BFloat16Code;

  struct View {
    BFloat16Pairs packed;

    const BFloat16Pairs& panels() const { return packed; }
    TENON_HD float at(int row, int col) const {
      const std::ptrdiff_t panel = row / kPanelRows, lane = row % kPanelRows;
      return static_cast<float>(packed.codes[((panel * packed.pairs() + col / 2) * kPanelRows + lane) * 2 + col % 2]);
    }
  };

  static std::size_t bytes(Shape shape) {
    const std::size_t pairs = (static_cast<std::size_t>(shape.cols) + 1) / 2;
    return whole_lines(panel_count(shape.rows) * kPanelRows * pairs * 2 * sizeof(bfloat16));
  }

  static void encode(Shape shape, int first_row, std::span<const float> rows, std::span<std::byte> packed) {
    encode_and_pack<BFloat16Dot>(shape, first_row, rows, packed);
  }

  static void pack(Shape shape, int first_row, const CodeBlock& block, std::span<std::byte> packed) {
    const BFloat16Pairs view = BFloat16Dot::view(shape, packed).packed;
    auto* codes = const_cast<bfloat16*>(view.codes);
    const std::byte* in = block.codes.data();
    for (int r = 0; r < block.rows; ++r) {
      const std::ptrdiff_t panel = (first_row + r) / kPanelRows, lane = (first_row + r) % kPanelRows;
      bfloat16* out = codes + (panel * view.pairs() * kPanelRows + lane) * 2;
      for (int col = 0; col < shape.cols; ++col, in += sizeof(bfloat16))
        out[col / 2 * kPanelRows * 2 + col % 2] = Code::element(in);
    }
  }

  static View view(Shape shape, std::span<const std::byte> stored) {
    return {{reinterpret_cast<const bfloat16*>(stored.data()), shape.rows, shape.cols}};
  }
};
static_assert(WeightPolicy<BFloat16Dot> && HasPanels<BFloat16Dot::View>);

}  // namespace tenon
