// The code of a weight format: what float32 rows become, and how files hold them. How codes are packed in memory is
// another matter, so that several policies may share one code, and one file.
#pragma once
#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "tenon/checkpoint/dtype.h"
#include "tenon/core/views.h"

namespace tenon {

// A block of rows as a file holds them.
struct CodeBlock {
  int rows = 0, cols = 0;
  std::vector<std::byte> codes;    // [rows, cols], row by row without gaps; of four bits the even ones low
  std::vector<float> scales;       // [rows, groups]; [1] where the tensor has one; empty where there are none
  std::vector<float> zero_points;  // [rows], or [1]; empty where there are none
};

// A code is static data and two functions. In a file, a matrix [rows, cols] is the tensor <name> of codes, its scales
// in <name>.scale and its zero points in <name>.zero_point.
template <class C>
concept WeightCode = requires(int cols, std::span<const float> rows, const ValueRange& range, CodeBlock& out,
                              const CodeBlock& block, int row, int col) {
  { C::name } -> std::convertible_to<std::string_view>;  // in files and on command lines
  { C::dtype } -> std::convertible_to<DType>;            // of codes, in files; u8 also where two codes share a byte
  { C::bits } -> std::convertible_to<int>;               // of a code: 4, 8 or 16
  { C::scale_dtype } -> std::convertible_to<DType>;      // f32 or f16
  { C::has_scales } -> std::convertible_to<bool>;
  { C::has_zero_points } -> std::convertible_to<bool>;  // f32, one a row
  { C::per_tensor } -> std::convertible_to<bool>;       // one scale, and one zero point, made from the matrix's range
  { C::group } -> std::convertible_to<int>;             // columns that share a scale; 0: a row does
  { C::encode(cols, rows, range, out) } -> std::same_as<void>;  // rows: [n, cols]. Error unsupported where a value is
  { C::value(block, row, col) } -> std::same_as<float>;         // beyond what the code can say
};

// Sections of a packed matrix begin at whole lines.
constexpr std::size_t whole_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// Number of scales of a row.
template <WeightCode C>
constexpr int groups_of(int cols) {
  if constexpr (C::group == 0)
    return 1;
  else
    return (cols + C::group - 1) / C::group;
}

// Bytes of codes of so many rows: of four bits, half a byte may stay empty at the very end.
template <WeightCode C>
constexpr std::size_t code_bytes(int rows, int cols) {
  return (static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols) * static_cast<std::size_t>(C::bits) + 7) / 8;
}

// Rows [n, cols] from `first_row` on, as P's code has them, to where P packs them.
template <class P>
void encode_and_pack(Shape shape, int first_row, std::span<const float> rows, std::span<std::byte> packed,
                     const ValueRange& range = {}) {
  CodeBlock block;
  P::Code::encode(shape.cols, rows, range, block);
  P::pack(shape, first_row, block, packed);
}

}  // namespace tenon
