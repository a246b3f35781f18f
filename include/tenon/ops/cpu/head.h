// Logits of the rows that need them, or only the largest logits.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenon/ops/cpu/kernels.h"
#include "tenon/ops/cpu/linear.h"
#include "tenon/ops/cpu/rows.h"
#include "tenon/ops/cpu/top_k.h"
#include "tenon/ops/cpu/top_k_candidates.h"

namespace tenon {

template <class W>
requires(!OnTensorCores<W>) void head(Cpu& device, const HeadArgs<W>& args) {
  // may be left by a forward pass whose products took none; its view of the cache may be gone
  device.take_kv_prefetch();
  linear(device, LinearArgs<W>{.x = args.hidden, .weight = args.weight, .y = args.logits});
}

inline void finish_logits(Cpu& device, const FinishLogitsArgs& args) {
  const auto& kernels = cpu::kernels_for(device.isa());
  cpu::split_rows(device, args.logits.rows, [&](int begin, int end) {
    for (int r = begin; r < end; ++r)
      kernels.finish_row(args.bias, args.soft_cap, args.logits.cols, args.logits.row(r));
  });
}

namespace cpu {

inline constexpr int kBestRows = CpuTuning::top_k_rows;  ///< hidden rows whose largest logits are found in one pass
/// Hidden rows with their residual rows, and outputs of a piece: 64 KiB of logits a thread.
inline constexpr int kWalkRows = 2 * kBestRows, kWalkOutputs = 4 * kPanelRows;

/// Multiplies all logits of at most kWalkRows rows, a piece at a time, and calls see(thread, first_id, logits, n).
/// logits: [rows, kWalkOutputs], of which the first n columns are valid.
template <class W, class See>
void walk_logits(Cpu& device, MatrixView<const float> hidden, const W& weight, int vocab, See&& see) {
  const LinearArgs<W> args{.x = hidden, .weight = weight, .y = {nullptr, hidden.rows, vocab, 0}};
  with_panels(device, args, [&](const PanelJob& job, auto&& compute) {
    share_panels(device.pool(), job, [&](int first, int last, int thread) {
      alignas(64) float logits[kWalkRows * kWalkOutputs];
      PanelJob part = job;
      part.y = logits;
      part.y_stride = kWalkOutputs;
      for (int p = first; p < last; p += job.piece_panels) {
        const int first_id = p * kPanelRows;
        part.outputs = std::min(job.piece_panels * kPanelRows, vocab - first_id);
        compute(part, p, std::min(p + job.piece_panels, last), 0, thread);
        see(thread, first_id, logits, part.outputs);
      }
    });
  });
}

/// One collector per thread and row: TopK or TopKCandidates.
template <class Seen>
class Collectors {
 public:
  Collectors(int threads, int rows, const int* counts /* [rows] */)
      : threads_(threads), rows_(rows), seen_(static_cast<std::size_t>(threads * rows)) {
    for (int t = 0; t < threads; ++t) {
      for (int r = 0; r < rows; ++r) of(t, r).reset(counts[r]);
    }
  }

  Seen& of(int thread, int row) { return seen_[static_cast<std::size_t>(thread * rows_ + row)]; }
  /// Merges the row's collectors into that of the first thread.
  Seen& merge(int row) {
    for (int t = 1; t < threads_; ++t) of(0, row).add(of(t, row));
    return of(0, row);
  }

