/// Matrices in the layout of tensor cores: 8 x 8 blocks of sixteen-bit elements, 128 contiguous bytes each. The
/// instruction ldmatrix loads such a block, a warp of mma.sync holds it in one register a thread, and it is a core
/// matrix of wgmma (PTX ISA, "Matrix fragments" and "Core matrices"). So one layout serves products of one row and of
/// thousands.
#pragma once
#include <cstddef>

#include "tenon/core/concepts.h"
#include "tenon/core/views.h"

namespace tenon {

/// Shape of a core matrix.
inline constexpr int kCoreRows = 8, kCoreColumns = 8, kCoreElements = kCoreRows * kCoreColumns;
/// Columns of a chunk: 8 core matrices of the same rows, 1 KiB, contiguous.
inline constexpr int kChunkColumns = 64;

/// Chunks of a row of `cols` columns.
constexpr int chunk_count(int cols) { return (cols + kChunkColumns - 1) / kChunkColumns; }

/// The left operand of a product y = x W^T: rows of activations. The op that computes them rounds them to E. Columns
/// from `cols` to a whole chunk are zeros; rows after `rows` hold any values. It owns nothing.
template <class E>
struct OperandTiles {
  using Element = E;

  E* data = nullptr;  ///< [chunk_count(cols), row_blocks(), 8 core matrices, 8 rows, 8 columns]
  int rows = 0, cols = 0;

  TENON_HD int row_blocks() const { return (rows + kCoreRows - 1) / kCoreRows; }
  /// Index of an element in `data`.
  TENON_HD std::ptrdiff_t at(int row, int col) const {
    const std::ptrdiff_t block = std::ptrdiff_t{col / kChunkColumns} * row_blocks() + row / kCoreRows;
    return (block * (kChunkColumns / kCoreColumns) + col % kChunkColumns / kCoreColumns) * kCoreElements +
           row % kCoreRows * kCoreColumns + col % kCoreColumns;
  }
  /// Number of elements of `data`.
  static constexpr std::size_t elements(int rows, int cols) {
    return static_cast<std::size_t>(chunk_count(cols)) * static_cast<std::size_t>((rows + kCoreRows - 1) / kCoreRows) *
           kCoreRows * kChunkColumns;
  }
};

/// The operand of products with a matrix W: rows of floats, or W::Operand.
template <class W>
struct OperandOf {
  using Result = MatrixView<float>;  ///< what the op before the product writes; W::Operand if that op rounds
  using Input = MatrixView<const float>;
};
template <NamesOperand W>
struct OperandOf<W> {
  using Result = typename W::Operand;
  using Input = typename W::Operand;
};

}  // namespace tenon
