#pragma once
#include <algorithm>
#include <span>
#include <utility>

#include "tenon/core/require.h"
#include "tenon/ops/cpu/panel_updates.h"
#include "tenon/ops/cpu/panel_work.h"

namespace tenon::cpu {

TENON_INLINE PanelUpdates::PanelUpdates(Cpu& device, const LowRankArgs& args, const PanelJob& job, const KvSoon* soon)
    : device_(device), args_(args), job_(job), soon_(soon), all_(args, device.threads()) {
  const auto rows = static_cast<std::size_t>(args.x.rows), threads = static_cast<std::size_t>(device.threads());
  const std::size_t u_floats = (static_cast<std::size_t>(all_.part_all()) + 15) / 16 * 16;
  u_ = device.scratch(u_floats + threads * rows * kOutputs, Cpu::Scratch::updates);
  threads_.resize(threads);
  for (std::size_t t = 0; t < threads; ++t)
    threads_[t].delta = {u_ + u_floats + t * rows * kOutputs, args.x.rows, kOutputs, kOutputs};
  shrink_all();
}

TENON_INLINE void PanelUpdates::make(int first, int last, int thread, PanelJob& job) {
  Thread& own = threads_[static_cast<std::size_t>(thread)];
  if (own.deltas.empty()) point_to_rows(own);
  int behind = -1;  // what has been made now
  for (int block = first / kFactorBlock; block * kFactorBlock < last; ++block) {
    if (std::exchange(own.made[block % kBlocks], block) == block) continue;
    make_block(block * kFactorBlock, thread, own);
    behind = (block + 1) * kFactorBlock;
  }
  own.ranges.clear();
  if (behind >= 0) list_block(behind, thread, own);
  job.delta = own.deltas.data();
  job.delta_begin = first / kOutputs * kOutputs;
  job.beside = ask_beside(thread, own);
}

TENON_INLINE std::size_t PanelUpdates::asked(int first, int thread) const {
  const Thread& own = threads_[static_cast<std::size_t>(thread)];
  return own.next == first && own.beside.lines() == 0 ? own.listed : 0;
}

TENON_INLINE void PanelUpdates::shrink_all() {
  const auto count = static_cast<int>(all_.terms.size());
  const auto body = [&](int begin, int end, int thread) {
    for (int i = begin; i < end; ++i) {
      const LowRankTerm* const term = all_.terms.data() + i;
      const void* const next = i + 1 == count || term[1].again ? term->update.b : term[1].update.a;
      shrink(device_.isa(), *term, args_.x, u_, next, ask_first(i, thread));
    }
  };
  if (low_rank_work(args_.x.cols, all_.terms, 0) < kAloneWork)
    body(0, count, 0);
  else
    device_.pool().share(count, 1, body);
}

TENON_INLINE AskBeside* PanelUpdates::ask_first(int i, int thread) {
  Thread& own = threads_[static_cast<std::size_t>(thread)];
  const auto count = static_cast<int>(all_.terms.size());
  const int begin = device_.pool().part_begin(count, thread), end = device_.pool().part_begin(count, thread + 1);
  if (i < begin || i >= end) return nullptr;
  const int first = own_begin(device_.pool(), job_, thread) * kPanelRows / kFactorBlock * kFactorBlock;
  if (i == begin) list_block(first, thread, own);
  own.next = i + 1 == end ? first : -1;  // others may take terms from the end
  const auto* const ranges = own.ranges.data();
  const auto share = [&](int term) {
    return static_cast<std::ptrdiff_t>(own.ranges.size()) * (term - begin) / (end - begin);
  };
  own.beside.begin({ranges + share(i), ranges + share(i + 1)});
  return own.beside.lines() > 0 ? &own.beside : nullptr;
}

TENON_INLINE void PanelUpdates::point_to_rows(Thread& own) const {
  own.deltas.assign(static_cast<std::size_t>(args_.x.rows), nullptr);
  for (const LowRankTerm& term : all_.terms) {
    for (int t = 0; t < term.tokens; ++t)
      own.deltas[static_cast<std::size_t>(term.rows[t])] = own.delta.row(term.rows[t]);
  }
}

TENON_INLINE void PanelUpdates::make_block(int first, int thread, const Thread& own) {
  const int last = std::min(first + kFactorBlock, args_.delta.cols);
  const MatrixView<float> delta{own.delta.data + first % kOutputs, args_.x.rows, last - first, kOutputs};
  expand(device_.isa(), all_, all_.jobs, u_,
         {.delta = delta,
          .first = first,
          .last = last,
          .asks = all_.terms.data() + std::max<std::size_t>(asked(first, thread), 1) - 1});
}

TENON_INLINE AskBeside* PanelUpdates::ask_beside(int thread, Thread& own) const {
  own.beside.begin(own.ranges);
  if (own.beside.lines() <= kFewLines) {
    own.beside.ask_all();
    own.ranges.clear();
  }
  if (soon_) {
    if (!own.kv) own.kv.emplace(device_.pool(), *soon_, thread, own_pieces(device_.pool(), job_, thread));
    own.kv->share(own.ranges);
    own.beside.begin(own.ranges);
  }
  return own.beside.lines() > 0 ? &own.beside : nullptr;
}

TENON_INLINE void PanelUpdates::list_block(int first, int thread, Thread& own) const {
  own.next = -1;
  const int last = std::min(first + kFactorBlock, args_.delta.cols);
  const int part_end = own_begin(device_.pool(), job_, thread + 1) * kPanelRows;
  if (first >= last || (first >= part_end && first < part_end + kFactorBlock)) return;
  own.next = first;
  std::uintptr_t left = kMostAsked;
  for (own.listed = 0; own.listed < all_.terms.size() && left > 0; ++own.listed) {
    const LowRankTerm& term = all_.terms[own.listed];
    if (term.again) continue;
    AskBeside::Range range = lines_of_b(term.update, first, last);
    range.end = std::min(range.end, range.at + left);
    left -= range.end - range.at;
    if (range.at < range.end) own.ranges.push_back(range);
  }
}

}  // namespace tenon::cpu
