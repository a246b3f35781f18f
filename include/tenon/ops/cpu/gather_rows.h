// Moves chosen rows to the front of their matrices.
#pragma once
#include <cstring>

#include "tenon/device/cpu.h"
#include "tenon/ops/args.h"

namespace tenon {

inline void gather_rows(Cpu&, const GatherRowsArgs& args) {
  for (int i = 0; i < args.count; ++i) {
    const int from = args.rows[i];
    if (from == i) continue;
    std::memmove(args.x.row(i), args.x.row(from), static_cast<std::size_t>(args.x.cols) * sizeof(float));
    std::memmove(args.q.row(i), args.q.row(from), static_cast<std::size_t>(args.q.cols) * sizeof(float));
  }
}

}  // namespace tenon
