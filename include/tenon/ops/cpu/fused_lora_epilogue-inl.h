#pragma once
#include <algorithm>
#include <span>
#include <utility>

#include "tenon/core/require.h"
#include "tenon/ops/cpu/fused_lora_epilogue.h"
#include "tenon/ops/cpu/panel_work.h"

namespace tenon::cpu {

TENON_INLINE FusedLoraEpilogue::FusedLoraEpilogue(Cpu& device, const LowRankArgs& args, const PanelJob& job,
                                                  const KvPrefetchHint* hint)
    : device_(device), args_(args), job_(job), hint_(hint), all_(args, device.threads()) {
  const auto rows = static_cast<std::size_t>(args.x.rows), threads = static_cast<std::size_t>(device.threads());
  const std::size_t u_floats = (static_cast<std::size_t>(all_.part_all()) + 15) / 16 * 16;
  u_ = device.scratch(u_floats + threads * rows * kOutputs, Cpu::Scratch::updates);
  threads_.resize(threads);
  for (std::size_t t = 0; t < threads; ++t)
    threads_[t].delta = {u_ + u_floats + t * rows * kOutputs, args.x.rows, kOutputs, kOutputs};
  shrink_all();
}

TENON_INLINE void FusedLoraEpilogue::make(int first, int last, int thread, PanelJob& job) {
  ThreadBlocks& own = threads_[static_cast<std::size_t>(thread)];
  if (own.deltas.empty()) point_to_rows(own);
  int next_output = -1;  // output after the blocks made now
  for (int block = first / kFactorBlock; block * kFactorBlock < last; ++block) {
    if (std::exchange(own.made[block % kBlocks], block) == block) continue;
    make_block(block * kFactorBlock, thread, own);
    next_output = (block + 1) * kFactorBlock;
  }
  own.ranges.clear();
  if (next_output >= 0) list_block(next_output, thread, own);
  job.delta = own.deltas.data();
  job.delta_begin = first / kOutputs * kOutputs;
  job.pacer = prefetch_next(thread, own);
}

TENON_INLINE std::size_t FusedLoraEpilogue::prefetched(int first, int thread) const {
  const ThreadBlocks& own = threads_[static_cast<std::size_t>(thread)];
  return own.next == first && own.pacer.lines() == 0 ? own.listed : 0;
}

TENON_INLINE void FusedLoraEpilogue::shrink_all() {
  const auto count = static_cast<int>(all_.terms.size());
  const auto body = [&](int begin, int end, int thread) {
    for (int i = begin; i < end; ++i) {
      const LowRankTerm* const term = all_.terms.data() + i;
      const void* const next = i + 1 == count || term[1].again ? term->update.b : term[1].update.a;
      shrink(device_.isa(), *term, args_.x, u_, next, prefetch_first_block(i, thread));
    }
  };
  if (low_rank_work(args_.x.cols, all_.terms, 0) < cpu_tuning().single_thread_low_rank_work)
    body(0, count, 0);
  else
    device_.pool().share(count, 1, body);
}

TENON_INLINE PrefetchPacer* FusedLoraEpilogue::prefetch_first_block(int i, int thread) {
  ThreadBlocks& own = threads_[static_cast<std::size_t>(thread)];
  const auto count = static_cast<int>(all_.terms.size());
  const int begin = device_.pool().part_begin(count, thread), end = device_.pool().part_begin(count, thread + 1);
  if (i < begin || i >= end) return nullptr;
  const int first = own_begin(device_.pool(), job_, thread) * kPanelRows / kFactorBlock * kFactorBlock;
  if (i == begin) list_block(first, thread, own);
  own.next = i + 1 == end ? first : -1;  // another thread may take terms from the end
  const auto* const ranges = own.ranges.data();
  const auto share = [&](int term) {
    return static_cast<std::ptrdiff_t>(own.ranges.size()) * (term - begin) / (end - begin);
  };
  own.pacer.begin({ranges + share(i), ranges + share(i + 1)});
  return own.pacer.lines() > 0 ? &own.pacer : nullptr;
}

TENON_INLINE void FusedLoraEpilogue::point_to_rows(ThreadBlocks& own) const {
  own.deltas.assign(static_cast<std::size_t>(args_.x.rows), nullptr);
  for (const LowRankTerm& term : all_.terms) {
    for (int t = 0; t < term.tokens; ++t)
      own.deltas[static_cast<std::size_t>(term.rows[t])] = own.delta.row(term.rows[t]);
  }
}

TENON_INLINE void FusedLoraEpilogue::make_block(int first, int thread, const ThreadBlocks& own) {
  const int last = std::min(first + kFactorBlock, args_.delta.cols);
  const MatrixView<float> delta{own.delta.data + first % kOutputs, args_.x.rows, last - first, kOutputs};
  expand(device_.isa(), all_, all_.jobs, u_,
         {.delta = delta,
          .first = first,
          .last = last,
          .prefetch_from = all_.terms.data() + std::max<std::size_t>(prefetched(first, thread), 1) - 1});
}

TENON_INLINE PrefetchPacer* FusedLoraEpilogue::prefetch_next(int thread, ThreadBlocks& own) const {
  own.pacer.begin(own.ranges);
  if (own.pacer.lines() <= cpu_tuning().immediate_prefetch_lines) {
    own.pacer.prefetch_all();
    own.ranges.clear();
  }
  if (hint_) {
    if (!own.kv) own.kv.emplace(device_.pool(), *hint_, thread, own_pieces(device_.pool(), job_, thread));
    own.kv->share(own.ranges);
    own.pacer.begin(own.ranges);
  }
  return own.pacer.lines() > 0 ? &own.pacer : nullptr;
}

TENON_INLINE void FusedLoraEpilogue::list_block(int first, int thread, ThreadBlocks& own) const {
  own.next = -1;
  const int last = std::min(first + kFactorBlock, args_.delta.cols);
  const int part_end = own_begin(device_.pool(), job_, thread + 1) * kPanelRows;
  if (first >= last || (first >= part_end && first < part_end + kFactorBlock)) return;
  own.next = first;
  list_gains(first, last, own.ranges);
  std::uintptr_t left = cpu_tuning().factor_prefetch_bytes;
  for (own.listed = 0; own.listed < all_.terms.size() && left > 0; ++own.listed) {
    const LowRankTerm& term = all_.terms[own.listed];
    if (term.again) continue;
    PrefetchPacer::Lines range = lines_of_b(term.update, first, last);
    range.end = std::min(range.end, range.at + left);
    left -= range.end - range.at;
    if (range.at < range.end) own.ranges.push_back(range);
  }
}

TENON_INLINE void FusedLoraEpilogue::list_gains(int first, int last, std::vector<PrefetchPacer::Lines>& ranges) const {
  const float* before = nullptr;
  for (int row = 0; job_.changes && row < args_.x.rows; ++row) {
    const float* const gain = job_.changes[row].gain;
    if (!gain || std::exchange(before, gain) == gain) continue;
    ranges.push_back(PrefetchPacer::Lines::of(reinterpret_cast<std::uintptr_t>(gain + first),
                                              reinterpret_cast<std::uintptr_t>(gain + last)));
  }
}

}  // namespace tenon::cpu
