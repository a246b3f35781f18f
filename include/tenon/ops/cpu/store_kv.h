// Keys and values of the batch's tokens into the cache.
#pragma once
#include "tenon/device/cpu.h"
#include "tenon/ops/args.h"

namespace tenon {

template <class V>
void store_kv(Cpu& device, const StoreKvArgs<V>& args) {
  const int width = (args.head_dim + kTilePositions - 1) / kTilePositions * kTilePositions;
  for (int s = 0; s < args.batch.sequence_count; ++s) {
    const SequenceRows& rows = args.batch.sequences[s];
    const auto body = [&](int begin, int end) {
      for (int i = begin; i < end; ++i) {
        const int row = rows.first_row + i, position = rows.start + i, lane = position % kTilePositions;
        for (int h = 0; h < args.kv_heads; ++h) {
          const auto tile = args.kv.tile(args.layer, rows.slot, h, position / kTilePositions);
          const float* k = args.keys.row(row) + h * args.head_dim;    // [head_dim]
          const float* v = args.values.row(row) + h * args.head_dim;  // [head_dim]
          for (int d = 0; d < args.head_dim; ++d) tile.keys[d * kTilePositions + lane] = k[d];
          for (int d = 0; d < args.head_dim; ++d) tile.values[lane * width + d] = v[d];
          for (int d = args.head_dim; d < width; ++d) tile.values[lane * width + d] = 0;
        }
      }
    };
    if (rows.rows < 8) body(0, rows.rows);
    else device.pool().split(rows.rows, body);
  }
}

}  // namespace tenon
