#pragma once
#include <algorithm>

#include "tenon/core/require.h"
#include "tenon/ops/cpu/kv_prefetch.h"

namespace tenon::cpu {

TENON_INLINE KvLines::KvLines(const ThreadPool& pool, const KvPrefetchHint& hint, int thread, int pieces)
    : pieces_(static_cast<std::uintptr_t>(std::max(pieces, 1))) {
  const std::uintptr_t most = most_kv_lines();
  const int pairs = hint.batch.sequence_count * hint.kv_heads;
  const int begin = pool.part_begin(pairs, thread), end = pool.part_begin(pairs, thread + 1);
  for (const bool newest : {true, false}) {
    for (int pair = begin; pair < end && lines_ < most; ++pair) {
      const SequenceRows& rows = hint.batch.sequences[pair / hint.kv_heads];
      const int last = (rows.start + rows.rows - 1) / kTilePositions;
      const int first = hint.window > 0 ? std::max(0, rows.start + 1 - hint.window) / kTilePositions : 0;
      for (int t = newest ? last : first; t < last + newest && lines_ < most; ++t) {
        const KvPrefetchHint::Tile tile =
            hint.tile_of(hint.view, hint.layer, rows.slot, pair % hint.kv_heads, t, hint.head_dim);
        for (const std::span<const std::byte> part : tile) add(part);
      }
    }
  }
}

TENON_INLINE void KvLines::share(std::vector<PrefetchPacer::Lines>& out) {
  std::uintptr_t wanted = lines_ / pieces_;
  if (pieces_ > 1) --pieces_;
  while (wanted > 0) {
    PrefetchPacer::Lines& from = ranges_[next_];
    const std::uintptr_t end = std::min(from.end, from.at + 64 * wanted), some = (end - from.at) / 64;
    out.push_back({from.at, end});
    from.at = end, wanted -= some, lines_ -= some;
    if (from.at == from.end) ++next_;
  }
}

TENON_INLINE void KvLines::add(std::span<const std::byte> memory) {
  const std::size_t bytes = memory.size();
  const auto from = reinterpret_cast<std::uintptr_t>(memory.data()), at = from / 64 * 64;
  const std::uintptr_t some = bytes == 0 ? 0 : std::min((from + bytes + 63) / 64 - at / 64, most_kv_lines() - lines_);
  if (some == 0) return;
  lines_ += some;
  if (!ranges_.empty() && ranges_.back().end == at)
    ranges_.back().end += 64 * some;
  else
    ranges_.push_back({at, at + 64 * some});
}

TENON_INLINE PrefetchPacer* KvPrefetch::next(int thread, int pieces) {
  ThreadKv& own = threads_[static_cast<std::size_t>(thread)];
  if (!own.lines) own.lines.emplace(pool_, hint_, thread, pieces);
  own.ranges.clear();
  own.lines->share(own.ranges);
  own.pacer.begin(own.ranges);
  return own.pacer.lines() > 0 ? &own.pacer : nullptr;
}

}  // namespace tenon::cpu
