// What the schedulers share: sequences that run already go first, and newcomers join only where they fit whole.
#pragma once
#include <algorithm>
#include <limits>

#include "tenon/core/plan.h"

namespace tenon::detail {

// Decodes first, so that a text being written never waits for somebody else's prompt; then what is left of prompts.
// Returns what is left of the budget.
inline int take_running(const QueueState& state, PlanWriter& out, int budget = std::numeric_limits<int>::max()) {
  for (const bool decoding : {true, false}) {
    for (const Candidate& c : state.running) {
      if ((c.pending == 1) == decoding && budget > 0) budget -= out.take(c.seq, std::min(c.pending, budget));
    }
  }
  return budget;
}

// Cache tokens that newcomers may count on: what is free, less the prompts that are still being read. Who does not fit
// whole would be preempted before its first token, and have computed for nothing.
inline int room_for_newcomers(const QueueState& state) {
  long long room = state.free_cache_tokens;
  for (const Candidate& c : state.running) {
    if (c.pending > 1) room -= c.pending;
  }
  return static_cast<int>(std::max(room, 0LL));
}

}  // namespace tenon::detail
