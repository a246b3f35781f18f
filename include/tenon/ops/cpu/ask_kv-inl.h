#pragma once
#include <algorithm>

#include "tenon/core/require.h"
#include "tenon/ops/cpu/ask_kv.h"

namespace tenon::cpu {

TENON_INLINE KvLines::KvLines(const ThreadPool& pool, const KvSoon& soon, int thread, int pieces)
    : pieces_(static_cast<std::uintptr_t>(std::max(pieces, 1))) {
  const int pairs = soon.batch.sequence_count * soon.kv_heads;
  const int begin = pool.part_begin(pairs, thread), end = pool.part_begin(pairs, thread + 1);
  for (const bool newest : {true, false}) {
    for (int pair = begin; pair < end && lines_ < kMostKvLines; ++pair) {
      const SequenceRows& rows = soon.batch.sequences[pair / soon.kv_heads];
      const int last = (rows.start + rows.rows - 1) / kTilePositions;
      const int first = soon.window > 0 ? std::max(0, rows.start + 1 - soon.window) / kTilePositions : 0;
      for (int t = newest ? last : first; t < last + newest && lines_ < kMostKvLines; ++t) {
        const KvSoon::Tile tile =
            soon.tile_of(soon.view, soon.layer, rows.slot, pair % soon.kv_heads, t, soon.head_dim);
        for (const KvSoon::Part& part : tile) add(part.data, part.bytes);
      }
    }
  }
}

TENON_INLINE void KvLines::share(std::vector<AskBeside::Range>& out) {
  std::uintptr_t wanted = lines_ / pieces_;
  if (pieces_ > 1) --pieces_;
  while (wanted > 0) {
    AskBeside::Range& from = ranges_[next_];
    const std::uintptr_t end = std::min(from.end, from.at + 64 * wanted), some = (end - from.at) / 64;
    out.push_back({from.at, end});
    from.at = end, wanted -= some, lines_ -= some;
    if (from.at == from.end) ++next_;
  }
}

TENON_INLINE void KvLines::add(const void* data, std::size_t bytes) {
  const auto from = reinterpret_cast<std::uintptr_t>(data), at = from / 64 * 64;
  const std::uintptr_t some = bytes == 0 ? 0 : std::min((from + bytes + 63) / 64 - at / 64, kMostKvLines - lines_);
  if (some == 0) return;
  lines_ += some;
  if (!ranges_.empty() && ranges_.back().end == at)
    ranges_.back().end += 64 * some;
  else
    ranges_.push_back({at, at + 64 * some});
}

TENON_INLINE AskBeside* AskKv::next(int thread, int pieces) {
  Thread& own = threads_[static_cast<std::size_t>(thread)];
  if (!own.lines) own.lines.emplace(pool_, soon_, thread, pieces);
  own.ranges.clear();
  own.lines->share(own.ranges);
  own.beside.begin(own.ranges);
  return own.beside.lines() > 0 ? &own.beside : nullptr;
}

}  // namespace tenon::cpu
