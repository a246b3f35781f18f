/// Views: trivially copyable windows on memory that they do not own. They cross to a device by value.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "tenon/core/require.h"

#ifdef __CUDACC__
#define TENON_HD __host__ __device__
#else
#define TENON_HD
#endif

namespace tenon {

using TokenId = std::int32_t;  ///< index into the vocabulary, never negative in a valid sequence
using SeqId = std::uint32_t;   ///< one running text; a request owns one or more
using RequestId = std::uint64_t;

/// A token and its logit.
struct TokenLogit {
  float logit;
  TokenId id;
};
/// Whether a ranks before b: (logit descending, id ascending).
inline bool ranks_before(const TokenLogit& a, const TokenLogit& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

/// The shape of a weight matrix as the model means it: y = W x, so rows are outputs and cols are inputs.
struct Shape {
  int rows = 0, cols = 0;
  friend bool operator==(const Shape&, const Shape&) = default;
};

/// The least and the largest value of a matrix, for formats with one scale for all of it. Several threads measure
/// blocks, in any order, and merge them.
struct ValueRange {
  float least = 0, largest = 0;  ///< 0 is always within

  void add(std::span<const float> values) {
    for (const float x : values) {
      least = x < least ? x : least;
      largest = x > largest ? x : largest;
    }
  }
  void add(const ValueRange& other) {
    least = other.least < least ? other.least : least;
    largest = other.largest > largest ? other.largest : largest;
  }
};

/// A matrix in memory that it does not own.
template <class T>
struct MatrixView {
  T* data = nullptr;  ///< [rows, stride], of which the first cols of each row belong to the matrix
  int rows = 0, cols = 0;
  std::ptrdiff_t stride = 0;  ///< elements from one row to the next

  TENON_HD T* row(int r) const { return data + r * stride; }
  TENON_HD MatrixView rows_from(int first, int count) const { return {row(first), count, cols, stride}; }
  TENON_HD operator MatrixView<const T>() const { return {data, rows, cols, stride}; }
};

}  // namespace tenon
