// Matrices as tensor cores take them: 8 x 8 blocks of sixteen-bit elements, 128 contiguous bytes each. Such a block is
// what ldmatrix loads, what a warp of mma.sync holds in one register a thread, and a core matrix of wgmma (PTX ISA,
// "Matrix fragments" and "Core matrices"), so that one layout serves products of one row and of thousands.
#pragma once
#include <cstddef>

#include "tenon/core/concepts.h"
#include "tenon/core/views.h"

namespace tenon {

inline constexpr int kCoreRows = 8, kCoreColumns = 8, kCoreElements = kCoreRows * kCoreColumns;
inline constexpr int kChunkColumns = 64;  // that lie together: 8 core matrices of the same rows, 1 KiB

constexpr int chunk_count(int cols) { return (cols + kChunkColumns - 1) / kChunkColumns; }

// The left operand of a product, y = x W^T: rows of activations, rounded to E by whoever computes them. Columns behind
// `cols` are zeros up to a whole chunk; rows behind `rows` are anything.
template <class E>
struct OperandTiles {
  using Element = E;

  E* data = nullptr;  // [chunk_count(cols), row_blocks(), 8 core matrices, 8 rows, 8 columns]
  int rows = 0, cols = 0;

  TENON_HD int row_blocks() const { return (rows + kCoreRows - 1) / kCoreRows; }
  // Where an element lies.
  TENON_HD std::ptrdiff_t at(int row, int col) const {
    const std::ptrdiff_t block = std::ptrdiff_t{col / kChunkColumns} * row_blocks() + row / kCoreRows;
    return (block * (kChunkColumns / kCoreColumns) + col % kChunkColumns / kCoreColumns) * kCoreElements +
           row % kCoreRows * kCoreColumns + col % kCoreColumns;
  }
  static constexpr std::size_t elements(int rows, int cols) {
    return static_cast<std::size_t>(chunk_count(cols)) * static_cast<std::size_t>((rows + kCoreRows - 1) / kCoreRows) *
           kCoreRows * kChunkColumns;
  }
};

// What products with a matrix W read, and their rows come in: floats, or the tiles that W says.
template <class W>
struct OperandOf {
  using Result = MatrixView<float>;  // of the op before, which rounds
  using Input = MatrixView<const float>;
};
template <NamesOperand W>
struct OperandOf<W> {
  using Result = typename W::Operand;
  using Input = typename W::Operand;
};

}  // namespace tenon
