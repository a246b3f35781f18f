#pragma once
#include "tenon/core/require.h"
#include "tenon/schedule/running.h"

namespace tenon::detail {

TENON_INLINE int take_running(const QueueState& state, PlanWriter& out, int budget, int reserve) {
  for (const bool decoding : {true, false}) {
    const int kept = decoding ? 0 : reserve + (budget - std::min(budget, out.budget_left()));
    for (const Candidate& c : state.running) {
      if ((c.pending == 1) == decoding && budget > kept) budget -= out.take(c.seq, std::min(c.pending, budget - kept));
    }
  }
  return budget;
}

TENON_INLINE int room_for_newcomers(const QueueState& state, const PlanWriter& out) {
  long long room = state.free_cache_tokens;
  for (const Candidate& c : state.running) room -= out.need(c.seq);
  return static_cast<int>(std::max(room, 0LL));
}

}  // namespace tenon::detail
