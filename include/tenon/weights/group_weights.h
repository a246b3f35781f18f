// Weight policies from a code whose scales belong to groups of columns, packed in panels of sixteen rows.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "tenon/core/concepts.h"
#include "tenon/core/panels.h"
#include "tenon/weights/code.h"

namespace tenon {

/// `C` is the code, of 4 or 8 bits, with C::code(block, i), the code of weight i of a block, and C::decoded(code,
/// scale). `Panels` is Int4Panels, NormalFloat4Panels or GroupInt8Panels; its group is that of C.
template <class C, class Panels>
struct GroupWeights {
  using Code = C;

  struct View {
    Panels packed;

    const Panels& panels() const { return packed; }
    TENON_HD float at(int row, int col) const {
      const std::ptrdiff_t panel = row / kPanelRows, lane = row % kPanelRows;
      const auto scale =
          static_cast<float>(packed.scales[(panel * packed.groups() + col / C::group) * kPanelRows + lane]);
      const std::ptrdiff_t word = panel * packed.words() + col / kColumns;
      if constexpr (C::bits == 4)
        return C::decoded(static_cast<int>(packed.codes[word * kPanelRows + lane] >> (col % 8 * 4) & 15u), scale);
      else
        return C::decoded(packed.codes[(word * kColumns + col % kColumns) * kPanelRows + lane], scale);
    }
  };

  static std::size_t bytes(Shape shape) {
    const Sizes size(shape);
    return whole_lines(size.codes) + whole_lines(size.scales);
  }

  static void encode(Shape shape, int first_row, std::span<const float> rows, std::span<std::byte> packed) {
    encode_and_pack<GroupWeights>(shape, first_row, rows, packed);
  }

  static void pack(Shape shape, int first_row, const CodeBlock& block, std::span<std::byte> packed) {
    const Panels panels = GroupWeights::view(shape, packed).packed;
    auto* scales = const_cast<Scale*>(panels.scales);
    const int groups = panels.groups();
    for (int r = 0; r < block.rows; ++r) {
      const std::ptrdiff_t panel = (first_row + r) / kPanelRows, lane = (first_row + r) % kPanelRows;
      const auto row = static_cast<std::size_t>(r);
      for (int w = 0; w < panels.words(); ++w)
        pack_word(block, row, w, const_cast<Element*>(panels.codes) + (panel * panels.words() + w) * kWord, lane);
      for (int g = 0; g < groups; ++g) {
        scales[(panel * groups + g) * kPanelRows + lane] =
            Scale(block.scales[row * static_cast<std::size_t>(groups) + static_cast<std::size_t>(g)]);
      }
    }
  }

  static View view(Shape shape, std::span<const std::byte> stored) {
    View view;
    view.packed.codes = reinterpret_cast<const Element*>(stored.data());
    view.packed.scales = reinterpret_cast<const Scale*>(stored.data() + whole_lines(Sizes(shape).codes));
    if constexpr (std::is_same_v<Panels, Int4Panels>) view.packed.group = C::group;
    view.packed.rows = shape.rows;
    view.packed.cols = shape.cols;
    return view;
  }

 private:
  using Element = std::remove_cvref_t<decltype(*Panels{}.codes)>;
  using Scale = std::remove_cvref_t<decltype(*Panels{}.scales)>;
  static constexpr int kColumns = 32 / C::bits;                                  // of a word of 64 bytes
  static constexpr std::ptrdiff_t kWord = 64 / std::ptrdiff_t{sizeof(Element)};  // elements

  struct Sizes {
    std::size_t codes, scales;
    explicit Sizes(Shape s)
        : codes(panel_count(s.rows) * 64 * static_cast<std::size_t>((s.cols + kColumns - 1) / kColumns)),
          scales(panel_count(s.rows) * kPanelRows * static_cast<std::size_t>(groups_of<C>(s.cols)) * sizeof(Scale)) {}
  };

  // Packs the columns of word w of a row of the block. word: [16] of four-bit codes, or [4, 16].
  static void pack_word(const CodeBlock& block, std::size_t row, int w, Element* word, std::ptrdiff_t lane) {
    const std::size_t begin =
        row * static_cast<std::size_t>(block.cols) + static_cast<std::size_t>(w) * std::size_t{kColumns};
    const int columns = std::min(kColumns, block.cols - kColumns * w);
    if constexpr (C::bits == 4) {
      Element all = 0;
      for (int i = 0; i < columns; ++i)
        all |= static_cast<Element>(C::code(block, begin + static_cast<std::size_t>(i))) << (4 * i);
      word[lane] = all;
    } else {
      for (int i = 0; i < columns; ++i)
        word[i * kPanelRows + lane] = static_cast<Element>(C::code(block, begin + static_cast<std::size_t>(i)));
    }
  }
};

}  // namespace tenon
