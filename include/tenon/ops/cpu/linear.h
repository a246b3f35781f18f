// Matrix products: one family for every batch size, one order of summation (ops/cpu/kernels/linear.inc).
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "tenon/ops/args.h"
#include "tenon/ops/cpu/kernels.h"
#include "tenon/ops/cpu/linear_dot.h"
#include "tenon/ops/cpu/panel_work.h"

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

// Column 8 w + i of four-bit codes is read in place, 16^min(i, 6) times too large.
inline constexpr float kNibbleUnits[8] = {1.0f, 0x1p-4f, 0x1p-8f, 0x1p-12f, 0x1p-16f, 0x1p-20f, 0x1p-24f, 0x1p-24f};

// The tokens of a tile side by side. out: [inputs, tokens]
inline void pack_tile(MatrixView<const float> x, bool nibbles, float* out) {
  for (int k = 0; k < x.cols; ++k) {
    const float unit = nibbles ? kNibbleUnits[k % 8] : 1.0f;
    for (int t = 0; t < x.rows; ++t) *out++ = x.row(t)[k] * unit;
  }
}

// Points a job at its tokens in tiles, so that the inner loop reads one line after another, and at their sums.
// packed: [wanted.floats()]
template <class Layout>
void pack_tokens(Cpu& device, MatrixView<const float> x, const PanelKernels<Layout>& kernels, const Wanted& wanted,
                 float* packed, PanelJob& job) {
  const TokenTiles tiles{x.rows, kernels.tile_tokens(x.rows)};
  const bool packs = wanted.packs(x.rows);
  const int groups = wanted.groups(x.cols);
  float* sums = packed + (packs ? static_cast<std::ptrdiff_t>(x.rows) * x.cols : 0);
  const auto pack = [&](int first, int last) {
    for (int i = first; i < last; ++i) {
      const int begin = tiles.begin(i), tokens = tiles.begin(i + 1) - begin;
      if (packs) pack_tile(x.rows_from(begin, tokens), wanted.nibbles, packed + static_cast<std::ptrdiff_t>(begin) * x.cols);
      for (int t = 0; groups > 0 && t < tokens; ++t) {
        float* out = sums + static_cast<std::ptrdiff_t>(begin) * groups + t;
        kernels.sum_groups(x.row(begin + t), x.cols, wanted.group, wanted.factor, out, tokens);
      }
    }
  };
  device.pool().split(tiles.count(), pack);
  if (packs) job.x = packed;
  if (groups > 0) job.sums = sums;
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
    cpu::share_panels(device.pool(), job.tokens, job.outputs,
                      [&](int first, int last) { compute(job, first, last, first * kPanelRows); });
  });
}

}  // namespace tenon
