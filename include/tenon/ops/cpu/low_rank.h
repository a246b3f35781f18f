// Low-rank updates of a step's rows, alone: a job is some rows of one group, whose products with a and b one thread
// computes one after the other, so that nobody waits. Beside the product of a matrix, see fused_lora_epilogue.h.
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

// Terms of the same rows, which one thread does.
struct LowRankRows {
  int first, last;  // of LowRankJobs::terms
  bool gaps;        // they leave some outputs of the matrix to nobody
};

// Whether no update before it has outputs of its own there already.
bool is_fresh(std::span<const LowRank> updates, std::size_t index);

// Whether the updates leave some outputs of the matrix to nobody.
bool has_gaps(std::span<const LowRank> updates, int outputs);

std::span<const LowRank> updates_of(const LowRankArgs& args, const AdapterGroup& group);

// The rows that have updates here, in jobs that any thread may do.
struct LowRankJobs {
  std::vector<LowRankTerm>
      terms;  // updates are copied: an adapter's own table is on a page of its own, too far to go for each block
  std::vector<LowRankRows> jobs;
  std::ptrdiff_t most_floats = 0;  // of u, of a job

  LowRankJobs(const LowRankArgs& args, int threads);

  // Gives each term's u a place of its own, where it had one among those of its job. Returns the floats of all.
  std::ptrdiff_t part_all();

 private:
  void add(std::span<const LowRank> updates, const int* rows, int count, bool again, int outputs);
};

void shrink(Isa isa, const LowRankTerm& term, MatrixView<const float> x, float* u, const void* next,
            PrefetchPacer* pacer = nullptr);

// Outputs of all rows of some jobs. Those that no term has are 0.
void expand(Isa isa, const LowRankJobs& all, std::span<const LowRankRows> jobs, const float* u,
            const LowRankOutputs& out);

// Multiply-adds of terms that compute so many outputs each at most.
double low_rank_work(int inputs, std::span<const LowRankTerm> terms, int outputs);

// Fewer jobs than threads: outputs are split, too, and each part computes the whole of u for itself.
void run_jobs(Cpu& device, const LowRankArgs& args, const LowRankJobs& all, std::span<const LowRankRows> jobs);

}  // namespace cpu

void low_rank(Cpu& device, const LowRankArgs& args);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/ops/cpu/low_rank-inl.h"
#endif
