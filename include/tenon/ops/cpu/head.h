// Logits of the rows that need them, or only the best of them.
#pragma once
#include <algorithm>
#include <atomic>
#include <vector>

#include "tenon/ops/cpu/best_logits.h"
#include "tenon/ops/cpu/linear.h"

namespace tenon {

template <class W>
void head(Cpu& device, const HeadArgs<W>& args) {
  linear(device, LinearArgs<W>{.x = args.hidden, .weight = args.weight, .y = args.logits});
}

namespace cpu {

// Calls see(thread, row, first_id, logits, n) for all logits of these rows, some at a time, ids ascending for each thread.
template <class W, class See>
void walk_logits(Cpu& device, MatrixView<const float> hidden, const W& weight, int vocab, See&& see) {
  constexpr int kPanels = 4, kOutputs = kPanels * kPanelRows;  // of kBestRows rows: 32 KiB of logits a thread
  auto& pool = device.pool();
  const int groups = (vocab + kOutputs - 1) / kOutputs, rows = hidden.rows;
  // A few rows are bound by memory: one run of panels a thread. Many by arithmetic: whoever is free.
  const int grain = rows < 8 ? (groups + pool.threads() - 1) / pool.threads() : 1;
  const LinearArgs<W> args{.x = hidden, .weight = weight, .y = {nullptr, rows, vocab, 0}};
  with_panels(device, args, [&](const PanelJob& job, auto&& compute) {
    std::atomic<int> next{0};
    pool.run([&](int thread) {
      alignas(64) float logits[kBestRows * kOutputs];
      PanelJob part = job;
      part.y = logits;
      part.y_stride = kOutputs;
      for (int begin; (begin = next.fetch_add(grain, std::memory_order_relaxed)) < groups;) {
        for (int g = begin; g < std::min(begin + grain, groups); ++g) {
          part.outputs = std::min(kOutputs, vocab - g * kOutputs);
          compute(part, g * kPanels, g * kPanels + static_cast<int>(panel_count(part.outputs)), 0);
          for (int r = 0; r < rows; ++r) see(thread, r, g * kOutputs, logits + r * kOutputs, part.outputs);
        }
      }
    });
  });
}

// Of at most kBestRows rows.
template <class W>
void best_of_all(Cpu& device, const HeadBestArgs<W>& args) {
  const auto& kernels = kernels_for(device.isa());
  const int rows = args.hidden.rows, threads = device.pool().threads();
  std::vector<BestLogits> found(static_cast<std::size_t>(threads * rows));  // [threads, rows]
  for (int i = 0; i < threads * rows; ++i) found[static_cast<std::size_t>(i)].reset(args.counts[i % rows]);
  walk_logits(device, args.hidden, args.weight, args.vocab, [&](int thread, int row, int first_id, const float* logits, int n) {
    found[static_cast<std::size_t>(thread * rows + row)].offer(logits, n, first_id, kernels.finite_max(logits, n));
  });
  for (int r = 0; r < rows; ++r) {
    BestLogits& best = found[static_cast<std::size_t>(r)];
    for (int t = 1; t < threads; ++t) best.add(found[static_cast<std::size_t>(t * rows + r)]);
    args.best[r] = best.take();
  }
}

// With a rough copy: a row of the matrix is read exactly where its logit could be among the best.
template <class W>
void best_of_contenders(Cpu& device, const HeadBestArgs<W>& args) {
  const auto& kernels = kernels_for(device.isa());
  const auto& exact_kernels = panel_kernels_for<CodePanels<float>>(device.isa());
  const ExactAndRough& weight = args.weight.exact_and_rough();
  const int rows = args.hidden.rows, threads = device.pool().threads();
  std::vector<float> reach(static_cast<std::size_t>(rows));  // sums of |x|
  for (int r = 0; r < rows; ++r) reach[static_cast<std::size_t>(r)] = sum_of_magnitudes(args.hidden.row(r), args.hidden.cols);
  std::vector<Contenders> found(static_cast<std::size_t>(threads * rows));  // [threads, rows]
  for (int i = 0; i < threads * rows; ++i) found[static_cast<std::size_t>(i)].reset(args.counts[i % rows]);
  walk_logits(device, args.hidden, RoughView{weight.rough}, args.vocab, [&](int thread, int row, int first_id, const float* logits, int n) {
    found[static_cast<std::size_t>(thread * rows + row)].offer(logits, weight.errors + first_id, reach[static_cast<std::size_t>(row)], n, first_id,
                                                               kernels.finite_max(logits, n));
  });
  device.pool().share(rows, 1, [&](int begin, int end) {
    for (int r = begin; r < end; ++r) {
      Contenders& all = found[static_cast<std::size_t>(r)];
      for (int t = 1; t < threads; ++t) all.add(found[static_cast<std::size_t>(t * rows + r)]);
      if (all.gave_up()) continue;
      BestLogits best;
      best.reset(args.counts[r]);
      alignas(64) float logits[kPanelRows];
      PanelJob job = panel_job(LinearArgs<W>{.x = args.hidden.rows_from(r, 1), .weight = args.weight, .y = {logits, 1, kPanelRows, kPanelRows}});
      int computed = -1;
      for (const TokenId id : all.take()) {
        const int panel = id / kPanelRows, lane = id % kPanelRows;
        if (panel != computed) exact_kernels.multiply(job, weight.exact, panel, panel + 1, 0);
        computed = panel;
        best.offer(logits + lane, 1, id, kernels.finite_max(logits + lane, 1));
      }
      args.best[r] = best.take();
    }
  });
  // Where rough logits or bounds overflow, the exact ones need not; and where nothing stands out, one pass over all is cheaper.
  for (int r = 0; r < rows; ++r) {
    if (!found[static_cast<std::size_t>(r)].gave_up()) continue;
    best_of_all(device, HeadBestArgs<W>{args.hidden.rows_from(r, 1), args.weight, args.vocab, args.counts + r, args.best + r});
  }
}

}  // namespace cpu

template <class W>
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
