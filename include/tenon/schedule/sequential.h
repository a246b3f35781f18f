// One request at a time, first come first served: the baseline, and the reference that every other scheduler must
// equal.
#pragma once
#include "tenon/core/concepts.h"

namespace tenon {

/// One request at a time, in order of arrival.
struct SequentialPolicy {
  void plan(const QueueState& state, PlanWriter& out) const {
    const auto line = state.running.empty() ? state.waiting : state.running;
    if (!line.empty()) out.take(line.front().seq, line.front().pending);
  }
};
static_assert(SchedulerPolicy<SequentialPolicy>);

}  // namespace tenon
