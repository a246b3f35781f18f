// Low-rank updates beside the product of their matrix: those of a panel's outputs are made just before it is multiplied, by
// the same thread, and while it is multiplied memory is asked for the factors of the next. With many rows arithmetic is what
// counts, so that the factors of many adapters come in time that memory would idle.
//
// GPT-2's c_attn, 64 rows of as many adapters of rank 16, everything from memory, two threads of a Xeon of the fifth generation:
// the product alone takes 705 us, 1,125 with the updates before it and 1,020 so (medians of 60): the products with a are 120 of
// the difference, those with b 105, and asking slows the panels by 6 %.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tenon/core/low_rank.h"
#include "tenon/core/panels.h"
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/kernels.h"
#include "tenon/ops/cpu/low_rank.h"

namespace tenon::cpu {

class PanelUpdates {
 public:
  // Panels whose updates are made together: a block of their factors.
  static constexpr int kPanels = kFactorBlock / kPanelRows;

  // Computes what all panels want: u of every row.
  PanelUpdates(Cpu& device, const LowRankArgs& args) : device_(device), args_(args), all_(args, device.threads()) {
    const auto rows = static_cast<std::size_t>(args.x.rows), threads = static_cast<std::size_t>(device.threads());
    const std::size_t u_floats = (static_cast<std::size_t>(all_.ranks) + 15) / 16 * 16;
    float* const u = device.scratch(u_floats + threads * rows * kFactorBlock, 1);
    threads_.resize(threads);
    for (std::size_t t = 0; t < threads; ++t) {
      threads_[t].delta = {u + u_floats + t * rows * kFactorBlock, args.x.rows, kFactorBlock, kFactorBlock};
    }
    shrink(u);
  }

  // Outputs first..last-1, kFactorBlock at most, of all rows that have updates, where `job` of these outputs finds them.
  void make(int first, int last, int thread, PanelJob& job) {
    Thread& own = threads_[static_cast<std::size_t>(thread)];
    if (own.deltas.empty()) point_to_rows(own);
    const bool asked = own.next == first && own.beside.has_asked();
    for (std::size_t i = 0; i < all_.jobs.size(); ++i) {
      const bool same = i + 1 == all_.jobs.size() || all_.jobs[i + 1].updates.data() == all_.jobs[i].updates.data();
      if (!asked && !same) ask_now(all_.jobs[i + 1].updates, first, last);
      LowRankTile(args_, all_.jobs[i], own.delta, first).expand(device_.isa(), first, last);
    }
    job.delta = own.deltas.data();
    job.delta_begin = first;
    own.next = last;
    find_ranges(last, std::min(2 * last - first, args_.delta.cols), own.ranges);
    own.beside.begin(own.ranges);
    job.beside = &own.beside;
  }

 private:
  struct alignas(64) Thread {
    MatrixView<float> delta;            // [rows, kFactorBlock]
    std::vector<const float*> deltas;   // [rows] of it, null where a row has no update
    std::vector<AskBeside::Range> ranges;
    AskBeside beside;
    int next = -1;                      // output from which on is asked for beside what was made last
  };

  void shrink(float* u) {
    for (LowRankRows& job : all_.jobs) {
      job.u = u;
      u += std::ptrdiff_t{job.count} * ranks_of(job.updates);
    }
    const int count = static_cast<int>(all_.jobs.size());
    const auto body = [&](int begin, int end, int) {
      for (int i = begin; i < end; ++i) LowRankTile(args_, all_.jobs[static_cast<std::size_t>(i)], args_.delta, 0).shrink(device_.isa());
    };
    if (low_rank_work(args_, all_.jobs, 0) < kAloneWork) body(0, count, 0);
    else device_.pool().share(count, 1, body);
  }

  void point_to_rows(Thread& own) const {
    own.deltas.assign(static_cast<std::size_t>(args_.x.rows), nullptr);
    for (const LowRankRows& job : all_.jobs) {
      for (int t = 0; t < job.count; ++t) own.deltas[static_cast<std::size_t>(job.rows[t])] = own.delta.row(job.rows[t]);
    }
  }

