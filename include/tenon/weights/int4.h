// Weights as four-bit integers in groups of 32, 64 or 128 columns, each with a float16 scale.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tenon/core/concepts.h"
#include "tenon/core/panels.h"
#include "tenon/weights/int4_code.h"

namespace tenon {

/// Weight policy: int4 weights with one scale per `Group` columns, float32 activations and sums.
template <int Group>
struct GroupInt4Of {
  using Code = Int4Code<Group>;

  struct View {
    Int4Panels packed;

    const Int4Panels& panels() const { return packed; }
    TENON_HD float at(int row, int col) const {
      const std::ptrdiff_t panel = row / kPanelRows, lane = row % kPanelRows;
      const std::uint32_t word = packed.codes[(panel * packed.words() + col / 8) * kPanelRows + lane];
      const float16 scale = packed.scales[(panel * packed.groups() + col / Group) * kPanelRows + lane];
      return static_cast<float>(static_cast<int>(word >> (col % 8 * 4) & 15u) - 8) * static_cast<float>(scale);
    }
  };

  static std::size_t bytes(Shape shape) {
    const Sizes size(shape);
    return whole_lines(size.codes) + whole_lines(size.scales);
  }

  static void encode(Shape shape, int first_row, std::span<const float> rows, std::span<std::byte> packed) {
    encode_and_pack<GroupInt4Of>(shape, first_row, rows, packed);
  }

  static void pack(Shape shape, int first_row, const CodeBlock& block, std::span<std::byte> packed) {
    const auto view = GroupInt4Of::view(shape, packed).packed;
    auto* codes = const_cast<std::uint32_t*>(view.codes);
    auto* scales = const_cast<float16*>(view.scales);
    const int words = view.words(), groups = view.groups();
    for (int r = 0; r < block.rows; ++r) {
      const std::ptrdiff_t panel = (first_row + r) / kPanelRows, lane = (first_row + r) % kPanelRows;
      const auto row = static_cast<std::size_t>(r);
      for (int w = 0; w < words; ++w) {
        std::uint32_t word = 0;
        for (int i = 0; i < std::min(8, shape.cols - 8 * w); ++i) {
          const std::size_t at = row * static_cast<std::size_t>(shape.cols) + static_cast<std::size_t>(8 * w + i);
          word |= static_cast<std::uint32_t>(Code::code(block, at)) << (4 * i);
        }
        codes[(panel * words + w) * kPanelRows + lane] = word;
      }
      for (int g = 0; g < groups; ++g) {
        scales[(panel * groups + g) * kPanelRows + lane] =
            float16(block.scales[row * static_cast<std::size_t>(groups) + static_cast<std::size_t>(g)]);
      }
    }
  }

  static View view(Shape shape, std::span<const std::byte> stored) {
    const auto* codes = reinterpret_cast<const std::uint32_t*>(stored.data());
    const auto* scales = reinterpret_cast<const float16*>(stored.data() + whole_lines(Sizes(shape).codes));
    return {{codes, scales, Group, shape.rows, shape.cols}};
  }

 private:
  struct Sizes {
    std::size_t codes, scales;
    explicit Sizes(Shape s)
        : codes(panel_count(s.rows) * kPanelRows * static_cast<std::size_t>((s.cols + 7) / 8) * sizeof(std::uint32_t)),
          scales(panel_count(s.rows) * kPanelRows * static_cast<std::size_t>((s.cols + Group - 1) / Group) *
                 sizeof(float16)) {}
  };
};
using GroupInt4 = GroupInt4Of<32>;
static_assert(WeightPolicy<GroupInt4> && WeightCode<Int4Code<32>>);

}  // namespace tenon
