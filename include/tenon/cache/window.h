/// Keys and values of models whose rows see a window. A sequence owns blocks anywhere in the storage, and no more of
/// them than a ring. A text far longer than the window costs no more memory than one a little longer.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tenon/cache/tiles.h"
#include "tenon/cache/window_ledger.h"

namespace tenon {

/// The view of WindowKVOf.
template <int BlockTokens, class E>
struct WindowView {
  using Element = E;
  static constexpr int block_tiles = BlockTokens / kTilePositions;

  TileGrid<E> grid;
  /// [sequence_count, table_stride]. Entry 0 of a row is the index that block 0 of the text would have in the row, 1 or
  /// less. Then come the blocks that rows of the step see, and -1 after the last.
  const std::int32_t* table = nullptr;
  int table_stride = 0;

  TENON_HD KvTile<E> tile(int layer, int sequence, int head, int tile) const {
    const std::int32_t* row = table + static_cast<std::ptrdiff_t>(sequence) * table_stride;  // [table_stride]
    return grid.at(layer, row[row[0] + tile / block_tiles], head, tile % block_tiles);
  }
};

/// The cache policy: blocks of 16, 32 or 64 tokens, and an element of keys and values (KvElement).
template <int BlockTokens = 16, class Element = float>
struct WindowKVOf {
  static_assert(BlockTokens == 16 || BlockTokens == 32 || BlockTokens == 64,
                "tenon: WindowKVOf<BlockTokens> got a block size that is not supported; it needs 16, 32 or 64; "
                "see docs/policies.md#cache");
  static constexpr bool keeps_tokens = true;
  using Ledger = WindowLedger<BlockTokens>;
  using View = WindowView<BlockTokens, Element>;

  static Ledger ledger(const KvShape& shape, int tokens) {
    check_cache(shape, tokens);
    return {block_count(tokens, BlockTokens), shape.positions, shape.window};
  }
  static std::size_t bytes(const KvShape& shape, int tokens) { return Storage::bytes(shape, tokens); }

  /// Most tokens of storage that one sequence fills, however long it gets.
  static int sequence_tokens(const KvShape& shape) {
    const int most = block_count(shape.positions, BlockTokens);
    return std::min(Ledger::ring_blocks(shape.positions, shape.window), most) * BlockTokens;
  }

  static std::size_t table_entries(const KvShape& shape, std::span<const SequenceRows> rows) {
    return rows.size() * stride(shape, rows);
  }

  static View view(const KvShape& shape, int tokens, const Ledger& ledger, std::span<const SequenceRows> rows,
                   void* storage, std::span<std::int32_t> table) {
    const std::size_t width = stride(shape, rows);
    std::fill(table.begin(), table.end(), -1);
    for (std::size_t s = 0; s < rows.size(); ++s) {
      const auto [first, blocks] = ledger.living(rows[s].seq);
      const auto [from, to] = seen(shape, rows[s]);
      if (from < first || to > first + static_cast<int>(blocks.size())) throw no_room(rows[s]);
      const auto row = table.subspan(s * width, width);
      row[0] = 1 - from;
      std::copy_n(blocks.begin() + (from - first), to - from, row.begin() + 1);
    }
    return {Storage::grid(shape, tokens, storage), table.data(), static_cast<int>(width)};
  }

 private:
  using Storage = BlockStorage<BlockTokens, Element>;

  // Blocks of a text: [from, to).
  struct Range {
    int from, to;
  };
  // The blocks that the rows see. The first row sees the earliest.
  static Range seen(const KvShape& shape, const SequenceRows& rows) {
    const int from = shape.window > 0 ? std::max(0, rows.start - shape.window + 1) : 0;
    return {from / BlockTokens, Ledger::blocks_of(rows.start + rows.rows)};
  }

  static std::size_t stride(const KvShape& shape, std::span<const SequenceRows> rows) {
    int most = 0;
    for (const SequenceRows& r : rows) {
      const auto [from, to] = seen(shape, r);
      most = std::max(most, to - from);
    }
    return static_cast<std::size_t>(most) + 1;
  }
};

using WindowKV = WindowKVOf<>;
static_assert(CachePolicy<WindowKV>);

}  // namespace tenon
