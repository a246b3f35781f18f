// Arguments and tables of the kernels that round activations.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tenon/core/panels.h"
#include "tenon/ops/cpu/kernel_types.h"

namespace tenon::cpu {

/// Columns whose products with codes up to 255 fit an int32 sum: 65,536 * 255 * 127 < 2^31. Wider rows are summed in
/// blocks of this size.
inline constexpr int kSumColumns = 65536;

/// Units of a token that are rounded, then interleaved with other tokens, while they are in L1.
inline constexpr int kRoundedUnits = 64;
/// Bytes written after them: groups are rounded in sixteens, and a group may be an odd number of eights.
inline constexpr int kRoundedTail = 8;

/// Units of a token that may be contiguous: one cache line, and one row of a tile register.
inline constexpr int kLineUnits = 16;

/// A token in a layout's form: units of four bytes, and sums of its columns in groups.
struct DotForm {
  int columns;        ///< columns per unit
  int units;          ///< four bytes each; whole lines except for pairs without tiles, with zeros after the last column
  int group, groups;  ///< columns per sum; no sums if groups is 0
  int factor;         ///< of these sums
};
/// Rounds a number of units up to whole cache lines.
constexpr int whole_lines(int units) { return (units + kLineUnits - 1) / kLineUnits * kLineUnits; }
/// The form that the layout's kernels read.
inline DotForm dot_form(const Int8Quads& w) {
  return {4, whole_lines(w.quads()), kSumColumns, (w.cols + kSumColumns - 1) / kSumColumns, -1};
}
inline DotForm dot_form(const Int4Quads& w) { return {4, whole_lines(2 * w.words()), w.group, w.groups(), -8}; }
/// Layouts of bfloat16 pairs, whose form depends on the instruction set.
template <class Layout>
inline constexpr bool kOfPairs = std::is_same_v<Layout, BFloat16Pairs> || std::is_same_v<Layout, BFloat16Blocks>;

/// Tokens that are multiplied together.
struct DotTile {
  int tokens, side;
  std::uint32_t* x;    ///< [units / side, tokens, side], see DotKernels
  std::int32_t* sums;  ///< [groups, tokens]
  float* scales;       ///< [tokens]
};

/// A product with rounded activations: its tiles of tokens, and its outputs.
struct DotJob {
  TokenTiles tiles;
  DotForm form;
  int side;          ///< units side by side, as the table's side() gives for the step
  std::uint32_t* x;  ///< one tile after another
  std::int32_t* sums;
  float* scales;
  PanelJob outputs;  ///< what finish_tile reads; `x` is unused

  DotTile tile(int i) const {
    const std::ptrdiff_t begin = tiles.begin(i);
    return {tiles.begin(i + 1) - tiles.begin(i), side, x + begin * form.units, sums + begin * form.groups,
            scales + begin};
  }
};

/// Word offsets of a step's sums and units, after its scales; words have four bytes. Units begin at a cache line and
/// fill whole lines, so that no row of a tile register lies across two.
struct DotMemory {
  std::size_t sums, x, size;
};
inline DotMemory dot_memory(const DotForm& form, int tokens) {
  const auto lines = [](std::size_t words) { return (words + 15) / 16 * 16; };
  const auto n = static_cast<std::size_t>(tokens);
  const std::size_t x = lines(n * static_cast<std::size_t>(1 + form.groups));
  return {n, x, lines(x + n * static_cast<std::size_t>(form.units))};
}

/// One table per layout, so that a program compiles only the tables that it uses.
template <class Layout>
struct DotKernels {
  DotForm (*form)(const Layout&);  ///< form of tokens
  /// Most tokens of a tile in a step of this many.
  int (*tile_tokens)(int tokens);
  int (*side)(int tokens);  ///< units of a token that are contiguous in a step of this many tokens: 1 or kLineUnits
  /// Rounds the rows of x, as many as the tile has.
  void (*round_tokens)(MatrixView<const float> x, const DotForm&, const DotTile&);
  /// Multiplies the weight's panels first..last-1, whose outputs begin at first_output.
  void (*multiply)(const DotJob&, const Layout& weight, int first, int last, int first_output);
};

}  // namespace tenon::cpu
