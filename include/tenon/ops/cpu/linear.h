// Matrix products: one family for every batch size, one order of summation (ops/cpu/kernels/linear.inc).
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "tenon/ops/args.h"
#include "tenon/ops/cpu/kernels.h"
#include "tenon/ops/cpu/linear_dot.h"
#include "tenon/ops/cpu/panel_work.h"
#include "tenon/ops/cpu/rows.h"

namespace tenon {
namespace cpu {

// What a layout of weights wants of the activations.
struct Wanted {
  int group = 0;         // sums over so many columns each; 0: none
  float factor = 0;      // that the sums are multiplied with
  bool nibbles = false;  // columns times kNibbleUnits

  int groups(int inputs) const { return group > 0 ? (inputs + group - 1) / group : 0; }
  bool packs(int tokens) const { return tokens > 1 || nibbles; }
  std::size_t floats(int tokens, int inputs) const {
    return static_cast<std::size_t>(tokens) * static_cast<std::size_t>((packs(tokens) ? inputs : 0) + groups(inputs));
  }
};
template <class Code>
Wanted wanted(const CodePanels<Code>& weight) {
  return weight.zero_points ? Wanted{.group = weight.cols, .factor = -1.0f} : Wanted{};
}
// Kernels take codes as 0 .. 15; -8 of them makes -8 .. 7.
inline Wanted wanted(const Int4Panels& weight) { return {.group = weight.group, .factor = -8.0f, .nibbles = true}; }

// Points a job at its tokens in tiles, so that the inner loop reads one line after another, and at their sums.
// packed: [wanted.floats()]
template <class Layout>
void pack_tokens(Cpu& device, MatrixView<const float> x, const PanelKernels<Layout>& kernels, const Wanted& wanted,
                 float* packed, PanelJob& job) {
  const TokenTiles tiles{x.rows, kernels.tile_tokens(x.rows)};
  const int groups = wanted.groups(x.cols), lines = (x.cols + kPanelRows - 1) / kPanelRows;
  float* sums = packed + (wanted.packs(x.rows) ? static_cast<std::ptrdiff_t>(x.rows) * x.cols : 0);
  // A thread packs whole tiles; where there are fewer of them than threads, some columns, and sums of some tokens, of one.
  const int parts = x.rows < kSharedRows ? 1 : (device.pool().threads() + tiles.count() - 1) / tiles.count();
  const auto cut = [&](int count, int part) { return static_cast<int>(static_cast<std::int64_t>(count) * part / parts); };
  device.pool().split(tiles.count() * parts, [&](int first, int last) {
    for (int i = first; i < last; ++i) {
      const int part = i % parts, begin = tiles.begin(i / parts);
      const MatrixView<const float> tile = x.rows_from(begin, tiles.begin(i / parts + 1) - begin);
      if (wanted.packs(x.rows)) {
        kernels.pack_columns(tile, cut(lines, part) * kPanelRows, std::min(cut(lines, part + 1) * kPanelRows, x.cols),
                             wanted.nibbles, packed + static_cast<std::ptrdiff_t>(begin) * x.cols);
      }
      for (int t = cut(tile.rows, part); groups > 0 && t < cut(tile.rows, part + 1); ++t) {
        float* out = sums + static_cast<std::ptrdiff_t>(begin) * groups + t;
        kernels.sum_groups(tile.row(t), x.cols, wanted.group, wanted.factor, out, tile.rows);
      }
    }
  });
  if (wanted.packs(x.rows)) job.x = packed;
  if (groups > 0) job.sums = sums;
  job.groups = groups;
}

// Prepares the activations, then calls run(job, compute): compute(job, first, last, first_output) multiplies the weight's
// panels first..last-1 into whatever outputs that job has; threads may call it at once.
template <class W, class Layout, class Run>
void with_panels(Cpu& device, const LinearArgs<W>& args, const Layout& weight, Run&& run) {
  const auto& kernels = panel_kernels_for<Layout>(device.isa());
  PanelJob job = panel_job(args);
  const Wanted prepared = wanted(weight);
  if (const std::size_t floats = prepared.floats(args.x.rows, args.x.cols)) {
    pack_tokens(device, args.x, kernels, prepared, device.scratch(floats), job);
  }
  run(job, [&](const PanelJob& outputs, int first, int last, int first_output) {
    kernels.multiply(outputs, weight, first, last, first_output);
  });
}

// One panel of a format of which kernels know nothing, as float32. out: [cols, 16]
template <class W>
void decode_panel(const W& weight, int panel, int rows, int cols, float* out) {
  if constexpr (DecodesPanels<W>) {
    weight.decode(panel, out);
  } else {
    for (int k = 0; k < cols; ++k) {
      for (int i = 0; i < kPanelRows; ++i) {
        const int row = panel * kPanelRows + i;
        out[k * kPanelRows + i] = row < rows ? weight.at(row, k) : 0.0f;
      }
    }
  }
}

// For formats of which kernels know nothing: decodes one panel at a time, then takes the same path.
template <class W, class Run>
void with_decoded_panels(Cpu& device, const LinearArgs<W>& args, Run&& run) {
  using Panel = CodePanels<float>;
  const auto& kernels = panel_kernels_for<Panel>(device.isa());
  PanelJob job = panel_job(args);
  if (const std::size_t floats = Wanted{}.floats(args.x.rows, args.x.cols)) {
    pack_tokens(device, args.x, kernels, {}, device.scratch(floats), job);
  }
  run(job, [&](const PanelJob& outputs, int first, int last, int first_output) {
    std::vector<float> codes(static_cast<std::size_t>(args.x.cols) * kPanelRows);
    Panel panel;
    panel.codes = codes.data();
    panel.rows = kPanelRows;
    panel.cols = args.x.cols;
    for (int p = first; p < last; ++p) {
      decode_panel(args.weight, p, args.y.cols, args.x.cols, codes.data());
      kernels.multiply(outputs, panel, 0, 1, first_output + (p - first) * kPanelRows);
    }
  });
}

template <class W, class Run>
void with_panels(Cpu& device, const LinearArgs<W>& args, Run&& run) {
  if constexpr (HasPanels<W>) with_panels(device, args, args.weight.panels(), std::forward<Run>(run));
  else with_decoded_panels(device, args, std::forward<Run>(run));
}

}  // namespace cpu

template <class W>
void linear(Cpu& device, const LinearArgs<W>& args) {
  if (args.x.rows == 0) return;
  cpu::with_panels(device, args, [&](const cpu::PanelJob& job, auto&& compute) {
    cpu::share_panels(device.pool(), job.outputs,
                      [&](int first, int last, int) { compute(job, first, last, first * kPanelRows); });
  });
}

}  // namespace tenon
