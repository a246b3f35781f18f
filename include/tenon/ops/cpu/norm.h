// Normalisation of rows and of heads, sums of rows, and bounds of their elements.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>

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

inline void head_norm(Cpu& device, const HeadNormArgs& args) {
  const auto& kernels = cpu::kernels_for(device.isa());
  const int n = args.head_dim;
  cpu::split_rows(device, args.x.rows, [&](int begin, int end) {
    for (int r = begin; r < end; ++r) {
      for (int at = 0; at < args.heads * n; at += n) {
        float* x = args.x.row(r) + at;  // [head_dim]
        if (args.bias)
          kernels.layer_norm_row(x, args.gain + at, args.bias + at, n, args.epsilon, x);
        else
          kernels.rms_norm_row(x, args.gain + at, n, args.epsilon, x);
      }
    }
  });
}

inline void add(Cpu& device, const AddArgs& args) {
  const auto& kernels = cpu::kernels_for(device.isa());
  cpu::split_rows(device, args.x.rows, [&](int begin, int end) {
    for (int r = begin; r < end; ++r) kernels.add_row(args.y.row(r), args.scale, args.x.cols, args.x.row(r));
  });
}

inline void clamp(Cpu& device, const ClampArgs& args) {
  cpu::split_rows(device, args.x.rows, [&](int begin, int end) {
    for (int r = begin; r < end; ++r) {
      for (float& x : std::span(args.x.row(r), static_cast<std::size_t>(args.x.cols)))
        x = std::clamp(x, -args.bound, args.bound);
    }
  });
}

}  // namespace tenon
