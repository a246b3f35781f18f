// Writes keys and values of the batch's tokens into the cache, rounded to its element.
#pragma once
#include <cstddef>

#include "tenon/device/cuda.cuh"
#include "tenon/ops/args.h"
#include "tenon/ops/cuda/sequences.cuh"

namespace tenon {
namespace cuda {

/// Elements of a key or value per thread. Threads per key or value, of `width` padded elements: one if they share a
/// scale, else one per four elements, because each has to find its sequence.
inline constexpr int kStoredTogether = 4;
template <class E>
TENON_HD int store_threads(int width) {
  return has_scales<E> ? 1 : width / kStoredTogether;
}

template <CacheView V>
__global__ void store_kv_kernel(StoreKvArgs<V> args) {
  using E = typename V::Element;
  wait_for_earlier();
  const int width = (args.head_dim + kTilePositions - 1) / kTilePositions * kTilePositions,
            threads = store_threads<E>(width);
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), which = i / threads % 2,
            h = i / threads / 2 % args.kv_heads;
  const int row = i / threads / 2 / args.kv_heads, first = has_scales<E> ? 0 : i % threads * kStoredTogether;
  if (row >= args.batch.rows) return;
  const int last = has_scales<E> ? width : first + kStoredTogether, count = max(0, min(last, args.head_dim) - first);
  const SequenceRows& s = sequence_of(args.batch, row);
  const int position = s.start + row - s.first_row, lane = position % kTilePositions;
  const auto tile = args.kv.tile(args.layer, s.slot, h, position / kTilePositions);
  if (which == 0) {
    const float* keys = args.keys.row(row) + h * args.head_dim + first;
    const float scale = store_row(keys, count, tile.keys + first * kTilePositions + lane, kTilePositions);
    if constexpr (has_scales<E>) tile.key_scales[lane] = scale;
  } else {
    const float* values = args.values.row(row) + h * args.head_dim + first;
    const float scale = store_row(values, count, tile.values + lane * width + first, 1);
    for (int d = first + count; d < last; ++d) tile.values[lane * width + d] = E{};
    if constexpr (has_scales<E>) tile.value_scales[lane] = scale;
  }
}

}  // namespace cuda

template <cuda::ViewOnDevice V>
void store_kv(Cuda& device, const StoreKvArgs<V>& args) {
  const int width = (args.head_dim + kTilePositions - 1) / kTilePositions * kTilePositions;
  const std::size_t threads = static_cast<std::size_t>(args.batch.rows) * static_cast<std::size_t>(args.kv_heads) * 2 *
                              static_cast<std::size_t>(cuda::store_threads<typename V::Element>(width));
  device.launch_early("store_kv", cuda::store_kv_kernel<V>, cuda::blocks(threads, 128), 128, 0, args);
}

}  // namespace tenon
