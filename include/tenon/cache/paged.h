// Paged keys and values (PagedAttention; Kwon et al., 2023): a sequence owns blocks anywhere in the storage, taken as
// it grows, so that nothing is reserved for text that may never come.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <unordered_map>
#include <vector>

#include "tenon/cache/tiles.h"

namespace tenon {

// Hands out blocks. Free ones are a stack: what was released last is still warm.
template <int BlockTokens>
class PagedLedger {
 public:
  PagedLedger(int blocks, int positions) : blocks_(blocks), positions_(positions) {
    free_.reserve(static_cast<std::size_t>(blocks));
    for (int block = blocks; block-- > 0;) free_.push_back(block);
  }

  int free_tokens() const { return static_cast<int>(free_.size()) * BlockTokens; }
  int capacity_tokens() const { return std::min(positions_, blocks_ * BlockTokens); }

  bool grow(SeqId seq, int tokens) {
    const auto found = tables_.find(seq);
    const int held = found == tables_.end() ? 0 : found->second.tokens;
    if (tokens <= 0) return true;
    if (tokens > capacity_tokens() - held) return false;
    const std::size_t needed = static_cast<std::size_t>(blocks_of(held + tokens) - blocks_of(held));
    if (needed > free_.size()) return false;
    Table& table = found == tables_.end() ? tables_[seq] : found->second;
    table.blocks.reserve(static_cast<std::size_t>(blocks_of(capacity_tokens())));
    table.tokens = held + tokens;
    table.blocks.insert(table.blocks.end(), free_.rbegin(), free_.rbegin() + static_cast<std::ptrdiff_t>(needed));
    free_.resize(free_.size() - needed);
    return true;
  }

  void release(SeqId seq) {
    const auto found = tables_.find(seq);
    if (found == tables_.end()) return;
    free_.insert(free_.end(), found->second.blocks.rbegin(), found->second.blocks.rend());
    tables_.erase(found);
  }

  // The blocks of a sequence, in order of position; none if it is not here.
  std::span<const std::int32_t> blocks(SeqId seq) const {
    const auto found = tables_.find(seq);
    return found == tables_.end() ? std::span<const std::int32_t>{} : found->second.blocks;
  }

  static constexpr int blocks_of(int tokens) { return tokens / BlockTokens + (tokens % BlockTokens != 0); }

 private:
  struct Table {
    std::vector<std::int32_t> blocks;
    int tokens = 0;
  };
  int blocks_, positions_;
  std::vector<std::int32_t> free_;
  std::unordered_map<SeqId, Table> tables_;
};

template <int BlockTokens, class E>
struct PagedView {
  using Element = E;
  static constexpr int block_tiles = BlockTokens / kTilePositions;

  detail::TileGrid<E> grid;
  const std::int32_t* table = nullptr;  // [sequence_count, table_stride] blocks, -1 behind a sequence's last
  int table_stride = 0;

  TENON_HD KvTile<E> tile(int layer, int sequence, int head, int tile) const {
    const std::int32_t block = table[static_cast<std::ptrdiff_t>(sequence) * table_stride + tile / block_tiles];
    return grid.at(layer, block, head, tile % block_tiles);
  }
};

template <int BlockTokens = 16, class Element = float>
struct PagedKVOf {
  static_assert(BlockTokens == 16 || BlockTokens == 32 || BlockTokens == 64,
                "tenon: PagedKVOf<BlockTokens> got a block size that is not supported; it needs 16, 32 or 64; "
                "see docs/policies.md#cache");
  static constexpr bool keeps_tokens = true;
  using Ledger = PagedLedger<BlockTokens>;
  using View = PagedView<BlockTokens, Element>;

  static Ledger ledger(const KvShape& shape, int tokens) {
    detail::check_cache(shape, tokens);
    return {blocks(tokens), shape.positions};
  }
  static std::size_t bytes(const KvShape& shape, int tokens) {
    detail::check_cache(shape, tokens);
    return detail::tile_bytes<Element>(shape, shape.layers,
                                       static_cast<std::size_t>(blocks(tokens)) * View::block_tiles);
  }
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
      if (owned.size() < needed) throw detail::no_room(rows[s]);
      std::copy_n(owned.begin(), needed, table.begin() + static_cast<std::ptrdiff_t>(s * width));
    }
    return {{shape, static_cast<std::size_t>(blocks(tokens)), View::block_tiles, storage},
            table.data(),
            static_cast<int>(width)};
  }

 private:
  // Rounded up, but at most so many that their tokens fit an int.
  static int blocks(int tokens) {
    return std::min(Ledger::blocks_of(tokens), std::numeric_limits<int>::max() / BlockTokens);
  }

  static std::size_t stride(std::span<const SequenceRows> rows) {
    int most = 0;
    for (const SequenceRows& r : rows) most = std::max(most, Ledger::blocks_of(r.start + r.rows));
    return static_cast<std::size_t>(most);
  }
};

using PagedKV = PagedKVOf<>;
static_assert(CachePolicy<PagedKV>);

}  // namespace tenon
