// The error of storing a model's matrices in a weight format.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "tenon/model/parts.h"
#include "tenon/model/tensor_source.h"
#include "tenon/weights/code.h"
#include "tenon/weights/row_blocks.h"

namespace tenon {

/// Relative errors of matrices, |W - W'| / |W| with the Frobenius norm, where W' is W encoded and decoded.
struct EncodingError {
  double largest = 0, mean = 0;
  std::string worst;  ///< the matrix with the largest error; empty: all errors are 0
  int matrices = 0;
};

/// Measures code C on at most `rows` evenly spaced rows of each matrix; 0: on all rows. A matrix that the checkpoint
/// stores in this code has no error. Memory: one row per thread. Errors: those of reading, and of encoding.
template <WeightCode C, class Pool>
EncodingError encoding_error(const TensorSource& source, const DecoderSpec& spec, bool tied_head, int rows,
                             Pool& pool) {
  static_assert(!C::per_tensor, "tenon: encoding_error measures formats that encode row by row; see docs/weights.md");
  EncodingError out;
  double sum = 0;
  const auto measure = [&](const MatrixSpec& m) {
    if (m.parts.empty()) return;
    const int count = rows > 0 ? std::min(rows, m.shape.rows) : m.shape.rows, cols = m.shape.cols;
    struct Squares {
      double error = 0, size = 0;
    };
    std::vector<Squares> of_row(static_cast<std::size_t>(count));
    const bool kept = source.template holds<C>(m);
    pool.share(kept ? 0 : count, 1, [&](int begin, int end, int) {
      std::vector<float> row(static_cast<std::size_t>(cols));
      CodeBlock block;
      for (int i = begin; i < end; ++i) {
        source.read(m, static_cast<int>(static_cast<long long>(i) * m.shape.rows / count), 1, row.data());
        encode_named(source.where(m), [&] { C::encode(cols, row, {}, block); });
        Squares& squares = of_row[static_cast<std::size_t>(i)];
        for (int col = 0; col < cols; ++col) {
          const double value = static_cast<double>(row[static_cast<std::size_t>(col)]);
          const double error = static_cast<double>(C::value(block, 0, col)) - value;
          squares.error += error * error;
          squares.size += value * value;
        }
      }
    });
    Squares all;
    for (const Squares& each : of_row) all.error += each.error, all.size += each.size;
    const double relative = all.size > 0 ? std::sqrt(all.error / all.size) : 0.0;
    ++out.matrices;
    sum += relative;
    if (relative > out.largest) out.largest = relative, out.worst = source.where(m);
  };
  const auto vector = [](const VectorSpec&) {};
  visit_parts(spec, tied_head, {measure, measure, vector});
  out.mean = out.matrices > 0 ? sum / out.matrices : 0.0;
  return out;
}

}  // namespace tenon
