// Low-rank updates of a step's rows, alone: a job is some rows of one group, whose products with a and b one thread computes
// one after the other, so that nobody waits. Beside the product of a matrix, see panel_updates.h.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "tenon/core/low_rank.h"
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/kernels.h"

namespace tenon {
namespace cpu {

// Rows that read a set's factors together at most. 64 rows of one adapter of rank 16 from 768 to 2304, two threads of a
// busy Intel Xeon: 110 us, 127 with 8, 106 with 32, which leaves less to share.
inline constexpr int kLowRankRows = 16;

struct LowRankRows {
  std::span<const LowRank> updates;  // of LowRankJobs
  const int* rows;                   // [count]
  int count;
  float* u;                          // [count, rank] of each update, one behind the other
};

// Of all updates of a row.
inline int ranks_of(std::span<const LowRank> updates) {
  return std::accumulate(updates.begin(), updates.end(), 0, [](int sum, const LowRank& u) { return sum + u.rank; });
}

// Whether it has some of the outputs begin..end-1.
inline bool meets(const LowRank& u, int begin, int end) { return u.first_output < end && u.first_output + u.outputs > begin; }

// Whether no update before it has outputs of its own there already.
inline bool is_fresh(std::span<const LowRank> updates, std::size_t index) {
  const LowRank& u = updates[index];
  return std::none_of(updates.begin(), updates.begin() + static_cast<std::ptrdiff_t>(index),
                      [&](const LowRank& before) {
                        return before.first_output < u.first_output + u.outputs &&
                               u.first_output < before.first_output + before.outputs;
                      });
}

// Whether the updates leave some outputs of the matrix to nobody.
inline bool has_gaps(std::span<const LowRank> updates, int outputs) {
  for (std::size_t i = 0; i < updates.size(); ++i) outputs -= is_fresh(updates, i) ? updates[i].outputs : 0;
  return outputs > 0;
}

// The rows of a job as kernels take them.
class LowRankTile {
 public:
  // delta: [rows, outputs first .. first + cols) of the matrix
  LowRankTile(const LowRankArgs& args, const LowRankRows& some, MatrixView<float> delta, int first, bool asks_ahead = false)
      : job_{x_, delta_, some.count, args.x.cols, some.u, nullptr, asks_ahead}, updates_(some.updates), first_(first), outputs_(args.delta.cols) {
    for (int t = 0; t < some.count; ++t) {
      x_[t] = args.x.row(some.rows[t]);
      delta_[t] = delta.row(some.rows[t]);
    }
  }
  LowRankTile(const LowRankTile&) = delete;

  // u of the updates that outputs begin..end-1 of the matrix want. next_a: what is read behind the last a; null: after each a its b is
  void shrink(Isa isa, int begin, int end, const void* next_a = nullptr) {
    LowRankJob job = job_;
    for (std::size_t i = 0; i < updates_.size(); ++i) {
      const LowRank& update = updates_[i];
      job.next = !next_a ? update.b : i + 1 < updates_.size() ? updates_[i + 1].a : next_a;
      if (meets(update, begin, end)) low_rank_kernels_for(isa, update.type).shrink(update, job);
      job.u += update.rank * job.tokens;
    }
  }

  // Outputs begin..end-1 of the matrix.
  void expand(Isa isa, int begin, int end) {
    begin -= first_, end -= first_;
    if (has_gaps(updates_, outputs_)) {
      for (int t = 0; t < job_.tokens; ++t) std::fill(delta_[t] + begin, delta_[t] + end, 0.0f);
    }
    LowRankJob job = job_;
    for (std::size_t i = 0; i < updates_.size(); ++i) {
      LowRank update = updates_[i];
      update.first_output -= first_;
      if (meets(update, begin, end)) low_rank_kernels_for(isa, update.type).expand(update, job, begin, end, is_fresh(updates_, i));
      job.u += update.rank * job.tokens;
    }
  }

 private:
  const float* x_[kLowRankRows];
  float* delta_[kLowRankRows];
  LowRankJob job_;
  std::span<const LowRank> updates_;
  int first_, outputs_;
};

inline std::span<const LowRank> updates_of(const LowRankArgs& args, const AdapterGroup& group) {
  return group.adapters->at(args.layer, args.site);
}

// The rows that have updates here, in jobs that any thread may do. Their u is yet to be pointed somewhere.
struct LowRankJobs {
  // Of all groups, side by side, once of those with one adapter that follow each other: its own table is on a page of its own, too far
  // to go for each block of outputs.
  std::vector<LowRank> updates;
  std::vector<LowRankRows> jobs;
  int most_ranks = 0;        // of a row
  std::ptrdiff_t ranks = 0;  // of all rows

