// The batch of a step in device memory, and the rows of it that the last layer needs.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "tenon/core/batch.h"
#include "tenon/core/concepts.h"

namespace tenon {

/// Makes the batch of the last layer after its keys are stored: only rows that need logits, each as its own sequence.
struct LastRows {
  std::vector<SequenceRows> sequences;

  /// The batch of the rows batch.logit_rows. It points into this object; valid until the next call.
  BatchView select(const BatchView& batch) {
    sequences.clear();
    int s = 0;
    for (int i = 0; i < batch.logit_count; ++i) {
      const int row = batch.logit_rows[i];
      while (row >= batch.sequences[s].first_row + batch.sequences[s].rows) ++s;
      const SequenceRows& from = batch.sequences[s];
      sequences.push_back({from.seq, i, 1, from.start + row - from.first_row, from.slot, from.prompt, from.adapters,
                           from.adapters_from});
    }
    return {nullptr, nullptr, sequences.data(), nullptr, batch.logit_count, batch.logit_count, 0, batch.longest};
  }
};

/// Rows of one sequence that attention computes in one job. The job also covers the `heads_together` query heads that
/// share their keys. 0 if neither Attend nor D has a tile size.
template <DevicePolicy D, class Attend>
int tile_rows(int heads_together) {
  if constexpr (TilesQueries<Attend>)
    return std::max(1, Attend::queries_together / heads_together);
  else if constexpr (TilesQueries<D>)
    return std::max(1, D::queries_together / heads_together);
  else if constexpr (TilesRows<D>)
    return std::max(1, D::rows_together / heads_together);
  else
    return 0;
}

/// The batch in device memory, for the kernels of one step. tile_rows: the result of tile_rows(). Valid until the next
/// D::begin_step(); on the CPU it points to the arrays of `b`.
template <DevicePolicy D>
BatchView on_device(D& device, const BatchView& b, int tile_rows) {
  const auto put = [&](const auto* values, int count) {
    return device.put(std::span(values, values ? static_cast<std::size_t>(count) : 0));
  };
  BatchView there = b;
  there.tokens = put(b.tokens, b.rows);
  there.positions = put(b.positions, b.rows);
  there.sequences = put(b.sequences, b.sequence_count);
  there.logit_rows = put(b.logit_rows, b.logit_count);
  if constexpr (TilesRows<D>) {
    const std::vector<RowTile> tiles = row_tiles(b, tile_rows);
    there.tile_rows = tile_rows;
    there.tile_count = static_cast<int>(tiles.size());
    there.tiles = put(tiles.data(), there.tile_count);
    if constexpr (StepsLength<D>) there.longest = (b.longest + D::length_step - 1) / D::length_step * D::length_step;
  }
  return there;
}

}  // namespace tenon
