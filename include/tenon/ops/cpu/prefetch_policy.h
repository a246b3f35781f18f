// Decides whether a product paces prefetches, and whether it fuses its LoRA updates.
#pragma once
#include <cstddef>

#include "tenon/core/concepts.h"
#include "tenon/core/low_rank.h"
#include "tenon/core/panels.h"
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/low_rank.h"

namespace tenon::cpu {

/// Bytes of a weight; 0: kernels of this layout do not pace prefetches.
template <class Code>
constexpr double weight_bytes(const CodePanels<Code>&) {
  return sizeof(Code);
}
constexpr double weight_bytes(const Int4Panels&) { return 0.5; }
constexpr double weight_bytes(const NormalFloat4Panels&) { return 0.5; }
constexpr double weight_bytes(const GroupInt8Panels&) { return 1; }
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

/// Whether the kernels of this product pace prefetches. Only those of AVX-512 do.
template <class W>
bool paces_prefetches(const Cpu& device, const LinearArgs<W>& args) {
  const int rows = args.x.rows;
  const CpuTuning& tuning = cpu_tuning();
  return device.isa() == Isa::avx512 && rows >= tuning.least_prefetch_rows && rows <= tuning.most_prefetch_rows &&
         bytes_of_weight(args.weight) > 0;
}

/// Whether reading weights and factors takes less time than the arithmetic, so that fused updates are faster than
/// updates before the product. Xeon of the fifth generation, GPT-2's c_attn, an adapter of rank 16 per row, time added
/// to a step, fused and before: float32 64 rows 8.3 and 10.3 %. Float32 32 rows, below 5 multiply-adds a byte: 10.9 and
/// 9.5 %. int8 32 rows 6.4 and 9.8 %, 8 rows 5.8 and 6.5 %.
template <class W>
bool is_compute_bound(const Cpu& device, const LinearArgs<W>& args, const LowRankArgs& updates) {
  const int rows = args.x.rows, blocks = args.y.cols / kFactorBlock;
  if (!paces_prefetches(device, args) || blocks < cpu_tuning().least_fused_blocks * device.threads()) return false;
  double bytes = bytes_of_weight(args.weight) * args.x.cols;  // per output
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
