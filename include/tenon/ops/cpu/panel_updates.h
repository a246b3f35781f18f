// Low-rank updates beside the product of their matrix: those of a panel's outputs are made just before it is multiplied, by
// the same thread, and while it is multiplied memory is asked for the factors of the next, and for keys and values that are read
// behind the product. With many rows arithmetic is what counts, so that all of these come in time that memory would idle
// (docs/decisions/0017 and 0018).
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tenon/core/low_rank.h"
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/ask_beside.h"
#include "tenon/ops/cpu/ask_kv.h"
#include "tenon/ops/cpu/kernels.h"
#include "tenon/ops/cpu/low_rank.h"
#include "tenon/ops/cpu/panel_work.h"

namespace tenon::cpu {

// Lines of b that outputs first..last-1 of the matrix read; none: at == end.
inline AskBeside::Range lines_of_b(const LowRank& u, int first, int last) {
  if (!meets(u, first, last)) return {};
  const int begin = std::max(first - u.first_output, 0) / kFactorBlock * kFactorBlock;
  const int end = std::min((last - u.first_output + kFactorBlock - 1) / kFactorBlock * kFactorBlock, u.outputs);
  const auto b = reinterpret_cast<std::uintptr_t>(u.b);
  const std::uintptr_t bytes = static_cast<std::uintptr_t>(u.rank) * bytes_of(u.type);
  return {(b + static_cast<std::uintptr_t>(begin) * bytes) / 64 * 64, (b + static_cast<std::uintptr_t>(end) * bytes + 63) / 64 * 64};
}

class PanelUpdates {
 public:
  // Panels whose updates are made together: a block of their factors.
  static constexpr int kPanels = kFactorBlock / kPanelRows;

  // Computes what all panels want: u of every row. soon: what else is asked for, or null
  PanelUpdates(Cpu& device, const LowRankArgs& args, const KvSoon* soon = nullptr)
      : device_(device), args_(args), soon_(soon), all_(args, device.threads()) {
    const auto rows = static_cast<std::size_t>(args.x.rows), threads = static_cast<std::size_t>(device.threads());
    const std::size_t u_floats = (static_cast<std::size_t>(all_.ranks) + 15) / 16 * 16;
    float* const u = device.scratch(u_floats + threads * rows * kFactorBlock, Cpu::Scratch::updates);
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
    const std::size_t asked = own.next == first && own.beside.lines() == 0 ? own.asked_jobs : 0;
    for (std::size_t i = 0; i < all_.jobs.size(); ++i) {
      if (i + 1 >= asked && is_next_adapter(i + 1)) ask_now(all_.jobs[i + 1].updates, first, last);
      LowRankTile(args_, all_.jobs[i], own.delta, first).expand(device_.isa(), first, last);
    }
    job.delta = own.deltas.data();
    job.delta_begin = first;
    job.beside = ask_behind(last, thread, own);
  }

 private:
  struct alignas(64) Thread {
    MatrixView<float> delta;           // [rows, kFactorBlock]
    std::vector<const float*> deltas;  // [rows] of it, null where a row has no update
    std::optional<KvLines> kv;         // once they are listed
    std::vector<AskBeside::Range> ranges;
    AskBeside beside;
    int next = -1;                     // output from which on is asked for
    std::size_t asked_jobs = 0;        // whose factors are, as far as `beside` has come
  };

  void shrink(float* u) {
    for (LowRankRows& job : all_.jobs) {
      job.u = u;
      u += std::ptrdiff_t{job.count} * ranks_of(job.updates);
    }
    const auto count = static_cast<int>(all_.jobs.size());
    const auto body = [&](int begin, int end, int) {
      for (int i = begin; i < end; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const void* next = is_next_adapter(at + 1) ? all_.jobs[at + 1].updates.front().a : nullptr;
        LowRankTile(args_, all_.jobs[at], args_.delta, 0).shrink(device_.isa(), 0, args_.delta.cols, next);
      }
    };
    if (low_rank_work(args_, all_.jobs, 0) < kAloneWork) body(0, count, 0);
    else device_.pool().share(count, 1, body);
  }

  // Whether job i is there, and of another adapter than the one before it.
  bool is_next_adapter(std::size_t i) const {
    return i < all_.jobs.size() && (i == 0 || all_.jobs[i].updates.data() != all_.jobs[i - 1].updates.data());
  }

  void point_to_rows(Thread& own) const {
    own.deltas.assign(static_cast<std::size_t>(args_.x.rows), nullptr);
    for (const LowRankRows& job : all_.jobs) {
      for (int t = 0; t < job.count; ++t) own.deltas[static_cast<std::size_t>(job.rows[t])] = own.delta.row(job.rows[t]);
    }
  }

  // What to ask for while the panels before output `first` are multiplied.
  AskBeside* ask_behind(int first, int thread, Thread& own) const {
    own.ranges.clear();
    list_block(first, thread, own);
    own.beside.begin(own.ranges);
    if (own.beside.lines() <= kFewLines) {
      own.beside.ask_all();
      own.ranges.clear();
    }
    if (soon_) {
      if (!own.kv) own.kv.emplace(device_.pool(), *soon_, thread, panel_groups(device_.pool(), args_.delta.cols, thread));
      own.kv->share(own.ranges);
      own.beside.begin(own.ranges);
    }
    return own.beside.lines() > 0 ? &own.beside : nullptr;
  }

  // Factors of the block from output `first` on, where it is of the thread's part.
  void list_block(int first, int thread, Thread& own) const {
    const int last = std::min(first + kFactorBlock, args_.delta.cols), blocks = (args_.delta.cols - 1) / kFactorBlock + 1;
    own.next = -1;
    if (first >= last || first / kFactorBlock == device_.pool().part_begin(blocks, thread + 1)) return;
    own.next = first;
    std::uintptr_t left = kMostAsked;
    for (own.asked_jobs = 0; own.asked_jobs < all_.jobs.size() && left > 0; ++own.asked_jobs) {
      if (!is_next_adapter(own.asked_jobs)) continue;
      for (const LowRank& update : all_.jobs[own.asked_jobs].updates) {
        AskBeside::Range range = lines_of_b(update, first, last);
        range.end = std::min(range.end, range.at + left);
        left -= range.end - range.at;
        if (range.at < range.end) own.ranges.push_back(range);
      }
    }
  }

  static void ask_now(std::span<const LowRank> updates, int first, int last) {
    for (const LowRank& update : updates) {
      const AskBeside::Range range = lines_of_b(update, first, last);
      for (std::uintptr_t at = range.at; at < range.end; at += 64) __builtin_prefetch(reinterpret_cast<const void*>(at), 0, 2);
    }
  }

  // Of one adapter, say: they come while the first tiles are multiplied.
  static constexpr std::size_t kFewLines = 256;
  // Bytes that wait in a core's second cache, beside panels and activations, of a megabyte that some have.
  static constexpr std::uintptr_t kMostAsked = std::uintptr_t{512} << 10;

  Cpu& device_;
  const LowRankArgs& args_;
  const KvSoon* const soon_;
  LowRankJobs all_;
  std::vector<Thread> threads_;
};

}  // namespace tenon::cpu
