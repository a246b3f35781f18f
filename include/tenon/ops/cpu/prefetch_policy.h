// Whether a product's kernels ask memory for what they are told to beside their panels, and whether one with adapters
// leaves memory idle, so that updates are better made beside it than before it.
#pragma once
#include <cstddef>

#include "tenon/core/concepts.h"
#include "tenon/core/low_rank.h"
#include "tenon/core/panels.h"
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/low_rank.h"

namespace tenon::cpu {

// Of a weight; 0: of layouts whose kernels do not ask ahead.
template <class Code>
constexpr double weight_bytes(const CodePanels<Code>&) {
  return sizeof(Code);
}
constexpr double weight_bytes(const Int4Panels&) { return 0.5; }
template <class Layout>
constexpr double weight_bytes(const Layout&) {
  return 0;
}
template <class W>
double bytes_of_weight(const W& weight) {
  if constexpr (HasPanels<W>)
    return weight_bytes(weight.panels());
  else
    return sizeof(float);
}

// Whether the kernels of this product pace prefetches. Only those of AVX-512 do.
template <class W>
bool paces_prefetches(const Cpu& device, const LinearArgs<W>& args) {
  const int rows = args.x.rows;
  const CpuTuning& tuning = cpu_tuning();
  return device.isa() == Isa::avx512 && rows >= tuning.least_prefetch_rows && rows <= tuning.most_prefetch_rows &&
         bytes_of_weight(args.weight) > 0;
}

// Whether arithmetic takes longer than reading weights and factors does. GPT-2's c_attn under as many adapters of rank
// 16 as there are rows, what they add to a step so and with the updates first, two threads of that Xeon, medians of 3
// to 6 in turns: float32 64 rows 8.3 and 10.3 %, 32 rows 10.9 and 9.5 (that are fewer than 5 multiply-adds a byte),
// 8 4.9 and 3.4; int8 32 rows 6.4 and 9.8 %, 8 5.8 and 6.5, 4 7.3 and 4.4.
template <class W>
bool is_compute_bound(const Cpu& device, const LinearArgs<W>& args, const LowRankArgs& updates) {
  const int rows = args.x.rows, blocks = args.y.cols / kFactorBlock;
  if (!paces_prefetches(device, args) || blocks < cpu_tuning().least_fused_blocks * device.threads()) return false;
  double bytes = bytes_of_weight(args.weight) * args.x.cols;  // of an output
  bool any = false;
  for (const AdapterGroup& group : updates.groups->groups) {
    for (const LowRank& u : updates_of(updates, group)) {
      bytes += static_cast<double>(bytes_of(u.type)) * u.rank * u.outputs / args.y.cols;
      any = true;
    }
  }
  return any && static_cast<double>(rows) * args.x.cols > cpu_tuning().multiply_adds_per_byte * bytes;
}

}  // namespace tenon::cpu
