// Keys and values of the batch's tokens into the cache, rounded to its element.
#pragma once
#include <algorithm>

#include "tenon/device/cpu.h"
#include "tenon/ops/args.h"

namespace tenon {

template <CacheView V>
void store_kv(Cpu& device, const StoreKvArgs<V>& args) {
  const int width = (args.head_dim + kTilePositions - 1) / kTilePositions * kTilePositions;
  const SequenceRows* first = args.batch.sequences;
  const SequenceRows* last = first + args.batch.sequence_count;
  // A transposed key touches as many lines as it has dimensions: with many sequences that is time to share.
  device.pool().split(args.batch.rows, [&](int begin, int end) {
    const SequenceRows* rows =
        std::upper_bound(first, last, begin, [](int row, const SequenceRows& s) { return row < s.first_row; }) - 1;
    for (int row = begin; row < end; ++row) {
      while (row >= rows->first_row + rows->rows) ++rows;
      const int position = rows->start + row - rows->first_row, lane = position % kTilePositions;
      for (int h = 0; h < args.kv_heads; ++h) {
        const auto tile = args.kv.tile(args.layer, rows->slot, h, position / kTilePositions);
        const float* k = args.keys.row(row) + h * args.head_dim;    // [head_dim]
        const float* v = args.values.row(row) + h * args.head_dim;  // [head_dim]
        const float key_scale = store_row(k, args.head_dim, tile.keys + lane, kTilePositions);
        const float value_scale = store_row(v, args.head_dim, tile.values + lane * width, 1);
        for (int d = args.head_dim; d < width; ++d) tile.values[lane * width + d] = typename V::Element{};
        if constexpr (has_scales<typename V::Element>) {
          tile.key_scales[lane] = key_scale;
          tile.value_scales[lane] = value_scale;
        }
      }
    }
  });
}

}  // namespace tenon
