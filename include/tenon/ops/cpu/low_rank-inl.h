#pragma once
#include <algorithm>
#include <utility>

#include "tenon/core/require.h"
#include "tenon/ops/cpu/low_rank.h"

namespace tenon::cpu {

TENON_INLINE bool is_fresh(std::span<const LowRank> updates, std::size_t index) {
  const LowRank& u = updates[index];
  const auto before = updates.first(index);
  return std::none_of(before.begin(), before.end(),
                      [&](const LowRank& b) { return meets(b, u.first_output, u.first_output + u.outputs); });
}

TENON_INLINE bool has_gaps(std::span<const LowRank> updates, int outputs) {
  for (std::size_t i = 0; i < updates.size(); ++i) outputs -= is_fresh(updates, i) ? updates[i].outputs : 0;
  return outputs > 0;
}

TENON_INLINE std::span<const LowRank> updates_of(const LowRankArgs& args, const AdapterGroup& group) {
  return group.adapters->at(args.layer, args.site);
}

TENON_INLINE LowRankJobs::LowRankJobs(const LowRankArgs& args, int threads) {
  int rows = 0;
  std::size_t updates_of_rows = 0;
  for (const AdapterGroup& group : args.groups->groups) {
    const std::size_t updates = updates_of(args, group).size();
    rows += updates > 0 ? group.count : 0;
    updates_of_rows += updates * static_cast<std::size_t>(group.count);
  }
  terms.reserve(updates_of_rows);
  jobs.reserve(static_cast<std::size_t>(rows));
  // Few rows make smaller jobs, so that every thread has one. Multiples of four, the most rows of a kernel's tile.
  const int most = cpu_tuning().low_rank_rows, each = args.groups->one_by_one ? most : (rows - 1) / threads / 4 * 4 + 4;
  const LowRank* before = nullptr;  // updates of the previous rows, in their adapter
  for (const AdapterGroup& group : args.groups->groups) {
    const auto updates = updates_of(args, group);
    if (updates.empty()) continue;
    const TokenTiles tiles{group.count, std::min(each, most)};
    for (int i = 0; i < tiles.count(); ++i) {
      const bool again = std::exchange(before, updates.data()) == updates.data();
      add(updates, args.groups->rows.data() + group.first + tiles.begin(i), tiles.begin(i + 1) - tiles.begin(i), again,
          args.delta.cols);
    }
  }
}

TENON_INLINE std::ptrdiff_t LowRankJobs::part_all() {
  std::ptrdiff_t floats = 0;
  for (LowRankTerm& term : terms) {
    term.u = floats;
    floats += std::ptrdiff_t{term.tokens} * term.update.rank;
  }
  return floats;
}

TENON_INLINE void LowRankJobs::add(std::span<const LowRank> updates, const int* rows, int count, bool again,
                                   int outputs) {
  const auto first = static_cast<int>(terms.size());
  std::ptrdiff_t floats = 0;
  for (std::size_t i = 0; i < updates.size(); ++i) {
    terms.push_back({updates[i], rows, floats, count, is_fresh(updates, i), again});
    floats += std::ptrdiff_t{count} * updates[i].rank;
  }
  most_floats = std::max(most_floats, floats);
  jobs.push_back({first, static_cast<int>(terms.size()), has_gaps(updates, outputs)});
}

TENON_INLINE void shrink(Isa isa, const LowRankTerm& term, MatrixView<const float> x, float* u, const void* next,
                         PrefetchPacer* pacer) {
  low_rank_kernels_for(isa, term.update.type).shrink(term, x, u, next, pacer);
}

TENON_INLINE void expand(Isa isa, const LowRankJobs& all, std::span<const LowRankRows> jobs, const float* u,
                         const LowRankOutputs& out) {
  if (jobs.empty()) return;
  for (const LowRankRows& job : jobs) {
    const LowRankTerm& rows = all.terms[static_cast<std::size_t>(job.first)];
    for (int t = 0; job.gaps && t < rows.tokens; ++t) std::fill_n(out.delta.row(rows.rows[t]), out.delta.cols, 0.0f);
  }
  const LowRankTerm *term = all.terms.data() + jobs.front().first, *const end = all.terms.data() + jobs.back().last;
  while (term != end) {
    const LowRankTerm* const first = term;
    while (term != end && term->update.type == first->update.type) ++term;
    low_rank_kernels_for(isa, first->update.type).expand(first, term, u, out);
  }
}

TENON_INLINE double low_rank_work(int inputs, std::span<const LowRankTerm> terms, int outputs) {
  double sum = 0;
  for (const LowRankTerm& term : terms) {
    sum += static_cast<double>(term.tokens) * term.update.rank * (inputs + std::min(term.update.outputs, outputs));
  }
  return sum;
}

TENON_INLINE void run_jobs(Cpu& device, const LowRankArgs& args, const LowRankJobs& all,
                           std::span<const LowRankRows> jobs) {
  if (jobs.empty()) return;
  const int count = static_cast<int>(jobs.size()), threads = device.threads(), outputs = args.delta.cols;
  const int blocks = (outputs - 1) / kFactorBlock + 1;
  const std::span terms(all.terms.data() + jobs.front().first, all.terms.data() + jobs.back().last);
  const bool alone = low_rank_work(args.x.cols, terms, outputs) < cpu_tuning().single_thread_low_rank_work;
  const int parts = alone ? 1 : std::min((threads - 1) / count + 1, blocks);
  const auto own_u = static_cast<std::size_t>(all.most_floats);
  float* const scratch = device.scratch(static_cast<std::size_t>(threads) * own_u);
  // A page holds four blocks of b, and hardware prefetchers stop at its end.
  const bool prefetch_next_block = device.isa() == Isa::avx512 && cpu_tuning().prefetches_next_block;
  const auto body = [&](int begin, int end, int thread) {
    float* const u = scratch + static_cast<std::size_t>(thread) * own_u;
    for (int i = begin; i < end; ++i) {
      const int part = i % parts;
      const auto job = jobs.subspan(static_cast<std::size_t>(i / parts), 1);
      const int first = blocks * part / parts * kFactorBlock,
                last = std::min(blocks * (part + 1) / parts * kFactorBlock, outputs);
      for (int t = job.front().first; t < job.front().last; ++t) {
        const LowRankTerm& term = all.terms[static_cast<std::size_t>(t)];
        if (meets(term.update, first, last)) shrink(device.isa(), term, args.x, u, term.update.b);
      }
      const MatrixView<float> delta{args.delta.data + first, args.delta.rows, last - first, args.delta.stride};
      expand(device.isa(), all, job, u,
             {.delta = delta, .first = first, .last = last, .prefetch_next_block = prefetch_next_block});
    }
  };
  if (alone)
    body(0, count, 0);
  else
    device.pool().share(count * parts, 1, body);
}

}  // namespace tenon::cpu

namespace tenon {

TENON_INLINE void low_rank(Cpu& device, const LowRankArgs& args) {
  std::fill_n(args.deltas, args.x.rows, nullptr);
  const cpu::LowRankJobs all(args, device.threads());
  for (const cpu::LowRankTerm& term : all.terms) {
    for (int t = 0; t < term.tokens; ++t) args.deltas[term.rows[t]] = args.delta.row(term.rows[t]);
  }
  const std::span<const cpu::LowRankRows> jobs(all.jobs);
  if (!args.groups->one_by_one) return cpu::run_jobs(device, args, all, jobs);
  for (std::size_t i = 0; i < jobs.size(); ++i) cpu::run_jobs(device, args, all, jobs.subspan(i, 1));
}

}  // namespace tenon
