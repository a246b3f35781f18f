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

// Groups of 4 panels, what one pass of the narrowest tile takes, to the threads. A few rows are bound by memory, which
// all threads share evenly; many by arithmetic, where a thread that loses its core would hold up the rest.
template <class Body>
void share_panels(ThreadPool& pool, int tokens, int outputs, Body&& body) {
  const int panels = (outputs + kPanelRows - 1) / kPanelRows, groups = (panels + 3) / 4;
  const auto groups_body = [&](int begin, int end) { body(begin * 4, std::min(end * 4, panels)); };
  if (tokens < 8)
    pool.split(groups, groups_body);
  else
    pool.share(groups, 1, groups_body);
}

}  // namespace tenon::cpu
