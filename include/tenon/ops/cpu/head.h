// Logits of the rows that need them, or only the best of them.
#pragma once
#include <algorithm>
#include <vector>

#include "tenon/ops/cpu/best_logits.h"
#include "tenon/ops/cpu/linear.h"

namespace tenon {

template <class W>
  requires(!OnTensorCores<W>)
void head(Cpu& device, const HeadArgs<W>& args) {
  linear(device, LinearArgs<W>{.x = args.hidden, .weight = args.weight, .y = args.logits});
}

namespace cpu {

// Calls see(thread, row, first_id, logits, n) for all logits of these rows, some at a time.
template <class W, class See>
void walk_logits(Cpu& device, MatrixView<const float> hidden, const W& weight, int vocab, See&& see) {
  constexpr int kOutputs = 4 * kPanelRows;  // of a piece, at most; of kBestRows rows: 32 KiB of logits a thread
  const LinearArgs<W> args{.x = hidden, .weight = weight, .y = {nullptr, hidden.rows, vocab, 0}};
  with_panels(device, args, [&](const PanelJob& job, auto&& compute) {
    share_panels(device.pool(), job, [&](int first, int last, int thread) {
      alignas(64) float logits[kBestRows * kOutputs];
      PanelJob part = job;
      part.y = logits;
      part.y_stride = kOutputs;
      for (int p = first; p < last; p += job.piece_panels) {
        const int first_id = p * kPanelRows;
        part.outputs = std::min(job.piece_panels * kPanelRows, vocab - first_id);
        compute(part, p, std::min(p + job.piece_panels, last), 0, thread);
        for (int r = 0; r < hidden.rows; ++r) see(thread, r, first_id, logits + r * kOutputs, part.outputs);
      }
    });
  });
}

// What each thread has seen of each row: BestLogits or Contenders.
template <class Seen>
class SeenByAll {
 public:
  SeenByAll(int threads, int rows, const int* counts /* [rows] */)
      : threads_(threads), rows_(rows), seen_(static_cast<std::size_t>(threads * rows)) {
    for (int t = 0; t < threads; ++t) {
      for (int r = 0; r < rows; ++r) of(t, r).reset(counts[r]);
    }
  }

  Seen& of(int thread, int row) { return seen_[static_cast<std::size_t>(thread * rows_ + row)]; }
  // Into that of the first thread.
  Seen& merge(int row) {
    for (int t = 1; t < threads_; ++t) of(0, row).add(of(t, row));
    return of(0, row);
  }

 private:
  int threads_, rows_;
  std::vector<Seen> seen_;  // [threads, rows]
};

// Of at most kBestRows rows.
template <class W>
void best_of_all(Cpu& device, const HeadBestArgs<W>& args) {
  const auto& kernels = kernels_for(device.isa());
  SeenByAll<BestLogits> seen(device.pool().threads(), args.hidden.rows, args.counts);
  walk_logits(device, args.hidden, args.weight, args.vocab, [&](int thread, int row, int first_id, const float* logits, int n) {
    seen.of(thread, row).offer(logits, n, first_id, kernels.finite_max(logits, n));
  });
  for (int r = 0; r < args.hidden.rows; ++r) args.best[r] = seen.merge(r).take();
}

// With a rough copy: a row of the matrix is read exactly where its logit could be among the best.
template <class W>
void best_of_contenders(Cpu& device, const HeadBestArgs<W>& args) {
  const auto& kernels = kernels_for(device.isa());
  const auto& exact_kernels = panel_kernels_for<CodePanels<float>>(device.isa());
  const ExactAndRough& weight = args.weight.exact_and_rough();
  const int rows = args.hidden.rows;
  std::vector<float> reach;  // [rows]: sums of |x|
  for (int r = 0; r < rows; ++r) reach.push_back(sum_of_magnitudes(args.hidden.row(r), args.hidden.cols));
  SeenByAll<Contenders> seen(device.pool().threads(), rows, args.counts);
  walk_logits(device, args.hidden, RoughView{weight.rough}, args.vocab,
              [&](int thread, int row, int first_id, const float* logits, int n) {
                seen.of(thread, row).offer(logits, weight.errors + first_id, reach[static_cast<std::size_t>(row)], n,
                                           first_id, kernels.finite_max(logits, n));
              });
  device.pool().share(rows, 1, [&](int begin, int end, int) {
    for (int r = begin; r < end; ++r) {
      Contenders& contenders = seen.merge(r);
      if (contenders.gave_up()) continue;
      BestLogits best;
      best.reset(args.counts[r]);
      alignas(64) float logits[kPanelRows];
      const PanelJob job = panel_job(LinearArgs<W>{
          .x = args.hidden.rows_from(r, 1), .weight = args.weight, .y = {logits, 1, kPanelRows, kPanelRows}});
      int computed = -1;
      for (const TokenId id : contenders.take()) {
        const int panel = id / kPanelRows, lane = id % kPanelRows;
        if (panel != computed) exact_kernels.multiply(job, weight.exact, panel, panel + 1, 0);
        computed = panel;
        best.offer(logits + lane, 1, id, kernels.finite_max(logits + lane, 1));
      }
      args.best[r] = best.take();
    }
  });
  // Where rough logits or bounds overflow, the exact ones need not; and where nothing stands out, one pass over all is
  // cheaper.
  for (int r = 0; r < rows; ++r) {
    if (!seen.of(0, r).gave_up()) continue;
    best_of_all(device, HeadBestArgs<W>{args.hidden.rows_from(r, 1), args.weight, args.vocab, args.counts + r, args.best + r});
  }
}

}  // namespace cpu

template <class W>
  requires(!OnTensorCores<W>)
void head_best(Cpu& device, const HeadBestArgs<W>& args) {
  for (int first = 0; first < args.hidden.rows; first += cpu::kBestRows) {
    const int rows = std::min(cpu::kBestRows, args.hidden.rows - first);
    const HeadBestArgs<W> block{args.hidden.rows_from(first, rows), args.weight, args.vocab, args.counts + first, args.best + first};
    if constexpr (HasRoughPanels<W>) {
      // Bytes are what the rough copy saves: from some rows on, arithmetic is what counts, and one pass is less of it.
      if (rows <= cpu::kRoughRows) {
        cpu::best_of_contenders(device, block);
        continue;
      }
    }
    cpu::best_of_all(device, block);
  }
}

}  // namespace tenon
