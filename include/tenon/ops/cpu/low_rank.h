// Low-rank updates of a step's rows: a job is some rows of one group, whose products with a and b one thread computes
// one after the other, so that nobody waits.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

#include "tenon/core/low_rank.h"
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/kernels.h"

namespace tenon {
namespace cpu {

// Rows that read a set's factors together at most. 64 rows of one adapter of rank 16 from 768 to 2304, two threads of a
// busy Intel Xeon: 110 us, 127 with 8, 106 with 32, which leaves less to share.
inline constexpr int kLowRankRows = 16;

struct LowRankRows {
  std::span<const LowRank> updates;
  const int* rows;  // [count]
  int count;
};

// Whether no update before it has outputs of its own there already.
inline bool is_fresh(std::span<const LowRank> updates, std::size_t index) {
  const LowRank& u = updates[index];
  return std::none_of(updates.begin(), updates.begin() + static_cast<std::ptrdiff_t>(index),
                      [&](const LowRank& before) {
                        return before.first_output < u.first_output + u.outputs &&
                               u.first_output < before.first_output + before.outputs;
                      });
}

// Outputs first..last-1 of some rows. u: room for [count, largest rank]
inline void low_rank_rows(Isa isa, const LowRankArgs& args, const LowRankRows& some, int first, int last, float* u) {
  const float* x[kLowRankRows];
  float* delta[kLowRankRows];
  for (int t = 0; t < some.count; ++t) {
    x[t] = args.x.row(some.rows[t]);
    delta[t] = args.delta.row(some.rows[t]);
  }
  // 64 rows of as many adapters of rank 16 from 768 to 2304, two cores: 416 us so and 452 without on an EPYC 9004 (Zen 4, medians
  // of 15 in turns), whose prefetchers end with each page of four blocks; on an EPYC 9005 it gained nothing.
  const LowRankJob job{x, delta, some.count, args.x.cols, u, isa == Isa::avx512 && is_zen4()};
  int begun = 0;
  for (std::size_t i = 0; i < some.updates.size(); ++i)
    begun += is_fresh(some.updates, i) ? some.updates[i].outputs : 0;
  for (int t = 0; begun < args.delta.cols && t < some.count; ++t) std::fill(delta[t] + first, delta[t] + last, 0.0f);
  for (std::size_t i = 0; i < some.updates.size(); ++i) {
    const LowRank& update = some.updates[i];
    if (update.first_output >= last || update.first_output + update.outputs <= first) continue;
    const LowRankKernels& kernels = low_rank_kernels_for(isa, update.type);
    kernels.shrink(update, job);
    kernels.expand(update, job, first, last, is_fresh(some.updates, i));
  }
}

// How the rows that have updates here are taken, in jobs that any thread may do.
class LowRankPlan {
 public:
  // Points deltas at what run() will write.
  LowRankPlan(Cpu& device, const LowRankArgs& args) : device_(device), args_(args) {
    std::fill_n(args.deltas, args.x.rows, nullptr);
    int rows = 0;
    for (const AdapterGroup& group : args.groups->groups) {
      const auto updates = group.adapters->at(args.layer, args.site);
      if (updates.empty()) continue;
      rows += group.count;
      for (const LowRank& update : updates) most_rank_ = std::max(most_rank_, update.rank);
      for (const int row : rows_of(group)) args.deltas[row] = args.delta.row(row);
    }
    if (rows > 0) make_jobs(rows);
  }

  void run() {
    if (!args_.groups->one_by_one) return run(jobs_);
    for (std::size_t i = 0; i < jobs_.size(); ++i) run(jobs_.subspan(i, 1));
  }

 private:
  std::span<const int> rows_of(const AdapterGroup& group) const {
    return {args_.groups->rows.data() + group.first, static_cast<std::size_t>(group.count)};
  }

  void make_jobs(int rows) {
    // Few rows in smaller jobs, so that every thread has some: in fours, as the kernels' tiles have so many at most.
    const int each = args_.groups->one_by_one ? kLowRankRows : (rows - 1) / device_.threads() / 4 * 4 + 4;
    const int most = std::min(each, kLowRankRows);
    const std::size_t job_floats =
        (static_cast<std::size_t>(rows) * sizeof(LowRankRows) / sizeof(float) + 15) / 16 * 16;
    float* scratch = device_.scratch(job_floats + static_cast<std::size_t>(device_.threads()) * u_floats());
    auto* jobs = reinterpret_cast<LowRankRows*>(scratch);
    u_ = scratch + job_floats;
    int count = 0;
    for (const AdapterGroup& group : args_.groups->groups) {
      const auto updates = group.adapters->at(args_.layer, args_.site);
      if (updates.empty()) continue;
      const TokenTiles tiles{group.count, most};
      for (int i = 0; i < tiles.count(); ++i) {
        jobs[count++] = {updates, rows_of(group).data() + tiles.begin(i), tiles.begin(i + 1) - tiles.begin(i)};
      }
    }
    jobs_ = {jobs, static_cast<std::size_t>(count)};
  }

  std::size_t u_floats() const { return static_cast<std::size_t>(kLowRankRows) * static_cast<std::size_t>(most_rank_); }

  // Multiply-adds.
  double work(std::span<const LowRankRows> jobs) const {
    double sum = 0;
    for (const LowRankRows& job : jobs) {
      for (const LowRank& u : job.updates) sum += static_cast<double>(job.count) * u.rank * (args_.x.cols + u.outputs);
    }
    return sum;
  }

  // Fewer jobs than threads: outputs are split, too, and each part computes the whole of u for itself.
  void run(std::span<const LowRankRows> jobs) {
    const int count = static_cast<int>(jobs.size()), threads = device_.threads(), outputs = args_.delta.cols;
    const int blocks = (outputs - 1) / kFactorBlock + 1;
    const bool alone = work(jobs) < kAloneWork;
    const int parts = alone || count == 0 ? 1 : std::min((threads - 1) / count + 1, blocks);
    const auto body = [&](int begin, int end, int thread) {
      for (int i = begin; i < end; ++i) {
        const int part = i % parts;
        low_rank_rows(device_.isa(), args_, jobs[static_cast<std::size_t>(i / parts)],
                      blocks * part / parts * kFactorBlock,
                      std::min(blocks * (part + 1) / parts * kFactorBlock, outputs),
                      u_ + static_cast<std::size_t>(thread) * u_floats());
      }
    };
    if (alone)
      body(0, count, 0);
    else
      device_.pool().share(count * parts, 1, body);
  }

  // Less is done before the others have woken. A row of rank 8 from 768 to 768, one and two threads of a busy Intel Xeon:
  // 7 and 8 us.
  static constexpr double kAloneWork = 16e3;

  Cpu& device_;
  const LowRankArgs& args_;
  std::span<LowRankRows> jobs_;
  float* u_ = nullptr;  // [threads, u_floats()]
  int most_rank_ = 0;
};

}  // namespace cpu

inline void low_rank(Cpu& device, const LowRankArgs& args) { cpu::LowRankPlan(device, args).run(); }

}  // namespace tenon
