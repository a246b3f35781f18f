// Runs over a matrix in blocks of rows, on all threads, with at most a few MiB of float32 at a time.
#pragma once
#include <algorithm>
#include <cstddef>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/core/views.h"

namespace tenon {

/// Rows of a block: whole panels of 16 rows, about 8 MiB of float32 over all threads. Loading needs little memory
/// beside the weights.
inline int rows_per_block(Shape shape, int threads) {
  const int rows = (2 << 20) / std::max(shape.cols, 1) / threads;
  return std::max(16, rows / 16 * 16);
}

/// Calls body(first_row, rows) from several threads. first_row is a multiple of 16.
template <class Pool, class Body>
void for_row_blocks(Pool& pool, Shape shape, Body&& body) {
  const int block = rows_per_block(shape, pool.threads()), blocks = (shape.rows + block - 1) / block;
  pool.share(blocks, 1, [&](int begin, int end, int) {
    for (int b = begin; b < end; ++b) body(b * block, std::min(block, shape.rows - b * block));
  });
}

/// read(first_row, rows, out) writes rows of the matrix as float32 [rows, cols]; body(first_row, values) receives them.
/// Both are called from several threads.
template <class Pool, class Read, class Body>
void for_float_blocks(Pool& pool, Shape shape, Read&& read, Body&& body) {
  for_row_blocks(pool, shape, [&](int first, int count) {
    std::vector<float> rows(static_cast<std::size_t>(count) * static_cast<std::size_t>(shape.cols));
    read(first, count, rows.data());
    body(first, std::span<const float>(rows));
  });
}

/// The smallest and largest value of the matrix.
template <class Pool, class Read>
ValueRange range_of(Pool& pool, Shape shape, Read&& read) {
  ValueRange range;
  std::mutex mutex;
  for_float_blocks(pool, shape, read, [&](int, std::span<const float> rows) {
    ValueRange here;
    here.add(rows);
    const std::lock_guard lock(mutex);
    range.add(here);
  });
  return range;
}

/// Runs encode(), and puts `where` into its errors: a weight format does not know the name of the matrix. Example:
/// "model.safetensors: h.0.attn.c_attn.weight".
template <class Encode>
void encode_named(std::string_view where, Encode&& encode) {
  try {
    encode();
  } catch (const Error& error) {
    const std::string_view what = error.what();
    const std::size_t prefix = error.where().empty() ? 0 : error.where().size() + 2;
    throw Error(error.kind(), std::string(where), what.substr(std::min(prefix, what.size())));
  }
}

}  // namespace tenon