  LowRankJobs(const LowRankJobs&) = delete;  // jobs point at updates
  LowRankJobs& operator=(const LowRankJobs&) = delete;
  LowRankJobs(const LowRankArgs& args, int threads) {
    int rows = 0;
    std::size_t count = 0;
    for (const AdapterGroup& group : args.groups->groups) {
      const auto own = updates_of(args, group);
      if (own.empty()) continue;
      rows += group.count;
      count += own.size();
      ranks += std::ptrdiff_t{group.count} * ranks_of(own);
      most_ranks = std::max(most_ranks, ranks_of(own));
    }
    // Few rows in smaller jobs, so that every thread has some: in fours, as the kernels' tiles have so many at most.
    const int each = args.groups->one_by_one ? kLowRankRows : (rows - 1) / threads / 4 * 4 + 4;
    jobs.reserve(static_cast<std::size_t>(rows));
    updates.reserve(count);
    std::span<const LowRank> own;
    const LowRank* last = nullptr;  // where these are in their adapter
    for (const AdapterGroup& group : args.groups->groups) {
      const auto theirs = updates_of(args, group);
      if (theirs.empty()) continue;
      if (std::exchange(last, theirs.data()) != theirs.data()) {
        updates.insert(updates.end(), theirs.begin(), theirs.end());
        own = std::span<const LowRank>(updates).last(theirs.size());
      }
      const TokenTiles tiles{group.count, std::min(each, kLowRankRows)};
      for (int i = 0; i < tiles.count(); ++i) {
        const int* first = args.groups->rows.data() + group.first + tiles.begin(i);
        jobs.push_back({own, first, tiles.begin(i + 1) - tiles.begin(i), nullptr});
      }
    }
  }
};

// Multiply-adds of jobs that compute so many outputs of each update at most.
inline double low_rank_work(const LowRankArgs& args, std::span<const LowRankRows> jobs, int outputs) {
  double sum = 0;
  for (const LowRankRows& job : jobs) {
    for (const LowRank& u : job.updates) sum += static_cast<double>(job.count) * u.rank * (args.x.cols + std::min(u.outputs, outputs));
  }
  return sum;
}

// Less is done before the others have woken. A row of rank 8 from 768 to 768, one and two threads of a busy Intel Xeon:
// 7 and 8 us.
inline constexpr double kAloneWork = 16e3;

// Fewer jobs than threads: outputs are split, too, and each part computes the whole of u for itself. u: [threads, own_u]
inline void run_jobs(Cpu& device, const LowRankArgs& args, std::span<const LowRankRows> jobs, float* u, std::size_t own_u) {
  const int count = static_cast<int>(jobs.size()), threads = device.threads(), outputs = args.delta.cols;
  const int blocks = (outputs - 1) / kFactorBlock + 1;
  const bool alone = low_rank_work(args, jobs, outputs) < kAloneWork;
  const int parts = alone || count == 0 ? 1 : std::min((threads - 1) / count + 1, blocks);
  // 64 rows of as many adapters of rank 16 from 768 to 2304, two cores: 416 us so and 452 without on an EPYC 9004 (Zen 4, medians
  // of 15 in turns), whose prefetchers end with each page of four blocks; on an EPYC 9005 it gained nothing.
  const bool asks_ahead = device.isa() == Isa::avx512 && is_zen4();
  const auto body = [&](int begin, int end, int thread) {
    for (int i = begin; i < end; ++i) {
      const int part = i % parts;
      LowRankRows job = jobs[static_cast<std::size_t>(i / parts)];
      job.u = u + static_cast<std::size_t>(thread) * own_u;
      LowRankTile tile(args, job, args.delta, 0, asks_ahead);
      const int first = blocks * part / parts * kFactorBlock, last = std::min(blocks * (part + 1) / parts * kFactorBlock, outputs);
      tile.shrink(device.isa(), first, last);
      tile.expand(device.isa(), first, last);
    }
  };
  if (alone) body(0, count, 0);
  else device.pool().share(count * parts, 1, body);
}

}  // namespace cpu

inline void low_rank(Cpu& device, const LowRankArgs& args) {
  std::fill_n(args.deltas, args.x.rows, nullptr);
  const cpu::LowRankJobs all(args, device.threads());
  const std::size_t own_u = static_cast<std::size_t>(cpu::kLowRankRows) * static_cast<std::size_t>(all.most_ranks);
  float* u = device.scratch(static_cast<std::size_t>(device.threads()) * own_u);
  for (const cpu::LowRankRows& job : all.jobs) {
    for (int t = 0; t < job.count; ++t) args.deltas[job.rows[t]] = args.delta.row(job.rows[t]);
  }
  const std::span<const cpu::LowRankRows> jobs(all.jobs);
  if (!args.groups->one_by_one) return cpu::run_jobs(device, args, jobs, u, own_u);
  for (std::size_t i = 0; i < jobs.size(); ++i) cpu::run_jobs(device, args, jobs.subspan(i, 1), u, own_u);
}

}  // namespace tenon
