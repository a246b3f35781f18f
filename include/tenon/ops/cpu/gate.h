// The gate of a gated MLP.
#pragma once
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/kernels.h"
#include "tenon/ops/cpu/rows.h"

namespace tenon {

inline void gate(Cpu& device, const GateArgs& args) {
  const auto& kernels = cpu::kernels_for(device.isa());
  const int n = args.y.cols;
  cpu::split_rows(device, args.x.rows, [&](int begin, int end) {
    for (int r = begin; r < end; ++r) {
      const float* x = args.x.row(r);  // [2 n]
      kernels.gate_row(x, x + n, n, args.activation, args.y.row(r));
    }
  });
}

}  // namespace tenon
