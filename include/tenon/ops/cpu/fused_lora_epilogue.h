// LoRA updates fused into the product of their matrix. A thread makes the updates of a block of outputs just before it
// multiplies the block's first panel. While it multiplies, it prefetches the factors of the next block, and the keys
// and values that attention reads next. Arithmetic bounds products of many rows, so memory would idle otherwise
// (docs/decisions/0017 and 0018).
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tenon/core/low_rank.h"
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/kernels.h"
#include "tenon/ops/cpu/kv_prefetch.h"
#include "tenon/ops/cpu/low_rank.h"
#include "tenon/ops/cpu/prefetch_pacer.h"

namespace tenon::cpu {

/// The LoRA updates of one product, for all threads.
class FusedLoraEpilogue {
 public:
  /// Computes u of every row, which all panels need. job: of all outputs; hint: keys and values to prefetch, or null.
  FusedLoraEpilogue(Cpu& device, const LowRankArgs& args, const PanelJob& job, const KvPrefetchHint* hint = nullptr);

  /// Makes the updates of outputs first..last-1, a piece of the job, for all rows that have some, and points `job` at
  /// them.
  void make(int first, int last, int thread, PanelJob& job);

  /// Number of terms, from the first on, whose factors for the outputs from `first` on this thread has prefetched.
  std::size_t prefetched(int first, int thread) const;

 private:
  // Blocks that a thread keeps, each at its own place: a piece of 3 or of 4 panels lies within them.
  static constexpr int kBlocks = 3, kOutputs = kBlocks * kFactorBlock;
  static_assert(kOutputs % (3 * kPanelRows) == 0 && kOutputs % (4 * kPanelRows) == 0);

  struct alignas(64) ThreadBlocks {
    MatrixView<float> delta;           // [rows, kOutputs]
    int made[kBlocks] = {-1, -1, -1};  // block at each place; -1: none
    std::vector<const float*> deltas;  // [rows] of it, null where a row has no update
    std::optional<KvLines> kv;         // created with the first share
    std::vector<PrefetchPacer::Lines> ranges;
    PrefetchPacer pacer;
    int next = -1;           // first output of the block that is prefetched; -1: none
    std::size_t listed = 0;  // terms whose factors `ranges` lists
  };

  void shrink_all();

  // Share of the factors of a thread's first block that is prefetched during term i of its part of shrink_all(). Null:
  // none.
  PrefetchPacer* prefetch_first_block(int i, int thread);

  void point_to_rows(ThreadBlocks& own) const;

  // Makes the block from output `first` on.
  void make_block(int first, int thread, const ThreadBlocks& own);

  // Prefetches of the thread while it multiplies a piece: the listed block's factors, then keys and values. Null: none.
  PrefetchPacer* prefetch_next(int thread, ThreadBlocks& own) const;

  // Lists the gains and factors of the block from output `first` on, if the block belongs to the thread's part.
  void list_block(int first, int thread, ThreadBlocks& own) const;

  // Lists what the rows' gains hold for outputs first..last-1: one line per row and panel, too far apart for the
  // hardware prefetcher. Xeon with AMX, 64 DoRAs of rank 16, 768 to 2304: they add 1.13 times what as
  // many LoRAs add, 1.18 without.
  void list_gains(int first, int last, std::vector<PrefetchPacer::Lines>& ranges) const;

  Cpu& device_;
  const LowRankArgs& args_;
  const PanelJob job_;
  const KvPrefetchHint* const hint_;
  LowRankJobs all_;
  float* u_;  // of all terms
  std::vector<ThreadBlocks> threads_;
};

}  // namespace tenon::cpu

#ifndef TENON_COMPILED
#include "tenon/ops/cpu/fused_lora_epilogue-inl.h"
#endif
