// The code of a weight format: how float32 rows are encoded, and how files store them. Packing in memory is separate,
// so several policies may share one code and one file.
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "tenon/checkpoint/dtype.h"
#include "tenon/core/views.h"

namespace tenon {

/// A block of rows as a file stores it.
struct CodeBlock {
  int rows = 0, cols = 0;
  std::vector<std::byte> codes;    ///< [rows, cols], row by row without gaps; of two four-bit codes the even one is low
  std::vector<float> scales;       ///< [rows, groups], or [1] if the tensor has one; empty: the code has none
  std::vector<float> zero_points;  ///< [rows], or [1] if the tensor has one; empty: the code has none
};

/// The four-bit code of weight i of a block, counted row by row.
inline int four_bits(const CodeBlock& block, std::size_t i) {
  return static_cast<int>(block.codes[i / 2] >> (i % 2 * 4) & std::byte{15});
}

/// A code: constants and two functions. A file stores a matrix [rows, cols] as tensor <name> of codes, with its scales
/// in <name>.scale and its zero points in <name>.zero_point.
template <class C>
concept WeightCode = requires(int cols, std::span<const float> rows, const ValueRange& range, CodeBlock& out,
                              const CodeBlock& block, int row, int col) {
  { C::name } -> std::convertible_to<std::string_view>;  // its name in files and on command lines
  { C::dtype } -> std::convertible_to<DType>;            // of codes in files; u8 also if two codes share a byte
  { C::bits } -> std::convertible_to<int>;               // bits of a code: 4, 8 or 16
  { C::scale_dtype } -> std::convertible_to<DType>;      // f32 or f16
  { C::has_scales } -> std::convertible_to<bool>;
  { C::has_zero_points } -> std::convertible_to<bool>;          // in f32, one per row
  { C::per_tensor } -> std::convertible_to<bool>;               // one scale and zero point, from the matrix's range
  { C::group } -> std::convertible_to<int>;                     // columns that share a scale; 0: the whole row
  { C::encode(cols, rows, range, out) } -> std::same_as<void>;  // rows: [n, cols]; error unsupported: value too large
  { C::value(block, row, col) } -> std::same_as<float>;         // the decoded value
};

/// Refinement of a weight format: packs a block of rows as a file holds them. The bytes are those that encoding the
/// decoded values would give.
template <class P>
concept PacksBlocks = requires(Shape shape, int first_row, const CodeBlock& block, std::span<std::byte> packed) {
  { P::pack(shape, first_row, block, packed) } -> std::same_as<void>;
};

/// Rounded up to cache lines: every section of a packed matrix begins at one.
constexpr std::size_t whole_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// The number of scales in a row.
template <WeightCode C>
constexpr int groups_of(int cols) {
  if constexpr (C::group == 0)
    return 1;
  else
    return (cols + C::group - 1) / C::group;
}

/// The value of a weight of a code with groups.
template <WeightCode C>
float group_value(const CodeBlock& block, int row, int col) {
  const auto i = static_cast<std::size_t>(row) * static_cast<std::size_t>(block.cols) + static_cast<std::size_t>(col);
  const auto g = static_cast<std::size_t>(row) * static_cast<std::size_t>(groups_of<C>(block.cols)) +
                 static_cast<std::size_t>(col / C::group);
  return C::decoded(C::code(block, i), block.scales[g]);
}

/// The bytes of the codes of `rows` rows. With four-bit codes the last half byte may be unused.
template <WeightCode C>
constexpr std::size_t code_bytes(int rows, int cols) {
  return (static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols) * static_cast<std::size_t>(C::bits) + 7) / 8;
}

/// Encodes rows [n, cols] of a code with groups. scale = encode(values, first, codes) writes the codes of one group;
/// its first weight is weight `first` of the block, counted row by row.
template <class C, class Encode>
void encode_groups(int cols, std::span<const float> rows, CodeBlock& out, Encode&& encode) {
  out.rows = static_cast<int>(rows.size() / static_cast<std::size_t>(cols));
  out.cols = cols;
  out.codes.assign((rows.size() * static_cast<std::size_t>(C::bits) + 7) / 8, std::byte{});
  out.scales.clear();
  for (std::size_t row = 0; row < rows.size(); row += static_cast<std::size_t>(cols)) {
    for (int first = 0; first < cols; first += C::group) {
      const std::size_t begin = row + static_cast<std::size_t>(first);
      const auto count = static_cast<std::size_t>(std::min(int{C::group}, cols - first));
      out.scales.push_back(encode(rows.subspan(begin, count), begin, out.codes.data()));
    }
  }
}

/// Encodes rows [n, cols], the first of which is row `first_row` of the matrix, with P's code, and packs them with P.
template <class P>
void encode_and_pack(Shape shape, int first_row, std::span<const float> rows, std::span<std::byte> packed,
                     const ValueRange& range = {}) {
  CodeBlock block;
  P::Code::encode(shape.cols, rows, range, block);
  P::pack(shape, first_row, block, packed);
}

}  // namespace tenon
