// Normalisation of rows.
#pragma once
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/kernels.h"

namespace tenon {

inline void layer_norm(Cpu& device, const LayerNormArgs& args) {
  const auto& kernels = cpu::kernels_for(device.isa());
  const auto rows = [&](int begin, int end) {
    for (int r = begin; r < end; ++r) {
      kernels.layer_norm_row(args.x.row(r), args.gain, args.bias, args.x.cols, args.epsilon, args.y.row(r));
    }
  };
  // Waking the others costs more than a row or two takes.
  if (args.x.rows < 4) rows(0, args.x.rows);
  else device.pool().split(args.x.rows, rows);
}

}  // namespace tenon
