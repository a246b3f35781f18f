// The baseline that others are measured against: row after row, each shared by all threads, as a loop over a batch in
// Python would have it.
#pragma once
#include "tenon/adapter/gathered.h"

namespace tenon {

struct LoopedLoRA {
  static constexpr bool adds_at_runtime = true;

  void arrange(std::span<const AdapterSet* const> rows, AdapterGroups& out) const {
    GatheredLoRA{}.arrange(rows, out);
    out.one_by_one = true;
  }
};
static_assert(AdapterPolicy<LoopedLoRA>);

}  // namespace tenon
