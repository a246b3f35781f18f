// Hidden rows quantised to int8 for the head's approximate pass, and error bounds of its logits.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "tenon/core/elements.h"
#include "tenon/core/finite.h"
#include "tenon/ops/cpu/rows.h"

namespace tenon::cpu {

/// Upper bounds for a row x that kernels quantise to y: |x|_1 and |x - y|_2. NaN or infinite if x is not finite.
struct RowBounds {
  float sum = 0, rounding_error = 0;

  /// Bound on the error of an approximate logit, for a row's error and length of Int8Approximation. Rounded outwards,
  /// with room for what each step loses below the smallest normal number.
  float error(float error, float length) const { return (error * sum + length * rounding_error) * 1.0001f + 0x1p-110f; }
};

/// Quantises like kernels of Int8Quads. residual: [n], x minus its quantised value. Returns |x - y|_2. Rounding
/// `residual` to floats may take 2^-24 of it, or less than float_above adds where they are subnormal.
inline double quantise(const float* x /* [n] */, int n, float* residual) {
  const float scale = int8_scale(x, n), inverse = scale > 0 ? 1.0f / scale : 0.0f;
  double squares = 0;
  for (int k = 0; k < n; ++k) {
    // No addition here that a compiler might fuse with the product.
    const auto code = inverse > 0 ? static_cast<double>(std::lrint(x[k] * inverse)) : 0.0;
    const double off = static_cast<double>(x[k]) - code * static_cast<double>(scale);
    residual[k] = static_cast<float>(off);
    squares += off * off;
  }
  return std::sqrt(squares);
}

/// Quantised rows. If quantising a row may move its logits far, the residual becomes another row after all rows: the
/// logits of both add up to those of a row with 16 bits.
class QuantisedRows {
 public:
  QuantisedRows(Cpu& device, MatrixView<const float> hidden)
      : rows_(hidden.rows),
        cols_(hidden.cols),
        values_(static_cast<std::size_t>(2 * rows_) * static_cast<std::size_t>(cols_)),
        bounds_(static_cast<std::size_t>(rows_)),
        residuals_(static_cast<std::size_t>(rows_), -1) {
    split_rows(device, rows_, [&](int begin, int end) {
      std::vector<float> lost(static_cast<std::size_t>(cols_));
      for (int r = begin; r < end; ++r) round(hidden.row(r), r, lost.data());
    });
    for (int& residual : residuals_) {
      if (residual < 0) continue;
      if (residual != rows_ + residual_count_) std::copy_n(row(residual), cols_, row(rows_ + residual_count_));
      residual = rows_ + residual_count_++;
    }
  }

  /// [rows + those of rests, cols]
  MatrixView<const float> all() const { return {values_.data(), rows_ + residual_count_, cols_, cols_}; }
  /// Index of row r's residual row; -1: none.
  int residual(int r) const { return residuals_[static_cast<std::size_t>(r)]; }
  const RowBounds& bounds(int r) const { return bounds_[static_cast<std::size_t>(r)]; }

 private:
  float* row(int r) { return values_.data() + static_cast<std::ptrdiff_t>(r) * cols_; }

  // Quantising moves a logit by up to |w|_2 times the rounding error. Logits of random matrix rows spread by |w|_2
  // times the size of x's ordinary columns. Outliers do not count: they round the other columns away, and matrix rows
  // often differ little there. If the first is larger, a pass for a residual is cheaper than the exact panels that
  // would be read without it. Such a pass takes as long as 50 panels of 50,257 x 768.
  static bool needs_residual(const float* x /* [n] */, int n, double rounding_error, double sum) {
    double ordinary = 0;
    int count = 0;
    for (int k = 0; k < n; ++k) {
      const double magnitude = std::fabs(static_cast<double>(x[k]));
      if (magnitude > 4 * sum / n) continue;
      ordinary += magnitude;
      ++count;
    }
    return ordinary > 0 && rounding_error * count > ordinary;
  }

  void round(const float* x /* [cols] */, int r, float* lost /* [cols] */) {
    double sum = 0;
    for (int k = 0; k < cols_; ++k) sum += std::fabs(static_cast<double>(x[k]));
    std::copy_n(x, cols_, row(r));
    float* const residual = row(rows_ + r);
    double rounding_error = quantise(x, cols_, residual);
    if (needs_residual(x, cols_, rounding_error, sum)) {
      rounding_error = quantise(residual, cols_, lost) + 0x1p-23 * rounding_error;
      residuals_[static_cast<std::size_t>(r)] = rows_ + r;
    }
    bounds_[static_cast<std::size_t>(r)] = {float_above(sum), float_above(rounding_error)};
  }

  int rows_, cols_, residual_count_ = 0;
  std::vector<float> values_;      // [2 * rows, cols]
  std::vector<RowBounds> bounds_;  // [rows]
  std::vector<int> residuals_;     // [rows]
};

}  // namespace tenon::cpu
