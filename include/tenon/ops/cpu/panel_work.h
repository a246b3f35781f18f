// What all matrix products on the CPU have in common: their outputs, and how panels are shared among the threads.
#pragma once
#include <algorithm>

#include "tenon/ops/args.h"
#include "tenon/ops/cpu/kernels.h"

namespace tenon::cpu {

template <class W>
PanelJob panel_job(const LinearArgs<W>& args) {
  return {args.x.rows, args.x.cols,     args.y.cols,        args.x.data,          nullptr,     args.bias,
          args.delta,  args.activation, args.residual.data, args.residual.stride, args.y.data, args.y.stride};
}

// Panels in groups of 4, what one pass of the narrowest tile takes: body(begin, end, thread).
template <class Body>
void share_panels(ThreadPool& pool, int outputs, Body&& body) {
  const int panels = static_cast<int>(panel_count(outputs));
  pool.share((panels + 3) / 4, 1, [&](int begin, int end, int thread) { body(begin * 4, std::min(end * 4, panels), thread); });
}

}  // namespace tenon::cpu
