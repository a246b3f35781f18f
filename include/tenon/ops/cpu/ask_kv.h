// While a product is made, memory is asked for the keys and values that are read when it has been. With more than a few
// rows arithmetic is what a product waits for, and memory would idle; attention waits for memory (docs/decisions/0018).
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tenon/ops/args.h"
#include "tenon/ops/cpu/ask_beside.h"
#include "tenon/ops/cpu/kernels.h"

namespace tenon::cpu {

// Of a thread, 2 MiB: more than a core's second cache holds, as what leaves it waits in the last one.
inline constexpr std::uintptr_t kMostKvLines = (std::uintptr_t{2} << 20) / 64;

// Lines of the sequences and heads of one part: in a step that decodes they are those of this part of store_kv() and
// attention(), which the same thread takes as a rule. First come those of the newest tile of each, which both touch,
// then those before. Pieces of the product have equal shares.
class KvLines {
 public:
  KvLines(const ThreadPool& pool, const KvSoon& soon, int thread, int pieces)
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

  // Appends those that the next piece asks for: of all that are left, as there may be more pieces than were expected.
  void share(std::vector<AskBeside::Range>& out) {
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

 private:
  void add(const void* data, std::size_t bytes) {
    const auto from = reinterpret_cast<std::uintptr_t>(data), at = from / 64 * 64;
    const std::uintptr_t some = bytes == 0 ? 0 : std::min((from + bytes + 63) / 64 - at / 64, kMostKvLines - lines_);
    if (some == 0) return;
    lines_ += some;
    if (!ranges_.empty() && ranges_.back().end == at)
      ranges_.back().end += 64 * some;
    else
      ranges_.push_back({at, at + 64 * some});
  }

  std::vector<AskBeside::Range> ranges_;  // from next_ on yet to be asked for
  std::size_t next_ = 0;
  std::uintptr_t lines_ = 0;  // of these
  std::uintptr_t pieces_;     // to come
};

// Of all threads, for a product that asks for nothing else.
class AskKv {
 public:
  AskKv(Cpu& device, const KvSoon& soon)
      : pool_(device.pool()), soon_(soon), threads_(static_cast<std::size_t>(device.threads())) {}

  // What a thread asks for in its next piece, of so many in its own part of the product; null: nothing.
  AskBeside* next(int thread, int pieces) {
    Thread& own = threads_[static_cast<std::size_t>(thread)];
    if (!own.lines) own.lines.emplace(pool_, soon_, thread, pieces);
    own.ranges.clear();
    own.lines->share(own.ranges);
    own.beside.begin(own.ranges);
    return own.beside.lines() > 0 ? &own.beside : nullptr;
  }

 private:
  struct alignas(64) Thread {
    std::optional<KvLines> lines;
    std::vector<AskBeside::Range> ranges;
    AskBeside beside;
  };

  const ThreadPool& pool_;
  const KvSoon& soon_;
  std::vector<Thread> threads_;
};

}  // namespace tenon::cpu