 private:
  int threads_, rows_;
  std::vector<Seen> seen_;  // [threads, rows]
};

/// Finds the largest logits of at most kBestRows rows by an exact pass.
template <class W>
void top_k_by_pass(Cpu& device, const HeadBestArgs<W>& args) {
  const auto& kernels = kernels_for(device.isa());
  const int rows = args.hidden.rows;
  Collectors<TopK> seen(device.pool().threads(), rows, args.counts);
  walk_logits(device, args.hidden, args.weight, args.vocab, [&](int thread, int first_id, const float* logits, int n) {
    for (int r = 0; r < rows; ++r, logits += kWalkOutputs) {
      seen.of(thread, r).offer(logits, n, first_id, kernels.finite_max(logits, n));
    }
  });
  for (int r = 0; r < rows; ++r) args.best[r] = seen.merge(r).take();
}

/// The int8 approximation as a matrix of its own.
struct ApproximationView {
  Int8Quads packed;
  const Int8Quads& panels() const { return packed; }
};

/// Collects the candidates of each row by a pass over the approximation.
template <class W>
void find_candidates(Cpu& device, const HeadBestArgs<W>& args, Collectors<TopKCandidates>& seen) {
  const auto& kernels = kernels_for(device.isa());
  const Int8Approximation& weight = args.weight.approximation();
  const QuantisedRows quantised(device, args.hidden);
  walk_logits(device, quantised.all(), ApproximationView{weight.panels}, args.vocab,
              [&](int thread, int first_id, float* logits, int n) {
                const PieceBounds piece(weight, first_id, n);
                for (int r = 0; r < args.hidden.rows; ++r) {
                  float* of_row = logits + r * kWalkOutputs;
                  if (quantised.residual(r) >= 0) {
                    const float* more = logits + quantised.residual(r) * kWalkOutputs;
                    for (int i = 0; i < n; ++i) of_row[i] += more[i];
                  }
                  seen.of(thread, r).offer(of_row, n, first_id, kernels.finite_max(of_row, n), piece,
                                           quantised.bounds(r));
                }
              });
}

/// Most exact panels read for one row; beyond that, its share of an exact pass is cheaper.
inline int most_panels_read(int vocab) {
  const CpuTuning& tuning = cpu_tuning();
  return std::max(tuning.least_exact_panels, static_cast<int>(panel_count(vocab)) / tuning.exact_panel_share);
}

/// Products of one row with single panels. The bits are those of linear.
template <class W>
class RowProduct {
 public:
  /// row: [1, inputs]; it must outlive the object.
  RowProduct(Isa isa, MatrixView<const float> row, const W& weight)
      : kernels_(panel_kernels_for<Layout>(isa)),
        panels_(weight.panels()),
        packing_(packing_of(panels_)),
        prepared_(packing_.floats(1, row.cols)),
        job_(panel_job(LinearArgs<W>{.x = row, .weight = weight, .y = {logits_, 1, kPanelRows, kPanelRows}})) {
    pack_tiles(row, kernels_, packing_, 0, 1, prepared_.data());
    read_packed(job_, packing_, prepared_.data());
  }
  RowProduct(const RowProduct&) = delete;
  RowProduct& operator=(const RowProduct&) = delete;

  // [16]
  const float* with(int panel) {
    kernels_.multiply(job_, panels_, panel, panel + 1, 0);
    return logits_;
  }

 private:
  using Layout = std::remove_cvref_t<decltype(std::declval<const W&>().panels())>;

