// Queries, keys and values as a product makes them: queries as floats, keys and values into the cache, as store_kv
// would.
#pragma once
#include <cstddef>

#include "tenon/ops/args.h"
#include "tenon/ops/cuda/finish_pairs.cuh"
#include "tenon/ops/cuda/sequences.cuh"

namespace tenon::cuda {

// The product's outputs: [queries, then keys, then values]. Of caches whose elements have no scales, and heads of whole
// tiles.
template <class V>
struct StoredQkv {
  MatrixView<float> q;  // [rows, query outputs]
  StoreKvArgs<V> store;
  int rows, cols;  // of the product
};
template <class V>
__host__ __device__ inline int written_columns(const StoredQkv<V>& to) {
  return to.cols;
}
template <class V>
bool has_even_rows(const StoredQkv<V>& to) {
  return has_even_rows(to.q);
}

// Where element `col` of a row goes, and how far from it the next one does. It takes some reads to find, one behind the
// other: a warp makes them while others multiply.
template <class E>
struct KvPlace {
  E* at = nullptr;
  int step = 0;
};
template <class V>
__device__ __forceinline__ KvPlace<typename V::Element> place_of(const StoredQkv<V>& to, int row, int col) {
  const StoreKvArgs<V>& s = to.store;
  const int behind = col - to.q.cols, width = s.kv_heads * s.head_dim;
  if (behind < 0 || col >= to.cols || row >= to.rows) return {};
  const SequenceRows& sequence = sequence_of(s.batch, row);
  const int position = sequence.start + row - sequence.first_row, lane = position % kTilePositions;
  const int head = behind % width / s.head_dim, d = behind % s.head_dim;
  const auto tile = s.kv.tile(s.layer, sequence.slot, head, position / kTilePositions);
  if (behind < width) return {tile.keys + d * kTilePositions + lane, kTilePositions};
  return {tile.values + lane * s.head_dim + d, 1};
}
template <class V>
__device__ __forceinline__ void write_at(const StoredQkv<V>& to, int row, int col, KvPlace<typename V::Element> place,
                                         float first, float second) {
  if (col < to.q.cols) {
    float* out = to.q.row(row) + col;
    out[0] = first, out[1] = second;
    return;
  }
  place.at[0] = typename V::Element(first);
  place.at[place.step] = typename V::Element(second);
}

template <class Y>
inline constexpr bool kFindsPlaces = false;
template <class V>
inline constexpr bool kFindsPlaces<StoredQkv<V>> = true;

// Of a block's pairs, kCoreRows rows at most of `pairs` each, behind its first output.
template <class V>
struct PlaceTable {
  KvPlace<typename V::Element>* places = nullptr;  // [kCoreRows, pairs], in shared memory
  int pairs = 0, first = 0;

  static constexpr int bytes(int blocks) {
    return kCoreRows * blocks * kCoreColumns / 2 * static_cast<int>(sizeof(KvPlace<typename V::Element>));
  }
  // By a warp.
  __device__ __forceinline__ void find(const StoredQkv<V>& to, int lane) const {
#pragma unroll 2
    for (int i = lane; i < to.rows * pairs; i += 32) places[i] = place_of(to, i / pairs, first + i % pairs * 2);
  }
};

template <class V, int Count>
struct PairPlaces<StoredQkv<V>, Count> {
  PlaceTable<V> table;  // set before the pairs are written

  __device__ __forceinline__ void write(const StoredQkv<V>& to, int, int, int row, int col, float first,
                                        float second) const {
    write_at(to, row, col, table.places[row * table.pairs + (col - table.first) / 2], first, second);
  }
};

}  // namespace tenon::cuda
