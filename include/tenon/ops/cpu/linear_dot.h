// Matrix products that round activations too, a token on its own: to int8 where weights are quads of integers, to
// bfloat16 where they are pairs of it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tenon/ops/args.h"
#include "tenon/ops/cpu/dot_kernels.h"
#include "tenon/ops/cpu/panel_work.h"

namespace tenon::cpu {

// Rounds and packs the activations, then calls run(job, compute) as with_panels of ops/cpu/linear.h does.
template <class W, class Layout, class Run>
void with_rounded(Cpu& device, const LinearArgs<W>& args, const Layout& weight, Run&& run) {
  const auto& kernels = dot_kernels_for<Layout>(device.isa());
  const DotForm form = dot_form(weight);
  const auto tokens = static_cast<std::size_t>(args.x.rows);
  DotJob job{.tiles = {args.x.rows, kernels.tile_tokens(args.x.rows)},
             .form = form,
             .x = nullptr,
             .sums = nullptr,
             .scales = device.scratch(tokens * static_cast<std::size_t>(1 + form.groups + form.units)),
             .outputs = panel_job(args)};
  job.sums = reinterpret_cast<std::int32_t*>(job.scales + tokens);
  job.x = reinterpret_cast<std::uint32_t*>(job.sums + tokens * static_cast<std::size_t>(form.groups));
  device.pool().split(job.tiles.count(), [&](int first, int last) {
    for (int i = first; i < last; ++i) {
      const DotTile tile = job.tile(i);
      kernels.round_tokens(args.x.rows_from(job.tiles.begin(i), tile.tokens), form, tile);
    }
  });
  run(job.outputs, [&](const PanelJob& outputs, int first, int last, int first_output) {
    DotJob part = job;
    part.outputs = outputs;
    kernels.multiply(part, weight, first, last, first_output);
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

}  // namespace tenon::cpu
