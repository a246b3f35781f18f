/// No cache: every step computes the keys and values of the whole text again. The baseline of experiment 2, whose time
/// per token grows with the text. The storage holds one layer of one step, because the next layer overwrites it.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>

#include "tenon/cache/tiles.h"

namespace tenon {

/// Counts the tiles of a step. Their place follows from the order of the batch.
class NoCacheLedger {
 public:
  NoCacheLedger(int tiles, int positions) : tiles_(tiles), free_(tiles), positions_(positions) {}

  int free_tokens() const { return free_ * kTilePositions; }
  int capacity_tokens() const { return std::min(positions_, tiles_ * kTilePositions); }

  bool grow(SeqId seq, int tokens) {
    const auto found = held_.find(seq);
    const int held = found == held_.end() ? 0 : found->second;
    if (tokens <= 0) return true;
    if (tokens > capacity_tokens() - held) return false;
    const int needed = tiles_of(held + tokens) - tiles_of(held);
    if (needed > free_) return false;
    held_[seq] = held + tokens;
    free_ -= needed;
    return true;
  }

  void release(SeqId seq) {
    const auto found = held_.find(seq);
    if (found == held_.end()) return;
    free_ += tiles_of(found->second);
    held_.erase(found);
  }

  /// Tokens with reserved room; 0 for an unknown sequence.
  int tokens(SeqId seq) const {
    const auto found = held_.find(seq);
    return found == held_.end() ? 0 : found->second;
  }

 private:
  int tiles_, free_, positions_;
  std::unordered_map<SeqId, int> held_;
};

/// The view of NoCacheOf. The tiles of a sequence are contiguous, head after head; all layers share them.
template <class E>
struct NoCacheView {
  using Element = E;
  std::byte* storage = nullptr;         ///< tiles of the step: for each sequence [heads, its number of tiles]
  const std::int32_t* table = nullptr;  ///< [sequence_count, 2]: number of tiles before the sequence, and of its own
  std::size_t tile_stride = 0;          ///< in bytes
  int heads = 0;
  TileParts<E> parts;

  TENON_HD KvTile<E> tile(int /*layer*/, int sequence, int head, int tile) const {
    const std::int32_t* extent = table + 2 * static_cast<std::ptrdiff_t>(sequence);  // [2]
    const auto index = static_cast<std::size_t>(extent[0]) * static_cast<std::size_t>(heads) +
                       static_cast<std::size_t>(extent[1]) * static_cast<std::size_t>(head) +
                       static_cast<std::size_t>(tile);
    return parts.at(storage + index * tile_stride);
  }
};

/// The cache policy, for an element of keys and values (KvElement), to which it rounds as other caches do.
template <class Element = float>
struct NoCacheOf {
  static constexpr bool keeps_tokens = false;
  using Ledger = NoCacheLedger;
  using View = NoCacheView<Element>;

  static Ledger ledger(const KvShape& shape, int tokens) {
    check_cache(shape, tokens);
    return {tiles(tokens), shape.positions};
  }
  static std::size_t bytes(const KvShape& shape, int tokens) {
    check_cache(shape, tokens);
    return storage_bytes<Element>(shape, 1, static_cast<std::size_t>(tiles(tokens)));
  }
  static std::size_t table_entries(const KvShape&, std::span<const SequenceRows> rows) { return 2 * rows.size(); }

  static View view(const KvShape& shape, int /*tokens*/, const Ledger& ledger, std::span<const SequenceRows> rows,
                   void* storage, std::span<std::int32_t> table) {
    std::int32_t before = 0;
    for (std::size_t s = 0; s < rows.size(); ++s) {
      const int length = rows[s].start + rows[s].rows;
      if (ledger.tokens(rows[s].seq) < length) throw no_room(rows[s]);
      table[2 * s] = before;
      table[2 * s + 1] = tiles_of(length);
      before += table[2 * s + 1];
    }
    return {static_cast<std::byte*>(storage), table.data(), shape.tile_bytes<Element>(), shape.heads,
            TileParts<Element>(shape)};
  }

 private:
  static int tiles(int tokens) { return block_count(tokens, kTilePositions); }
};

using NoCache = NoCacheOf<>;
static_assert(CachePolicy<NoCache>);

}  // namespace tenon
