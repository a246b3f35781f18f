/// Contiguous keys and values: every sequence gets a slot for the longest text. It is simple, but memory of positions
/// that are never written is wasted; PagedKV avoids that.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "tenon/cache/tiles.h"

namespace tenon {

/// Slots of `positions` tokens.
class ContiguousLedger {
 public:
  ContiguousLedger(int slots, int positions) : positions_(positions) {
    for (int slot = slots; slot-- > 0;) free_.push_back(slot);
  }

  /// Tokens of free slots. The rest of a taken slot belongs to its owner and is not counted.
  int free_tokens() const { return static_cast<int>(free_.size()) * positions_; }
  int capacity_tokens() const { return positions_; }

  bool grow(SeqId seq, int tokens) {
    const auto found = taken_.find(seq);
    const int held = found == taken_.end() ? 0 : found->second.tokens;
    if (tokens <= 0) return true;
    if (tokens > positions_ - held) return false;
    if (found != taken_.end()) {
      found->second.tokens += tokens;
      return true;
    }
    if (free_.empty()) return false;
    taken_[seq] = {free_.back(), tokens};
    free_.pop_back();
    return true;
  }

  void release(SeqId seq) {
    const auto found = taken_.find(seq);
    if (found == taken_.end()) return;
    free_.push_back(found->second.slot);
    taken_.erase(found);
  }

  /// ShrinksSequences. The slot stays.
  void shrink(SeqId seq, int tokens) {
    const auto found = taken_.find(seq);
    if (found != taken_.end()) found->second.tokens = std::min(found->second.tokens, tokens);
  }

  /// The slot of a sequence.
  struct Slot {
    std::int32_t slot = -1;
    int tokens = 0;  ///< tokens with reserved room; 0: unknown sequence
  };
  Slot slot(SeqId seq) const {
    const auto found = taken_.find(seq);
    return found == taken_.end() ? Slot{} : found->second;
  }

 private:
  int positions_;
  std::vector<std::int32_t> free_;
  std::unordered_map<SeqId, Slot> taken_;
};

/// The view of ContiguousKVOf.
template <class E>
struct ContiguousView {
  using Element = E;
  TileGrid<E> grid;
  const std::int32_t* table = nullptr;  ///< [sequence_count] slots

  TENON_HD KvTile<E> tile(int layer, int sequence, int head, int tile) const {
    return grid.at(layer, table[sequence], head, tile);
  }
};

/// The cache policy, for an element of keys and values (KvElement).
template <class Element = float>
struct ContiguousKVOf {
  static constexpr bool keeps_tokens = true;
  using Ledger = ContiguousLedger;
  using View = ContiguousView<Element>;

  static Ledger ledger(const KvShape& shape, int tokens) {
    check_cache(shape, tokens);
    return {slots(shape, tokens), shape.positions};
  }
  static std::size_t bytes(const KvShape& shape, int tokens) {
    check_cache(shape, tokens);
    return storage_bytes<Element>(shape, shape.layers,
                                  checked_product({static_cast<std::size_t>(slots(shape, tokens)),
                                                   static_cast<std::size_t>(tiles_of(shape.positions))}));
  }
  static std::size_t table_entries(const KvShape&, std::span<const SequenceRows> rows) { return rows.size(); }

  static View view(const KvShape& shape, int tokens, const Ledger& ledger, std::span<const SequenceRows> rows,
                   void* storage, std::span<std::int32_t> table) {
    for (std::size_t s = 0; s < rows.size(); ++s) {
      const auto slot = ledger.slot(rows[s].seq);
      if (slot.tokens < rows[s].start + rows[s].rows) throw no_room(rows[s]);
      table[s] = slot.slot;
    }
    return {{shape, static_cast<std::size_t>(slots(shape, tokens)), tiles_of(shape.positions), storage}, table.data()};
  }

 private:
  static int slots(const KvShape& shape, int tokens) { return std::max(1, tokens / shape.positions); }
};

using ContiguousKV = ContiguousKVOf<>;
static_assert(CachePolicy<ContiguousKV>);

}  // namespace tenon
