// While a product is made, memory is asked for the keys and values that are read when it has been. With more than a few
// rows arithmetic is what a product waits for, and memory would idle; attention waits for memory (docs/decisions/0018).
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tenon/core/kv_prefetch.h"
#include "tenon/device/cpu_tuning.h"
#include "tenon/ops/cpu/kernels.h"
#include "tenon/ops/cpu/prefetch_pacer.h"

namespace tenon::cpu {

// Prefetch budget per thread and product.
inline std::uintptr_t most_kv_lines() { return cpu_tuning().kv_prefetch_bytes / 64; }

// Lines of the sequences and heads of one part: in a step that decodes they are those of this part of store_kv() and
// attention(), which the same thread takes as a rule. First come those of the newest tile of each, which both touch,
// then those before. Pieces of the product have equal shares.
class KvLines {
 public:
  KvLines(const ThreadPool& pool, const KvPrefetchHint& hint, int thread, int pieces);

  // Appends those that the next piece asks for: of all that are left, as there may be more pieces than were expected.
  void share(std::vector<PrefetchPacer::Range>& out);

 private:
  void add(std::span<const std::byte> memory);

  std::vector<PrefetchPacer::Range> ranges_;  // from next_ on yet to be asked for
  std::size_t next_ = 0;
  std::uintptr_t lines_ = 0;  // of these
  std::uintptr_t pieces_;     // to come
};

// Of all threads, for a product that asks for nothing else.
class KvPrefetch {
 public:
  KvPrefetch(Cpu& device, const KvPrefetchHint& hint)
      : pool_(device.pool()), hint_(hint), threads_(static_cast<std::size_t>(device.threads())) {}

  // What a thread asks for in its next piece, of so many in its own part of the product; null: nothing.
  PrefetchPacer* next(int thread, int pieces);

 private:
  struct alignas(64) ThreadKv {
    std::optional<KvLines> lines;
    std::vector<PrefetchPacer::Range> ranges;
    PrefetchPacer pacer;
  };

  const ThreadPool& pool_;
  const KvPrefetchHint hint_;
  std::vector<ThreadKv> threads_;
};

}  // namespace tenon::cpu

#ifndef TENON_COMPILED
#include "tenon/ops/cpu/kv_prefetch-inl.h"
#endif
