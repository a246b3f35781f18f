// Matrix products: one family for every batch size, one order of summation (ops/cpu/kernels/linear.inc).
#pragma once
#include <algorithm>

#include "tenon/ops/args.h"
#include "tenon/ops/cpu/kernels.h"

namespace tenon {
namespace cpu {

// Lays the tokens of each tile side by side, [inputs, tokens], so that the inner loop reads one line after another.
inline const float* pack_tokens(Cpu& device, MatrixView<const float> x, int most_tokens, float* packed) {
  const TokenTiles tiles{x.rows, most_tokens};
  device.pool().split(tiles.count(), [&](int first, int last) {
    for (int i = first; i < last; ++i) {
      const int begin = tiles.begin(i), tokens = tiles.begin(i + 1) - begin;
      float* out = packed + static_cast<std::ptrdiff_t>(begin) * x.cols;
      for (int k = 0; k < x.cols; ++k) {
        for (int t = 0; t < tokens; ++t) *out++ = x.row(begin + t)[k];
      }
    }
  });
  return packed;
}

// For formats that are not float32 panels: decodes one panel at a time, then takes the same path.
template <class W>
void linear_by_element(ThreadPool& pool, const Kernels& kernels, const PanelJob& job, const W& weight, float* panels) {
  const int count = (job.outputs + 15) / 16;
  const std::ptrdiff_t panel_floats = static_cast<std::ptrdiff_t>(job.inputs) * 16;
  pool.run([&](int thread) {
    float* panel = panels + thread * panel_floats;
    for (int p = thread; p < count; p += pool.threads()) {
      for (int k = 0; k < job.inputs; ++k) {
        for (int i = 0; i < 16; ++i) panel[k * 16 + i] = p * 16 + i < job.outputs ? weight.at(p * 16 + i, k) : 0.0f;
      }
      kernels.linear_panels(job, panel, p, p + 1);
    }
  });
}

}  // namespace cpu

template <class W>
void linear(Cpu& device, const LinearArgs<W>& args) {
  if (args.x.rows == 0) return;
  const auto& kernels = cpu::kernels_for(device.isa());
  auto& pool = device.pool();
  cpu::PanelJob job{args.x.rows,       args.x.cols,        args.y.cols,          args.x.data,        args.bias, args.delta,
                    args.activation,   args.residual.data, args.residual.stride, args.y.data,        args.y.stride};
  const std::size_t packed_floats = args.x.rows > 1 ? static_cast<std::size_t>(args.x.rows) * args.x.cols : 0;
  if constexpr (HasFloatPanels<W>) {
    if (packed_floats) {
      job.x = cpu::pack_tokens(device, args.x, kernels.tile_tokens(args.x.rows), device.scratch(packed_floats));
    }
    // Groups of 4 panels: what one pass of the narrowest tile takes. A few rows are bound by memory, which all threads
    // share evenly; many by arithmetic, where a thread that loses its core would hold up the rest.
    const int panels = (job.outputs + 15) / 16, groups = (panels + 3) / 4;
    const auto body = [&](int begin, int end) {
      kernels.linear_panels(job, args.weight.panel(begin * 4), begin * 4, std::min(end * 4, panels));
    };
    if (job.tokens < 8) pool.split(groups, body);
    else pool.share(groups, 1, body);
  } else {
    const std::size_t panel_floats = static_cast<std::size_t>(args.x.cols) * 16;
    float* scratch = device.scratch(packed_floats + panel_floats * static_cast<std::size_t>(pool.threads()));
    if (packed_floats) job.x = cpu::pack_tokens(device, args.x, kernels.tile_tokens(args.x.rows), scratch);
    cpu::linear_by_element(pool, kernels, job, args.weight, scratch + packed_floats);
  }
}

}  // namespace tenon
