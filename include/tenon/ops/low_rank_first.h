// A product after its LoRA updates, on any device: for devices that cannot fuse them, and for products on the CPU where
// fusing does not pay.
#pragma once
#include "tenon/ops/args.h"

namespace tenon {

/// Computes `updates` by low_rank, then y of args with them as its delta.
template <class D, class W, class X, class Y>
void linear_after_updates(D& device, LinearArgs<W, X, Y> args, const LowRankArgsOf<X>& updates) {
  low_rank(device, updates);
  args.delta = updates.deltas;
  linear(device, args);
}

}  // namespace tenon
