// Low-rank updates beside the product of their matrix: those of a block of outputs are made just before its first panel
// is multiplied, by the same thread, and while that is multiplied memory is asked for the factors of the next, and for
// keys and values that are read behind the product. With many rows arithmetic is what counts, so that all of these come
// in time that memory would idle (docs/decisions/0017 and 0018).
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

class FusedLoraEpilogue {
 public:
  // Computes what all panels want: u of every row. job: of all outputs; hint: what else is asked for, or null
  FusedLoraEpilogue(Cpu& device, const LowRankArgs& args, const PanelJob& job, const KvPrefetchHint* hint = nullptr);

  // Outputs first..last-1, a piece of the job, of all rows that have updates, where `job` of these outputs finds them.
  void make(int first, int last, int thread, PanelJob& job);

  // Terms, the first ones, whose factors of the outputs from `first` on this thread has asked for.
  std::size_t prefetched(int first, int thread) const;

 private:
  // Blocks that a thread keeps, each at its own place: so many that pieces of 3 panels and of 4 lie within them.
  static constexpr int kBlocks = 3, kOutputs = kBlocks * kFactorBlock;
  static_assert(kOutputs % (3 * kPanelRows) == 0 && kOutputs % (4 * kPanelRows) == 0);

  struct alignas(64) ThreadBlocks {
    MatrixView<float> delta;           // [rows, kOutputs]
    int made[kBlocks] = {-1, -1, -1};  // the block at each place
    std::vector<const float*> deltas;  // [rows] of it, null where a row has no update
    std::optional<KvLines> kv;         // once they are listed
    std::vector<PrefetchPacer::Range> ranges;
    PrefetchPacer pacer;
    int next = -1;           // output from which on is asked for
    std::size_t listed = 0;  // terms whose factors are, as far as `beside` has come
  };

  void shrink_all();

  // Beside term i of a thread's own part of shrink_all(): a share of the factors of its first block of outputs.
  PrefetchPacer* prefetch_first_block(int i, int thread);

  void point_to_rows(ThreadBlocks& own) const;

  // The block from output `first` on.
  void make_block(int first, int thread, const ThreadBlocks& own);

  // What to ask for while a piece is multiplied: the block that has been listed, where one has, and keys and values.
  PrefetchPacer* prefetch_next(int thread, ThreadBlocks& own) const;

  // Appends the factors of the block from output `first` on, where it is of the thread's part.
  void list_block(int first, int thread, ThreadBlocks& own) const;

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
