// Fairness between clients, and between the adapters of each: continuous batching with virtual token counters
// (schedule/token_counters.h). The least served adapter of the least served client is admitted next.
//
// The bound is that of the paper for backlogged tenants. Let two clients, or two adapters of one client, have requests
// waiting all through an interval. Then neither is served more than 2 U ahead of the other in it, with
//     U = max(input_weight x longest prompt, output_weight x most tokens that the requests running at once come to).
// The bound holds for service as admitted. A prompt that exceeds a step's token budget is admitted whole and read in
// chunks, one such prompt at a time. Service as computed differs further, by at most twice that of the longest prompt.
#pragma once
#include <algorithm>
#include <chrono>
#include <limits>
#include <span>

#include "tenon/core/concepts.h"
#include "tenon/schedule/running.h"
#include "tenon/schedule/token_counters.h"

namespace tenon {

/// Fair between clients, and between the adapters of each client.
struct FairPolicy {
  int max_batch = 32;  ///< sequences at once
  /// Further sequences at once, for clients that run nothing. The first half of them also takes the first sequence of
  /// any client's new request.
  int guests = 0;
  int token_budget = std::numeric_limits<int>::max();   ///< rows in a step, without guesses; the engine's own binds too
  double input_weight = 1, output_weight = 2;           ///< service of a prompt token, and of a new token
  Clock::duration patience = std::chrono::seconds(30);  ///< within an adapter, longer waits go before priorities
  detail::FairCounters counters = {};                   ///< state, not a parameter

  void plan(const QueueState& state, PlanWriter& out) {
    const auto first = [&](const Candidate& a, const Candidate& b) { return before(a, b, state.now); };
    counters.look(state, input_weight, first);
    int batch = static_cast<int>(state.running.size());
    const auto next = [&] {
      const int beyond = batch - std::max(max_batch, 1);
      const Candidate* const c = counters.poorest();
      if (beyond < 0 || !c) return c;
      return beyond < guests / 2 && c->ordinal == 0 ? c : counters.poorest(/*idle_only=*/true);
    };
    const auto admitted = [&](const Candidate& c) {
      ++batch;
      const auto alike = [&](const Candidate& other) { return other.client == c.client && other.adapter == c.adapter; };
      counters.admit(c, input_weight * c.pending, detail::first_after(&c, state.waiting, first, alike));
    };
    // A long prompt that is being read leaves half of the step to a client that runs nothing.
    const int reserve =
        guests > 0 && counters.poorest(/*idle_only=*/true) ? std::min(token_budget, out.budget_left()) / 2 : 0;
    detail::run_continuously(state, out, std::max(max_batch, 1) + guests, token_budget, next, admitted, reserve);
  }

  /// The sequence admitted last among those whose client and adapter were served most. The sequence that was admitted
  /// first is exempt.
  SeqId victim(const QueueState& state) const {
    const Candidate* chosen = &state.running.back();
    for (const Candidate& c : state.running.subspan(1)) {
      if (counters.counter(c.client, c.adapter) >= counters.counter(chosen->client, chosen->adapter)) chosen = &c;
    }
    return chosen->seq;
  }

  void served(std::span<const Served> step) { counters.serve(step, input_weight, output_weight); }

 private:
  // Order within one adapter of one client.
  bool before(const Candidate& a, const Candidate& b, TimePoint now) const {
    const bool late = detail::overdue(a, now, patience);
    if (late != detail::overdue(b, now, patience)) return late;
    if (!late && a.priority != b.priority) return a.priority > b.priority;
    if (!late && a.ordinal != b.ordinal)
      return a.ordinal < b.ordinal;  // one request of many prompts does not starve others
    return &a < &b;                  // of one span, which is in order of arrival
  }
};
static_assert(SchedulerPolicy<FairPolicy> && ChoosesVictim<FairPolicy> && KeepsAccounts<FairPolicy>);

}  // namespace tenon