  // Lines of b that outputs first..last-1 read.
  static AskBeside::Range range_of(const LowRank& u, int first, int last) {
    const int begin = std::max(first - u.first_output, 0) / kFactorBlock * kFactorBlock;
    const int end = std::min((last - u.first_output + kFactorBlock - 1) / kFactorBlock * kFactorBlock, u.outputs);
    if (begin >= end) return {};
    const auto b = reinterpret_cast<std::uintptr_t>(u.b);
    const std::uintptr_t bytes = static_cast<std::uintptr_t>(u.rank) * (u.type == FactorType::float32 ? 4 : 2);
    return {(b + static_cast<std::uintptr_t>(begin) * bytes) / 64 * 64, (b + static_cast<std::uintptr_t>(end) * bytes + 63) / 64 * 64};
  }
  void find_ranges(int first, int last, std::vector<AskBeside::Range>& ranges) const {
    ranges.clear();
    if (first >= last) return;
    std::uintptr_t left = kMostAsked;
    for (const AdapterGroup& group : args_.groups->groups) {
      for (const LowRank& update : updates_of(args_, group)) {
        AskBeside::Range range = range_of(update, first, last);
        range.end = std::min(range.end, range.at + left);
        left -= range.end - range.at;
        if (range.at < range.end) ranges.push_back(range);
      }
    }
  }
  static void ask_now(std::span<const LowRank> updates, int first, int last) {
    for (const LowRank& update : updates) {
      const AskBeside::Range range = range_of(update, first, last);
      for (std::uintptr_t at = range.at; at < range.end; at += 64) __builtin_prefetch(reinterpret_cast<const void*>(at), 0, 2);
    }
  }

  // Bytes that wait in a core's second cache, beside panels and activations, of a megabyte that some have.
  static constexpr std::uintptr_t kMostAsked = std::uintptr_t{512} << 10;

  Cpu& device_;
  const LowRankArgs& args_;
  LowRankJobs all_;
  std::vector<Thread> threads_;
};

// Bytes of a weight, and multiply-adds that are done while a byte is read: those of float32 on two threads of a Xeon of the fifth
// generation (160 GFLOP/s and 16 GB/s each), and as many times more as an instruction has.
struct Pace {
  double weight_bytes, adds_per_byte;
};
template <class Code>
constexpr Pace pace(const CodePanels<Code>&) { return {sizeof(Code), 5}; }
constexpr Pace pace(const Int4Panels&) { return {0.5, 5}; }
constexpr Pace pace(const BFloat16Pairs&) { return {2, 10}; }
constexpr Pace pace(const BFloat16Blocks&) { return {2, 10}; }
constexpr Pace pace(const Int8Quads&) { return {1, 20}; }
constexpr Pace pace(const Int4Quads&) { return {0.5, 20}; }
template <class W>
Pace pace_of(const W& weight) {
  if constexpr (HasPanels<W>) return pace(weight.panels());
  else return {4, 5};
}

// Whether arithmetic takes longer than reading weights and factors does. GPT-2's c_attn under as many adapters of rank 16 as there
// are rows, added time so and with the updates first (the machine above, medians of 3 to 6): float32 64 rows 8.3 and 10.3 %, 32
// 10.9 and 9.5 (5 multiply-adds a byte are not reached), 8 4.9 and 3.4; int8 32 rows 6.4 and 9.8 %, 8 5.8 and 6.5, 4 7.3 and 4.4.
// Other kernels than AVX-512's do not ask ahead.
template <class W>
bool leaves_memory_idle(Isa isa, const LinearArgs<W>& args, const LowRankArgs& updates) {
  if (isa != Isa::avx512) return false;
  const Pace pace = pace_of(args.weight);
  double bytes = pace.weight_bytes * args.x.cols;  // of an output
  bool any = false;
  for (const AdapterGroup& group : updates.groups->groups) {
    for (const LowRank& u : updates_of(updates, group)) {
      bytes += static_cast<double>(u.rank) * (u.type == FactorType::float32 ? 4 : 2) * u.outputs / args.y.cols;
      any = true;
    }
  }
  return any && static_cast<double>(args.x.rows) * args.x.cols > pace.adds_per_byte * bytes;
}

}  // namespace tenon::cpu
