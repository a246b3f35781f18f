// LoRA updates of a step's rows, apart from their product. A job is some rows of one group. One thread computes its
// products with a and then with b, so that no thread waits. fused_lora_epilogue.h makes them within the product.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "tenon/core/low_rank.h"
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/kernels.h"
#include "tenon/ops/cpu/prefetch_pacer.h"

namespace tenon {
namespace cpu {

/// Terms of the same rows, done by one thread.
struct LowRankRows {
  int first, last;  ///< range of LowRankJobs::terms
  bool gaps;        ///< some outputs of the matrix have no term
};

/// Whether no earlier update shares an output with this one.
bool is_fresh(std::span<const LowRank> updates, std::size_t index);

/// Whether some outputs of the matrix have no update.
bool has_gaps(std::span<const LowRank> updates, int outputs);

std::span<const LowRank> updates_of(const LowRankArgs& args, const AdapterGroup& group);

/// The rows that have updates for this matrix, in jobs that any thread may do.
struct LowRankJobs {
  /// Copies of the updates: each adapter's table lies on a page of its own, too far away to read for every block.
  std::vector<LowRankTerm> terms;
  std::vector<LowRankRows> jobs;
  std::ptrdiff_t most_floats = 0;  ///< most floats of u in a job

  LowRankJobs(const LowRankArgs& args, int threads);

  /// Gives each term's u an offset among those of all terms, instead of those of its job. Returns the floats of all.
  std::ptrdiff_t part_all();

 private:
  void add(std::span<const LowRank> updates, const int* rows, int count, bool again, int outputs);
};

void shrink(Isa isa, const LowRankTerm& term, MatrixView<const float> x, float* u, const void* next,
            PrefetchPacer* pacer = nullptr);

/// Computes the outputs of all rows of some jobs. Outputs without a term are 0.
void expand(Isa isa, const LowRankJobs& all, std::span<const LowRankRows> jobs, const float* u,
            const LowRankOutputs& out);

/// Multiply-adds of terms that compute at most this many outputs each.
double low_rank_work(int inputs, std::span<const LowRankTerm> terms, int outputs);

/// With fewer jobs than threads, outputs are split, too, and each part computes all of u.
void run_jobs(Cpu& device, const LowRankArgs& args, const LowRankJobs& all, std::span<const LowRankRows> jobs);

}  // namespace cpu

void low_rank(Cpu& device, const LowRankArgs& args);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/ops/cpu/low_rank-inl.h"
#endif
