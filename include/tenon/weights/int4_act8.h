// GroupInt4 weights, and activations rounded to int8 with one scale per token: the sum of a group is exact in integers.
// Files are those of GroupInt4.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "tenon/core/concepts.h"
#include "tenon/core/panels.h"
#include "tenon/weights/int4_code.h"

namespace tenon {

/// Weight policy: int4 weights with one scale per `Group` columns, int8 activations.
template <int Group>
struct GroupInt4Act8Of {
  static constexpr NumericClass<GroupInt4Act8Of> numeric_class{Group == 32   ? "int4_act8"
                                                               : Group == 64 ? "int4_act8_group64"
                                                                             : "int4_act8_group128"};

  using Code = Int4Code<Group>;

  struct View {
    Int4Quads packed;

    const Int4Quads& panels() const { return packed; }
    TENON_HD float at(int row, int col) const {
      const std::ptrdiff_t panel = row / kPanelRows, lane = row % kPanelRows;
      const int byte = packed.codes[((panel * packed.words() + col / 8) * kPanelRows + lane) * 4 + col % 4];
      const float16 scale = packed.scales[(panel * packed.groups() + col / Group) * kPanelRows + lane];
      return static_cast<float>((col % 8 < 4 ? byte & 15 : byte >> 4) - 8) * static_cast<float>(scale);
    }
  };

  static std::size_t bytes(Shape shape) { return Sizes(shape).scales_end; }

  static void encode(Shape shape, int first_row, std::span<const float> rows, std::span<std::byte> packed) {
    encode_and_pack<GroupInt4Act8Of>(shape, first_row, rows, packed);
  }

  static void pack(Shape shape, int first_row, const CodeBlock& block, std::span<std::byte> packed) {
    const Int4Quads view = GroupInt4Act8Of::view(shape, packed).packed;
    auto* codes = const_cast<std::uint8_t*>(view.codes);
    auto* scales = const_cast<float16*>(view.scales);
    const int groups = view.groups();
    std::size_t code = 0, scale = 0;
    for (int r = 0; r < block.rows; ++r) {
      const std::ptrdiff_t panel = (first_row + r) / kPanelRows, lane = (first_row + r) % kPanelRows;
      std::uint8_t* out = codes + (panel * view.words() * kPanelRows + lane) * 4;
      for (int col = 0; col < shape.cols; ++col, ++code) {
        std::uint8_t& byte = out[col / 8 * kPanelRows * 4 + col % 4];
        const auto half = static_cast<std::uint8_t>(Code::code(block, code));
        byte = col % 8 < 4 ? half : static_cast<std::uint8_t>(byte | half << 4);
      }
      for (int g = 0; g < groups; ++g, ++scale) {
        scales[(panel * groups + g) * kPanelRows + lane] = float16(block.scales[scale]);
      }
    }
  }

  static View view(Shape shape, std::span<const std::byte> stored) {
    return {{reinterpret_cast<const std::uint8_t*>(stored.data()),
             reinterpret_cast<const float16*>(stored.data() + Sizes(shape).codes_end), Group, shape.rows, shape.cols}};
  }

 private:
  // Sections: codes, scales.
  struct Sizes {
    std::size_t codes_end, scales_end;
    explicit Sizes(Shape s) {
      const std::size_t lanes = panel_count(s.rows) * kPanelRows, cols = static_cast<std::size_t>(s.cols);
      codes_end = whole_lines(lanes * ((cols + 7) / 8) * 4);
      scales_end = codes_end + whole_lines(lanes * ((cols + Group - 1) / Group) * sizeof(float16));
    }
  };
};
using GroupInt4Act8 = GroupInt4Act8Of<32>;
static_assert(WeightPolicy<GroupInt4Act8> && HasPanels<GroupInt4Act8::View>);

}  // namespace tenon
