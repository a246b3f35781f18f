// Matrix products that round activations, each token by itself: to int8 for weights in quads of integers, to bfloat16
// for weights in pairs of bfloat16.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tenon/ops/args.h"
#include "tenon/ops/cpu/dot_kernels.h"
#include "tenon/ops/cpu/panel_work.h"

namespace tenon::cpu {

/// Rounds and packs the activations, then calls run(job, compute) like with_packed of ops/cpu/linear.h.
template <class W, class Layout, class Run>
void with_rounded(Cpu& device, const LinearArgs<W>& args, const Layout& weight, Run&& run) {
  const auto& kernels = dot_kernels_for(device.isa(), weight);
  const DotForm form = kernels.form(weight);
  const TokenTiles tiles{args.x.rows, kernels.tile_tokens(args.x.rows)};
  const int side = kernels.side(args.x.rows);
  const DotMemory parts = dot_memory(form, args.x.rows);
  float* memory = nullptr;  // [copies, parts.size]
  const auto job_of = [&](int copy) {
    float* scales = memory + static_cast<std::size_t>(copy) * parts.size;
    auto* sums = reinterpret_cast<std::int32_t*>(scales + parts.sums);
    auto* x = reinterpret_cast<std::uint32_t*>(scales + parts.x);
    return DotJob{.tiles = tiles, .form = form, .side = side, .x = x, .sums = sums, .scales = scales, .outputs = {}};
  };
  const auto round = [&](int first, int last, int copy) {
    const DotJob job = job_of(copy);
    for (int i = first; i < last; ++i) {
      const DotTile tile = job.tile(i);
      kernels.round_tokens(args.x.rows_from(tiles.begin(i), tile.tokens), form, tile);
    }
  };
  using Tiles = PreparedTiles<decltype(round)>;
  memory = device.scratch(parts.size * static_cast<std::size_t>(Tiles::copies(device.pool(), tiles.count())));
  Tiles prepared(device.pool(), tiles.count(), round);
  run(panel_job(args), [&](const PanelJob& outputs, int first, int last, int first_output, int thread) {
    DotJob job = job_of(prepared.copy_of(thread));
    job.outputs = outputs;
    kernels.multiply(job, weight, first, last, first_output);
  });
}

template <class W, class Run>
void with_panels(Cpu& device, const LinearArgs<W>& args, const Int8Quads& weight, Run&& run) {
  with_rounded(device, args, weight, std::forward<Run>(run));
}
template <class W, class Run>
void with_panels(Cpu& device, const LinearArgs<W>& args, const Int4Quads& weight, Run&& run) {
  with_rounded(device, args, weight, std::forward<Run>(run));
}
template <class W, class Run>
void with_panels(Cpu& device, const LinearArgs<W>& args, const BFloat16Pairs& weight, Run&& run) {
  with_rounded(device, args, weight, std::forward<Run>(run));
}
template <class W, class Run>
void with_panels(Cpu& device, const LinearArgs<W>& args, const BFloat16Blocks& weight, Run&& run) {
  with_rounded(device, args, weight, std::forward<Run>(run));
}

}  // namespace tenon::cpu
