// Prefetches keys and values while the product before attention is made. Arithmetic bounds a product of more than a few
// rows, and memory bounds attention (docs/decisions/0018).
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

/// Prefetch budget per thread and product.
inline std::uintptr_t most_kv_lines() { return cpu_tuning().kv_prefetch_bytes / 64; }

/// Cache lines of the keys and values of one thread's part. In a decoding step, the same thread usually takes the same
/// part in store_kv() and attention(). The newest tile of each sequence and head comes first, because both ops touch
/// it. Pieces of the product get equal shares.
class KvLines {
 public:
  /// Lists at most most_kv_lines() lines. pieces: expected pieces of the product.
  KvLines(const ThreadPool& pool, const KvPrefetchHint& hint, int thread, int pieces);

  /// Appends the share of the next piece. Shares are of all lines left, because there may be more pieces than expected.
  void share(std::vector<PrefetchPacer::Lines>& out);

 private:
  void add(std::span<const std::byte> memory);

  std::vector<PrefetchPacer::Lines> ranges_;  // from next_ on not yet handed out
  std::size_t next_ = 0;
  std::uintptr_t lines_ = 0;  // in these ranges
  std::uintptr_t pieces_;     // still expected
};

/// The prefetches of all threads, for a product without LoRA updates.
class KvPrefetch {
 public:
  KvPrefetch(Cpu& device, const KvPrefetchHint& hint)
      : pool_(device.pool()), hint_(hint), threads_(static_cast<std::size_t>(device.threads())) {}

  /// The prefetches of a thread's next piece, out of `pieces` in its own part of the product. Null: none.
  PrefetchPacer* next(int thread, int pieces);

 private:
  struct alignas(64) ThreadKv {
    std::optional<KvLines> lines;
    std::vector<PrefetchPacer::Lines> ranges;
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
