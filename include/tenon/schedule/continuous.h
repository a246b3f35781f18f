// Continuous batching (Orca; Yu et al., 2022): sequences join and leave between any two steps. A prompt longer than the
// rest of the token budget runs in chunks, beside the decodes of others.
#pragma once
#include <chrono>
#include <limits>

#include "tenon/core/concepts.h"
#include "tenon/schedule/running.h"

namespace tenon {

/// The order of admission among sequences of equal priority.
enum class Order {
  arrival,
  longest_first,  ///< most tokens still to come: the makespan is shortest when long texts do not start last
};

/// The default scheduler. Priority is the first rule, then `order`.
struct ContinuousPolicy {
  int max_batch = 32;                                  ///< sequences at once
  int token_budget = std::numeric_limits<int>::max();  ///< rows in a step, without guesses; the engine's own binds too
  Order order = Order::arrival;
  Clock::duration patience = std::chrono::seconds(30);  ///< sequences that have waited this long go first

  void plan(const QueueState& state, PlanWriter& out) const {
    const Candidate* last = nullptr;
    const auto first = [&](const Candidate& a, const Candidate& b) { return before(a, b, state.now); };
    const auto next = [&] {
      return detail::first_after(last, state.waiting, first, [](const Candidate&) { return true; });
    };
    detail::run_continuously(state, out, max_batch, token_budget, next, [&](const Candidate& c) { last = &c; });
  }

  /// The sequence of the lowest priority; of those, the one admitted last, which loses least. Never the oldest.
  SeqId victim(const QueueState& state) const {
    const Candidate* chosen = &state.running.back();
    for (const Candidate& c : state.running.subspan(1)) {
      if (c.priority <= chosen->priority) chosen = &c;
    }
    return chosen->seq;
  }

 private:
  bool before(const Candidate& a, const Candidate& b, TimePoint now) const {
    const bool late = detail::overdue(a, now, patience);
    if (late != detail::overdue(b, now, patience)) return late;
    if (!late && a.priority != b.priority) return a.priority > b.priority;
    if (!late && order == Order::longest_first && a.remaining != b.remaining) return a.remaining > b.remaining;
    return &a < &b;  // of one span, which is in order of arrival
  }
};
static_assert(SchedulerPolicy<ContinuousPolicy> && ChoosesVictim<ContinuousPolicy>);

}  // namespace tenon
