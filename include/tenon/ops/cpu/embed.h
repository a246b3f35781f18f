// Token and position embedding.
#pragma once
#include "tenon/device/cpu.h"
#include "tenon/ops/args.h"

namespace tenon {

template <class W>
void embed(Cpu& device, const EmbedArgs<W>& args) {
  device.pool().split(args.batch.rows, [&](int begin, int end) {
    for (int r = begin; r < end; ++r) {
      float* x = args.x.row(r);
      const TokenId token = token_of(args.batch, r);
      for (int c = 0; c < args.x.cols; ++c) x[c] = args.table.at(token, c);
      if (args.scale != 1)
        for (int c = 0; c < args.x.cols; ++c) x[c] *= args.scale;
      if (!args.position_table) continue;
      const float* p = args.position_table + static_cast<std::ptrdiff_t>(args.batch.positions[r]) * args.x.cols;
      for (int c = 0; c < args.x.cols; ++c) x[c] += p[c];
    }
  });
}

}  // namespace tenon
