// Adds a mixture of experts to the hidden rows.
#pragma once
#include <utility>

#include "tenon/core/views.h"
#include "tenon/ops/args.h"

namespace tenon::detail {

/// args.y += factor * the mixture. `branch`: [rows, hidden], what attention added before its factor, overwritten; empty
/// where the factor is 1.
template <class D, class W>
void add_mixture(D& device, MixtureArgs<W> args, MatrixView<float> branch, float factor) {
  if (branch.cols == 0) return mixture(device, args);
  const MatrixView<float> x = std::exchange(args.y, branch);
  add(device, AddArgs{branch, -1, branch});  // 0. If it is not finite, x is not either, and the row fails
  mixture(device, args);
  add(device, AddArgs{branch, factor, x});
}

}  // namespace tenon::detail
