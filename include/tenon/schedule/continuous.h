// Continuous batching (Orca; Yu et al., 2022): sequences join and leave between any two steps. A prompt longer than
// what is left of the token budget runs in chunks, beside the others' decodes.
#pragma once
#include <algorithm>
#include <limits>
#include <span>

#include "tenon/core/concepts.h"
#include "tenon/schedule/running.h"

namespace tenon {

// Who is admitted first, among equals of priority.
enum class Order {
  arrival,
  longest_first,  // most tokens still to come: the makespan is shortest when long texts do not start last
};

struct ContinuousPolicy {
  int max_batch = 32;      // sequences at once
  int token_budget = std::numeric_limits<int>::max();  // rows in a step; the engine's own budget binds too
  Order order = Order::arrival;

  void plan(const QueueState& state, PlanWriter& out) const {
    int budget = detail::take_running(state, out, std::max(token_budget, 1));
    int room = detail::room_for_newcomers(state);
    int batch = static_cast<int>(state.running.size());
    const Candidate* next = nullptr;
    while (budget > 0 && batch < std::max(max_batch, 1)) {
      next = behind(next, state.waiting);
      if (!next || (batch > 0 && next->pending > room)) return;
      const int taken = out.take(next->seq, std::min(next->pending, budget));
      if (taken == 0) return;  // nobody overtakes: a large request would wait for ever
      budget -= taken;
      room -= next->pending;
      ++batch;
    }
  }

 private:
  bool before(const Candidate& a, const Candidate& b) const {
    if (a.priority != b.priority) return a.priority > b.priority;
    if (order == Order::longest_first && a.remaining != b.remaining) return a.remaining > b.remaining;
    return &a < &b;  // of one span, which is in order of arrival
  }

  // The first in line behind `last`, or of all. A scan per admission, because a policy allocates nothing to sort in.
  const Candidate* behind(const Candidate* last, std::span<const Candidate> waiting) const {
    const Candidate* first = nullptr;
    for (const Candidate& c : waiting) {
      if ((!last || before(*last, c)) && (!first || before(c, *first))) first = &c;
    }
    return first;
  }
};
static_assert(SchedulerPolicy<ContinuousPolicy>);

}  // namespace tenon
