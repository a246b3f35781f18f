// Static batching: a batch departs full, or when its oldest member has waited long enough. No sequence joins later.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>

#include "tenon/core/concepts.h"
#include "tenon/schedule/running.h"

namespace tenon {

/// A larger n fills the batch, a shorter max_wait answers sooner (experiment 5). Unlike the literature's static batch,
/// it computes nothing for members that have ended.
struct StaticPolicy {
  int n = 8;                                                 ///< sequences of a batch
  Clock::duration max_wait = std::chrono::milliseconds(50);  ///< of the oldest one, for the others

  void plan(const QueueState& state, PlanWriter& out) const {
    if (!state.running.empty()) {
      detail::take_running(state, out);
      return;
    }
    if (!departs(state)) return;
    const int members = std::min(std::max(n, 1), static_cast<int>(state.waiting.size()));
    int room = detail::room_for_newcomers(state, out);
    for (int i = 0; i < members; ++i) {
      const Candidate& c = state.waiting[static_cast<std::size_t>(i)];
      const int needed = out.need(c.seq);
      if (i > 0 && needed > room) return;
      // Keeps a row for every later member: without one it would wait for the next batch.
      const int share = std::max(1, out.budget_left() - (members - i - 1));
      if (out.take(c.seq, std::min(c.pending, share)) == 0) return;
      room -= needed;
    }
  }

 private:
  bool departs(const QueueState& state) const {
    if (state.waiting.empty()) return false;
    return state.draining || static_cast<int>(state.waiting.size()) >= n ||
           state.now - state.waiting.front().arrival >= max_wait;
  }
};
static_assert(SchedulerPolicy<StaticPolicy>);

}  // namespace tenon
