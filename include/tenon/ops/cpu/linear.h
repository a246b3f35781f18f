// Matrix products: one family for every batch size, with one order of summation (ops/cpu/kernels/linear.inc).
#pragma once
#include <algorithm>
#include <concepts>
#include <optional>
#include <utility>
#include <vector>

#include "tenon/ops/args.h"
#include "tenon/ops/cpu/fused_lora_epilogue.h"
#include "tenon/ops/cpu/kernels.h"
#include "tenon/ops/cpu/kv_prefetch.h"
#include "tenon/ops/cpu/linear_dot.h"
#include "tenon/ops/cpu/low_rank.h"
#include "tenon/ops/cpu/panel_work.h"
#include "tenon/ops/cpu/prefetch_policy.h"
#include "tenon/ops/low_rank_first.h"

namespace tenon {
namespace cpu {

/// The form of activations that a weight layout needs.
struct ActivationPacking {
  int group = 0;         ///< columns per sum; 0: no sums
  float factor = 0;      ///< factor of the sums
  bool nibbles = false;  ///< columns times kNibbleUnits

  /// Number of sums per token.
  int groups(int inputs) const { return group > 0 ? (inputs + group - 1) / group : 0; }
  /// Whether columns are interleaved; one token without nibbles is read in place.
  bool packs(int tokens) const { return tokens > 1 || nibbles; }
  std::ptrdiff_t packed_floats(int tokens, int inputs) const {
    return packs(tokens) ? std::ptrdiff_t{tokens} * inputs : 0;
  }
  /// Floats of packed columns and sums.
  std::size_t floats(int tokens, int inputs) const {
    return static_cast<std::size_t>(packed_floats(tokens, inputs) + std::ptrdiff_t{tokens} * groups(inputs));
  }
};
template <class Code>
ActivationPacking packing_of(const CodePanels<Code>& weight) {
  return weight.zero_points ? ActivationPacking{.group = weight.cols, .factor = -1.0f} : ActivationPacking{};
}
inline ActivationPacking packing_of(const NormalFloat4Panels&) { return {}; }
inline ActivationPacking packing_of(const GroupInt8Panels&) { return {}; }
/// Kernels read codes as 0 .. 15; a factor of -8 makes them -8 .. 7.
inline ActivationPacking packing_of(const Int4Panels& weight) {
  return {.group = weight.group, .factor = -8.0f, .nibbles = true};
}

/// Packs tokens in tiles, so that the inner loop reads consecutive lines, then their sums. packed: [packing.floats()]
template <class Layout>
void pack_tiles(MatrixView<const float> x, const PanelKernels<Layout>& kernels, const ActivationPacking& packing,
                int first, int last, float* packed) {
  const TokenTiles tiles{x.rows, kernels.tile_tokens(x.rows)};
  const int groups = packing.groups(x.cols);
  float* sums = packed + packing.packed_floats(x.rows, x.cols);
  for (int i = first; i < last; ++i) {
    const std::ptrdiff_t begin = tiles.begin(i);
    const MatrixView<const float> tile = x.rows_from(tiles.begin(i), tiles.begin(i + 1) - tiles.begin(i));
    if (packing.packs(x.rows)) kernels.pack_columns(tile, packing.nibbles, packed + begin * x.cols);
    for (int t = 0; groups > 0 && t < tile.rows; ++t) {
      kernels.sum_groups(tile.row(t), x.cols, packing.group, packing.factor, sums + begin * groups + t, tile.rows);
    }
  }
}

/// Points a job at what pack_tiles has packed.
inline void read_packed(PanelJob& job, const ActivationPacking& packing, const float* packed) {
  if (packing.packs(job.tokens)) job.x = packed;
  job.groups = packing.groups(job.inputs);
  if (job.groups > 0) job.sums = packed + packing.packed_floats(job.tokens, job.inputs);
}

/// Prepares the activations as `packing` says, then calls run(job, compute). compute(job, first, last, first_output,
/// thread) multiplies panels first..last-1 into the job's outputs by multiply(kernels, job, first, last, first_output).
/// Threads may call it at once, each with its own number.
template <class Layout, class W, class Multiply, class Run>
void with_packed(Cpu& device, const LinearArgs<W>& args, const ActivationPacking& packing, Multiply&& multiply,
                 Run&& run) {
  const auto& kernels = panel_kernels_for<Layout>(device.isa());
  const std::size_t floats = (packing.floats(args.x.rows, args.x.cols) + 15) / 16 * 16;
  const int tiles = floats > 0 ? TokenTiles{args.x.rows, kernels.tile_tokens(args.x.rows)}.count() : 0;
  float* packed = nullptr;
  const auto pack = [&](int first, int last, int copy) {
    pack_tiles(args.x, kernels, packing, first, last, packed + static_cast<std::size_t>(copy) * floats);
  };
  using Tiles = PreparedTiles<decltype(pack)>;
  const std::size_t all = floats * static_cast<std::size_t>(floats > 0 ? Tiles::copies(device.pool(), tiles) : 0);
  const auto widened = static_cast<std::size_t>(kernels.widened_floats(args.x.rows, args.x.cols));  // per thread
  if (floats > 0) packed = device.scratch(all + widened * static_cast<std::size_t>(device.threads()));
  Tiles prepared(device.pool(), tiles, pack);
  PanelJob job = panel_job(args);
  job.piece_panels = kernels.piece_panels(args.x.rows);
  run(job, [&](PanelJob outputs, int first, int last, int first_output, int thread) {
    read_packed(outputs, packing, packed + static_cast<std::size_t>(prepared.copy_of(thread)) * floats);
    if (widened > 0) outputs.widened = packed + all + static_cast<std::size_t>(thread) * widened;
    multiply(kernels, outputs, first, last, first_output);
  });
}

template <class W, class Layout, class Run>
void with_panels(Cpu& device, const LinearArgs<W>& args, const Layout& weight, Run&& run) {
  const auto multiply = [&](const auto& kernels, const PanelJob& outputs, int first, int last, int first_output) {
    kernels.multiply(outputs, weight, first, last, first_output);
  };
  with_packed<Layout>(device, args, packing_of(weight), multiply, std::forward<Run>(run));
}

/// Decodes one panel of a format without kernels to float32. out: [cols, 16]
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

/// For formats without kernels: decodes the panels of a piece, then takes the float32 path.
template <class W, class Run>
void with_decoded_panels(Cpu& device, const LinearArgs<W>& args, Run&& run) {
  using Panel = CodePanels<float>;
  const auto multiply = [&](const auto& kernels, const PanelJob& outputs, int first, int last, int first_output) {
    const int each = outputs.piece_panels;
    const std::ptrdiff_t floats = std::ptrdiff_t{args.x.cols} * kPanelRows;
    std::vector<float> codes(static_cast<std::size_t>(each * floats));
    Panel panels;
    panels.codes = codes.data();
    panels.rows = each * kPanelRows;
    panels.cols = args.x.cols;
    for (int p = first; p < last; p += each) {
      const int count = std::min(each, last - p);
      for (int i = 0; i < count; ++i)
        decode_panel(args.weight, p + i, args.y.cols, args.x.cols, codes.data() + i * floats);
      kernels.multiply(outputs, panels, 0, count, first_output + (p - first) * kPanelRows);
    }
  };
  with_packed<Panel>(device, args, {}, multiply, std::forward<Run>(run));
}

template <class W, class Run>
void with_panels(Cpu& device, const LinearArgs<W>& args, Run&& run) {
  if constexpr (HasPanels<W>)
    with_panels(device, args, args.weight.panels(), std::forward<Run>(run));
  else
    with_decoded_panels(device, args, std::forward<Run>(run));
}

/// Makes the updates of each piece, then multiplies its panels.
template <class W>
void multiply_and_update(Cpu& device, const LinearArgs<W>& args, const LowRankArgs& updates) {
  const std::optional<KvPrefetchHint> hint = device.take_kv_prefetch();
  with_panels(device, args, [&](const PanelJob& job, auto&& compute) {
    FusedLoraEpilogue made(device, updates, job, hint ? &*hint : nullptr);
    share_panels(device.pool(), job, [&](int first, int last, int thread) {
      PanelJob own = job;
      for (int begin = first; begin < last; begin += job.piece_panels) {
        const int end = std::min(begin + job.piece_panels, last), output = begin * kPanelRows;
        made.make(output, std::min(end * kPanelRows, job.outputs), thread, own);
        compute(own, begin, end, output, thread);
      }
    });
  });
}

}  // namespace cpu

template <class W>
requires(!OnTensorCores<W>) void linear(Cpu& device, const LinearArgs<W>& args) {
  const std::optional<KvPrefetchHint> hint = device.take_kv_prefetch();
  if (args.x.rows == 0) return;
  std::optional<cpu::KvPrefetch> kv;
  if (HasPanels<W> && hint && cpu::paces_prefetches(device, args)) kv.emplace(device, *hint);
  cpu::with_panels(device, args, [&](const cpu::PanelJob& job, auto&& compute) {
    cpu::share_panels(device.pool(), job, [&](int first, int last, int thread) {
      cpu::PanelJob own = job;
      const int pieces = device.threads() == 1 ? 1 : cpu::own_pieces(device.pool(), job, thread);
      if (kv) own.pacer = kv->next(thread, pieces);
      compute(own, first, last, first * kPanelRows, thread);
    });
  });
}

/// Not for devices derived from Cpu, which may have their own linear or low_rank.
template <std::same_as<Cpu> D, class W>
requires(!OnTensorCores<W>) void linear(D& device, const LinearArgs<W>& args, const LowRankArgs& updates) {
  if (args.x.rows == 0) return;
  if (!updates.groups->one_by_one && cpu::is_compute_bound(device, args, updates)) {
    return cpu::multiply_and_update(device, args, updates);
  }
  linear_after_updates(device, args, updates);
}

}  // namespace tenon
