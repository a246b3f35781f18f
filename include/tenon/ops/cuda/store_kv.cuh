// Keys and values of the batch's tokens into the cache, rounded to its element.
#pragma once
#include <cstddef>

#include "tenon/device/cuda.cuh"
#include "tenon/ops/args.h"
#include "tenon/ops/cuda/sequences.cuh"

namespace tenon {
namespace cuda {

// A thread for the key, or the value, of a row and head: rounded as a whole, where its element has a scale.
template <CacheView V>
__global__ void store_kv_kernel(StoreKvArgs<V> args) {
  wait_for_earlier();
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= args.batch.rows * args.kv_heads * 2) return;
  const int which = i % 2, h = i / 2 % args.kv_heads, row = i / 2 / args.kv_heads;
  const SequenceRows& s = sequence_of(args.batch, row);
  const int position = s.start + row - s.first_row, lane = position % kTilePositions;
  const auto tile = args.kv.tile(args.layer, s.slot, h, position / kTilePositions);
  if (which == 0) {
    const float scale = store_row(args.keys.row(row) + h * args.head_dim, args.head_dim, tile.keys + lane, kTilePositions);
    if constexpr (has_scales<typename V::Element>) tile.key_scales[lane] = scale;
  } else {
    const int width = (args.head_dim + kTilePositions - 1) / kTilePositions * kTilePositions;
    const float scale = store_row(args.values.row(row) + h * args.head_dim, args.head_dim, tile.values + lane * width, 1);
    for (int d = args.head_dim; d < width; ++d) tile.values[lane * width + d] = typename V::Element{};
    if constexpr (has_scales<typename V::Element>) tile.value_scales[lane] = scale;
  }
}

}  // namespace cuda

template <cuda::ViewOnDevice V>
void store_kv(Cuda& device, const StoreKvArgs<V>& args) {
  const std::size_t threads = static_cast<std::size_t>(args.batch.rows) * static_cast<std::size_t>(args.kv_heads) * 2;
  device.launch_early("store_kv", cuda::store_kv_kernel<V>, cuda::blocks(threads, 128), 128, 0, args);
}

}  // namespace tenon
