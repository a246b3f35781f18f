/// Paged keys and values (PagedAttention; Kwon et al., 2023). A sequence owns blocks anywhere in the storage and takes
/// them as it grows, so that no memory is reserved for text that may never come.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tenon/cache/block_ledger.h"
#include "tenon/cache/tiles.h"

namespace tenon {

/// The view of PagedKVOf.
template <int BlockTokens, class E>
struct PagedView {
  using Element = E;
  static constexpr int block_tiles = BlockTokens / kTilePositions;

  TileGrid<E> grid;
  const std::int32_t* table = nullptr;  ///< [sequence_count, table_stride] blocks, -1 after a sequence's last
  int table_stride = 0;

  TENON_HD KvTile<E> tile(int layer, int sequence, int head, int tile) const {
    const std::int32_t block = table[static_cast<std::ptrdiff_t>(sequence) * table_stride + tile / block_tiles];
    return grid.at(layer, block, head, tile % block_tiles);
  }
};

/// The cache policy: blocks of 16, 32 or 64 tokens, and an element of keys and values (KvElement).
template <int BlockTokens = 16, class Element = float>
struct PagedKVOf {
  static_assert(BlockTokens == 16 || BlockTokens == 32 || BlockTokens == 64,
                "tenon: PagedKVOf<BlockTokens> got a block size that is not supported; it needs 16, 32 or 64; "
                "see docs/policies.md#cache");
  static constexpr bool keeps_tokens = true;
  using Ledger = BlockLedger<BlockTokens>;
  using View = PagedView<BlockTokens, Element>;

  static Ledger ledger(const KvShape& shape, int tokens) {
    check_cache(shape, tokens);
    return {block_count(tokens, BlockTokens), shape.positions};
  }
  static std::size_t bytes(const KvShape& shape, int tokens) { return Storage::bytes(shape, tokens); }
  static BlockLayout block_layout(const KvShape& shape, int tokens) { return Storage::layout(shape, tokens); }
  static std::size_t table_entries(const KvShape&, std::span<const SequenceRows> rows) {
    return rows.size() * stride(rows);
  }

  static View view(const KvShape& shape, int tokens, const Ledger& ledger, std::span<const SequenceRows> rows,
                   void* storage, std::span<std::int32_t> table) {
    const std::size_t width = stride(rows);
    std::fill(table.begin(), table.end(), -1);
    for (std::size_t s = 0; s < rows.size(); ++s) {
      const auto owned = ledger.blocks(rows[s].seq);
      const auto needed = static_cast<std::size_t>(Ledger::blocks_of(rows[s].start + rows[s].rows));
      if (owned.size() < needed) throw no_room(rows[s]);
      std::copy_n(owned.begin(), needed, table.begin() + static_cast<std::ptrdiff_t>(s * width));
    }
    return {Storage::grid(shape, tokens, storage), table.data(), static_cast<int>(width)};
  }

 private:
  using Storage = BlockStorage<BlockTokens, Element>;

  // Blocks of the longest sequence, rounded up, so that the arguments of kernels stay the same while texts grow.
  static std::size_t stride(std::span<const SequenceRows> rows) {
    constexpr int kStep = 16;
    int most = 0;
    for (const SequenceRows& r : rows) most = std::max(most, Ledger::blocks_of(r.start + r.rows));
    return static_cast<std::size_t>((most + kStep - 1) / kStep * kStep);
  }
};

using PagedKV = PagedKVOf<>;
static_assert(CachePolicy<PagedKV>);

}  // namespace tenon
