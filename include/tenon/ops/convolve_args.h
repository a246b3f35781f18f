// The arguments of a short convolution over positions.
#pragma once
#include "tenon/core/batch.h"
#include "tenon/core/views.h"

namespace tenon {

/// y[r, i] = gates[r, i] * (bias[i] + sum over taps t of weights[i, t] * input[p - taps + 1 + t, i]). p is the position
/// of row r, and inputs before position 0 are 0. It is the short convolution of LFM2 (Liquid AI, 2025). Each product is
/// rounded; taps are added in ascending order, then the bias.
///
/// The inputs are in the cache, where store_kv() put them in place of keys and values: elements 0..n/2-1 of a position
/// are its key, and the others its value, with kv_heads * head_dim = n / 2. So they are shared, copied and dropped as
/// keys and values are, and rounded to the element of the cache.
template <class V>
struct ConvolveArgs {
  BatchView batch;
  MatrixView<const float> gates;  ///< [rows, n]
  V kv;                           ///< the batch's view of the cache
  int layer, kv_heads, head_dim;
  int taps;              ///< positions that a row reads, its own included
  const float* weights;  ///< [n, taps]
  const float* bias;     ///< [n], or null
  MatrixView<float> y;   ///< [rows, n]

  /// The same with another view of the cache.
  template <class To>
  ConvolveArgs<To> with(const To& view) const {
    return {batch, gates, view, layer, kv_heads, head_dim, taps, weights, bias, y};
  }
};

/// Refinement: the op convolve_positions, for every view of a cache. Families with short convolutions need it.
template <class D>
concept ConvolvesPositions = requires {
  requires D::convolves_positions;
};

}  // namespace tenon
