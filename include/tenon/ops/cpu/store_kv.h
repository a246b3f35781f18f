// Writes keys and values of the batch's tokens into the cache, rounded to its element.
#pragma once
#include <algorithm>
#include <type_traits>

#include "tenon/device/cpu.h"
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/kernels.h"
#include "tenon/ops/cpu/rows.h"

namespace tenon {
namespace cpu {

/// Stores rows row .. row + count - 1 of one sequence in lanes lane .. lane + count - 1 of a tile of head `head`. A
/// whole tile of float32 needs no rounding, and is transposed at once.
template <CacheView V>
void store_in_tile(const Kernels& kernels, const StoreKvArgs<V>& args, const KvTile<typename V::Element>& tile,
                   int head, int row, int lane, int count) {
  using E = typename V::Element;
  const int width = (args.head_dim + kTilePositions - 1) / kTilePositions * kTilePositions;
  const float* keys = args.keys.row(row) + head * args.head_dim;      // [count, keys.stride], of which head_dim each
  const float* values = args.values.row(row) + head * args.head_dim;  // [count, values.stride], likewise
  const bool transposed = std::is_same_v<E, float> && count == kTilePositions;
  if (transposed) kernels.interleave(keys, args.keys.stride, args.head_dim, count, tile.keys);
  for (int i = 0; i < count; ++i, ++lane) {
    float key_scale = 1;
    if (!transposed)
      key_scale = store_row(keys + i * args.keys.stride, args.head_dim, tile.keys + lane, kTilePositions);
    const float value_scale = store_row(values + i * args.values.stride, args.head_dim, tile.values + lane * width, 1);
    for (int d = args.head_dim; d < width; ++d) tile.values[lane * width + d] = E{};
    if constexpr (has_scales<E>) {
      tile.key_scales[lane] = key_scale;
      tile.value_scales[lane] = value_scale;
    }
  }
}

}  // namespace cpu

template <CacheView V>
void store_kv(Cpu& device, const StoreKvArgs<V>& args) {
  const cpu::Kernels& kernels = cpu::kernels_for(device.isa());
  // A transposed key touches one line per dimension, so that many sequences are worth sharing among threads.
  device.pool().split(args.batch.rows, [&](int begin, int end) {
    const SequenceRows* rows = cpu::sequence_of(args.batch, begin);
    for (int row = begin, count; row < end; row += count) {
      while (row >= rows->first_row + rows->rows) ++rows;
      const int position = rows->start + row - rows->first_row, lane = position % kTilePositions;
      count = std::min({kTilePositions - lane, rows->first_row + rows->rows - row, end - row});
      for (int h = 0; h < args.kv_heads; ++h) {
        const auto tile = args.kv.tile(args.layer, rows->slot, h, position / kTilePositions);
        cpu::store_in_tile(kernels, args, tile, h, row, lane, count);
      }
    }
  });
}

}  // namespace tenon
