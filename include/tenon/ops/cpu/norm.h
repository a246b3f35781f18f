// Normalisation of rows.
#pragma once
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/kernels.h"
#include "tenon/ops/cpu/rows.h"

namespace tenon {

inline void layer_norm(Cpu& device, const LayerNormArgs& args) {
  const auto& kernels = cpu::kernels_for(device.isa());
  cpu::split_rows(device, args.x.rows, [&](int begin, int end) {
    for (int r = begin; r < end; ++r) {
      kernels.layer_norm_row(args.x.row(r), args.gain, args.bias, args.x.cols, args.epsilon, args.y.row(r));
    }
  });
}

inline void rms_norm(Cpu& device, const RmsNormArgs& args) {
  const auto& kernels = cpu::kernels_for(device.isa());
  cpu::split_rows(device, args.x.rows, [&](int begin, int end) {
    for (int r = begin; r < end; ++r) {
      kernels.rms_norm_row(args.x.row(r), args.gain, args.x.cols, args.epsilon, args.y.row(r));
    }
  });
}

}  // namespace tenon
