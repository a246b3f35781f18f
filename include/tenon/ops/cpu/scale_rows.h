// Multiplies the rows of a step by the input gains of their adapters (IA3; Liu et al., 2022).
#pragma once
#include <algorithm>

#include "tenon/device/cpu.h"
#include "tenon/ops/args.h"
#include "tenon/ops/change_args.h"
#include "tenon/ops/cpu/rows.h"

namespace tenon {

inline void scale_rows(Cpu& device, const ScaleRowsArgs& args) {
  cpu::split_rows(device, args.x.rows, [&](int begin, int end) {
    for (int r = begin; r < end; ++r) {
      const float *const x = args.x.row(r), *const gain = args.gains[r];
      float* const y = args.y.row(r);
      if (!gain) {
        std::copy_n(x, args.x.cols, y);
        continue;
      }
      for (int i = 0; i < args.x.cols; ++i) y[i] = x[i] * gain[i];
    }
  });
}

}  // namespace tenon
