// The baseline: one row after the other, all threads on the same row, like a loop over the batch in Python.
#pragma once
#include "tenon/adapter/gathered.h"

namespace tenon {

/// Adapter policy: the groups of GatheredLoRA, run one by one.
struct LoopedLoRA {
  static constexpr bool adds_at_runtime = true;

  void arrange(std::span<const AdapterSet* const> rows, AdapterGroups& out) const {
    GatheredLoRA{}.arrange(rows, out);
    out.one_by_one = true;
  }
};
static_assert(AdapterPolicy<LoopedLoRA>);

}  // namespace tenon
