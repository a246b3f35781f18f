// Logits of the rows that need them.
#pragma once
#include "tenon/ops/cpu/linear.h"

namespace tenon {

template <class W>
void head(Cpu& device, const HeadArgs<W>& args) {
  linear(device, LinearArgs<W>{.x = args.hidden, .weight = args.weight, .y = args.logits});
}

}  // namespace tenon