  alignas(64) float logits_[kPanelRows];
  const PanelKernels<Layout>& kernels_;
  Layout panels_;
  ActivationPacking packing_;
  std::vector<float> prepared_;
  PanelJob job_;
};

/// Whether the search would exceed `most`: candidate number `most` still reaches the floor. Candidates are read from
/// the likeliest on, so a few reads beyond the wanted logits nearly settle the floor.
inline bool would_read(const std::vector<TokenLogit>& candidates, float floor, int most) {
  return candidates.size() > static_cast<std::size_t>(most) &&
         candidates[static_cast<std::size_t>(most)].logit >= floor;
}

/// Finds the largest logits of row r exactly, from the likeliest candidate on, until no candidate left can reach them.
/// Returns false if that would read too many panels.
template <class W>
bool best_of_candidates(Cpu& device, const HeadBestArgs<W>& args, int r, const std::vector<TokenLogit>& candidates) {
  const auto& kernels = kernels_for(device.isa());
  RowProduct<W> product(device.isa(), args.hidden.rows_from(r, 1), args.weight);
  const int count = args.counts[r], most = most_panels_read(args.vocab);
  if (4 * std::int64_t{count} > 3 * most && candidates.size() > static_cast<std::size_t>(most))
    return false;  // each wanted logit reads at least 1.4 panels
  TopK best;
  best.reset(count);
  int read = 0;
  for (const TokenLogit& each : candidates) {
    if (each.logit < best.floor()) break;
    if (read++ == most ||
        (read == count + cpu_tuning().exact_panels_to_judge && would_read(candidates, best.floor(), most)))
      return false;
    const float* logit = product.with(each.id / kPanelRows) + each.id % kPanelRows;
    best.offer(logit, 1, each.id, kernels.finite_max(logit, 1));
    if (read % (1 + count / 8) == 0) best.drop();  // drop() costs `count`
  }
  args.best[r] = best.take();
  return true;
}

/// Finds the largest logits of the listed rows by an exact pass over them.
template <class W>
void best_of_rows(Cpu& device, const HeadBestArgs<W>& args, const std::vector<int>& rows) {
  const auto count = rows.size(), cols = static_cast<std::size_t>(args.hidden.cols);
  std::vector<float> hidden(count * cols);
  std::vector<int> counts(count);
  std::vector<std::vector<TokenLogit>> best(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::copy_n(args.hidden.row(rows[i]), cols, hidden.data() + i * cols);
    counts[i] = args.counts[rows[i]];
  }
  const MatrixView<const float> gathered{hidden.data(), static_cast<int>(count), args.hidden.cols, args.hidden.cols};
  top_k_by_pass(device, HeadBestArgs<W>{gathered, args.weight, args.vocab, counts.data(), best.data()});
  for (std::size_t i = 0; i < count; ++i) args.best[rows[i]] = std::move(best[i]);
}

/// Finds the largest logits of at most kBestRows rows by the approximation: exact panels are read only for logits that
/// may be among them.
template <class W>
void best_by_approximation(Cpu& device, const HeadBestArgs<W>& args) {
  const int rows = args.hidden.rows;
  Collectors<TopKCandidates> seen(device.pool().threads(), rows, args.counts);
  find_candidates(device, args, seen);
  device.pool().share(rows, 1, [&](int begin, int end, int) {
    for (int r = begin; r < end; ++r) {
      TopKCandidates& candidates = seen.merge(r);
      if (!candidates.gave_up() && !best_of_candidates(device, args, r, candidates.take())) candidates.give_up();
    }
  });
  // Rows whose approximate logits or bounds overflow may still have finite exact ones. Rows without distinct logits
  // have too many candidates.
  std::vector<int> left;
  for (int r = 0; r < rows; ++r) {
    if (seen.of(0, r).gave_up()) left.push_back(r);
  }
  if (!left.empty()) best_of_rows(device, args, left);
}

/// Whether the approximation is likely to pay. Each wanted logit reads 1.4 to 1.8 panels with a trained model (4,096
/// ids, 64 rows), and 2.5 to 6 with random weights.
inline bool wants_few(const int* counts /* [rows] */, int rows, int vocab) {
  const auto wanted = std::accumulate(counts, counts + rows, std::int64_t{0});
  return 4 * wanted <= std::int64_t{rows} * most_panels_read(vocab);
}

}  // namespace cpu

template <class W>
requires(!OnTensorCores<W>) void head_best(Cpu& device, const HeadBestArgs<W>& args) {
  for (int first = 0; first < args.hidden.rows; first += cpu::kBestRows) {
    const int rows = std::min(cpu::kBestRows, args.hidden.rows - first);
    const HeadBestArgs<W> block{args.hidden.rows_from(first, rows), args.weight, args.vocab, args.counts + first,
                                args.best + first};
    if constexpr (HasInt8Approximation<W>) {
      if (cpu::wants_few(block.counts, rows, args.vocab)) {
        cpu::best_by_approximation(device, block);
        continue;
      }
    }
    cpu::top_k_by_pass(device, block);
  }
}

}  // namespace tenon
