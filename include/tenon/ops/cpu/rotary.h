// Rotary positions: the angles of a step, and the rotation of queries and keys.
#pragma once
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/kernels.h"
#include "tenon/ops/cpu/rows.h"

namespace tenon {

inline void rotary_angles(Cpu& device, const RotaryAnglesArgs& args) {
  const auto& kernels = cpu::kernels_for(device.isa());
  cpu::split_rows(device, args.batch.rows, [&](int begin, int end) {
    for (int r = begin; r < end; ++r) {
      const float* frequencies = args.frequencies + r * args.frequency_stride;  // [head_dim / 2]
      const int half = args.angles.cols / 2;
      float* angles = args.angles.row(r);  // [2 half]
      kernels.rotary_angles_row(args.batch.positions[r], frequencies, half, angles);
      if (args.scale == 1) continue;
      for (int i = 0; i < half; ++i) {
        if (frequencies[i] == 0) continue;
        angles[i] *= args.scale;
        angles[half + i] *= args.scale;
      }
    }
  });
}

inline void rotate(Cpu& device, const RotateArgs& args) {
  const auto& kernels = cpu::kernels_for(device.isa());
  cpu::split_rows(device, args.q.rows, [&](int begin, int end) {
    for (int r = begin; r < end; ++r) {
      kernels.rotate_row(args.angles.row(r), args.heads, args.head_dim / 2, args.q.row(r));
      kernels.rotate_row(args.angles.row(r), args.kv_heads, args.head_dim / 2, args.k.row(r));
    }
  });
}

}  // namespace tenon
