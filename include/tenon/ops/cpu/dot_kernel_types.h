// What kernels that round activations are given, and the table of them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tenon/core/panels.h"
#include "tenon/ops/cpu/kernel_types.h"

namespace tenon::cpu {

// Columns whose products with codes of 255 int32 can sum: 65,536 * 255 * 127 < 2^31. Wider rows are summed in such
// blocks.
inline constexpr int kSumColumns = 65536;

// Units of a token that are rounded, and then laid between those of the others, while they are in the nearest cache.
inline constexpr int kRoundedUnits = 64;
// Bytes that may be written behind them, since groups are rounded in sixteens, and may be an odd number of eights.
inline constexpr int kRoundedBehind = 8;

// Units of a token that may lie side by side: a cache line, and a row of a tile register.
inline constexpr int kLineUnits = 16;

// What a layout makes of a token: units of four bytes, and sums of its columns in groups.
struct DotForm {
  int columns;        // of a unit
  int units;          // four bytes each; whole lines but for pairs without tiles, with zeros behind the last column
  int group, groups;  // columns that have a sum; groups 0: none have
  int factor;         // of these sums
};
constexpr int whole_lines(int units) { return (units + kLineUnits - 1) / kLineUnits * kLineUnits; }
inline DotForm dot_form(const Int8Quads& w) {
  return {4, whole_lines(w.quads()), kSumColumns, (w.cols + kSumColumns - 1) / kSumColumns, -1};
}
inline DotForm dot_form(const Int4Quads& w) { return {4, whole_lines(2 * w.words()), w.group, w.groups(), -8}; }
// Layouts of pairs of bfloat16, whose form depends on the instructions.
template <class Layout>
inline constexpr bool kOfPairs = std::is_same_v<Layout, BFloat16Pairs> || std::is_same_v<Layout, BFloat16Blocks>;

// Tokens that are multiplied together.
struct DotTile {
  int tokens, side;
  std::uint32_t* x;    // [units / side, tokens, side], see DotKernels
  std::int32_t* sums;  // [groups, tokens]
  float* scales;       // [tokens]
};

struct DotJob {
  TokenTiles tiles;
  DotForm form;
  int side;          // as the table's side() has it for the step, and so for each of its tiles
  std::uint32_t* x;  // tiles, one behind the other
  std::int32_t* sums;
  float* scales;
  PanelJob outputs;  // what finish_tile reads; its x is not read

  DotTile tile(int i) const {
    const std::ptrdiff_t begin = tiles.begin(i);
    return {tiles.begin(i + 1) - tiles.begin(i), side, x + begin * form.units, sums + begin * form.groups,
            scales + begin};
  }
};

// Where a step's scales, sums and units lie, one behind the other, in words of four bytes. Units begin with a cache
// line, and so does what follows them: rows of tile registers would else lie across two.
struct DotMemory {
  std::size_t sums, x, size;
};
inline DotMemory dot_memory(const DotForm& form, int tokens) {
  const auto lines = [](std::size_t words) { return (words + 15) / 16 * 16; };
  const auto n = static_cast<std::size_t>(tokens);
  const std::size_t x = lines(n * static_cast<std::size_t>(1 + form.groups));
  return {n, x, lines(x + n * static_cast<std::size_t>(form.units))};
}

// A table of its own for each layout, so that a program compiles those that it uses.
template <class Layout>
struct DotKernels {
  DotForm (*form)(const Layout&);  // what tokens become
  int (*tile_tokens)(int tokens);
  int (*side)(int tokens);  // units of a token that lie side by side in a step of so many: 1 or kLineUnits
  // Rounds the rows of x, as many as the tile has.
  void (*round_tokens)(MatrixView<const float> x, const DotForm&, const DotTile&);
  // The weight's panels first..last-1, whose outputs begin at first_output.
  void (*multiply)(const DotJob&, const Layout& weight, int first, int last, int first_output);
};

}  // namespace tenon::cpu
