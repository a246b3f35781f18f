// A product whose updates are made before it, on any device: what one that cannot make them beside it runs, and the CPU
// where that does not pay.
#pragma once
#include "tenon/ops/args.h"

namespace tenon {

// y of args, with what low_rank makes of `updates` as its delta.
template <class D, class W, class X, class Y>
void linear_after_updates(D& device, LinearArgs<W, X, Y> args, const LowRankArgsOf<X>& updates) {
  low_rank(device, updates);
  args.delta = updates.deltas;
  linear(device, args);
}

}  // namespace tenon
