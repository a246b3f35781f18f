// Rules that schedulers share: running sequences go first, a newcomer joins only if the cache has space for all its
// pending tokens, and a sequence that has waited too long goes before all others.
#pragma once
#include <algorithm>
#include <limits>
#include <span>

#include "tenon/core/plan.h"

namespace tenon::detail {

// Takes decodes first, so that they never wait for the prompt of another request; then the rest of running prompts,
// which leave `reserve` of the step's rows. Returns the rest of the budget.
int take_running(const QueueState& state, PlanWriter& out, int budget = std::numeric_limits<int>::max(),
                 int reserve = 0);

// Cache tokens for newcomers: the free tokens less the needs of running sequences. A newcomer that needs more would be
// preempted before its first token, and its work lost. Call it before any take(), because the state does not show the
// tokens that this step has reserved.
int room_for_newcomers(const QueueState& state, const PlanWriter& out);

// Whether a sequence has waited for `patience`. Overdue sequences go first, in order of arrival, so that none starves.
inline bool overdue(const Candidate& c, TimePoint now, Clock::duration patience) { return now - c.arrival >= patience; }

// The first sequence after `last` in the total order `before`, among the waiting sequences that `eligible` accepts.
// last = null: the first of all. Returns null if there is none. Each call scans all waiting sequences, because sorting
// them would need memory that a policy does not allocate.
template <class Before, class Eligible>
const Candidate* first_after(const Candidate* last, std::span<const Candidate> waiting, Before&& before,
                             Eligible&& eligible) {
  const Candidate* first = nullptr;
  for (const Candidate& c : waiting) {
    if (eligible(c) && (!last || before(*last, c)) && (!first || before(c, *first))) first = &c;
  }
  return first;
}

// Continuous batching: running sequences go on, and newcomers join while rows, seats and cache are left. next(): the
// next newcomer (null: none). admitted(c) is called when c runs. No newcomer overtakes one that does not fit, or a
// large request would wait for ever. reserve: rows that running prompts leave to newcomers.
template <class Next, class Admitted>
void run_continuously(const QueueState& state, PlanWriter& out, int max_batch, int token_budget, Next&& next,
                      Admitted&& admitted, int reserve = 0) {
  int room = room_for_newcomers(state, out);
  int budget = take_running(state, out, std::max(token_budget, 1), reserve);
  for (int batch = static_cast<int>(state.running.size()); budget > 0 && batch < std::max(max_batch, 1); ++batch) {
    const Candidate* c = next();
    if (!c) return;
    const int needed = out.need(c->seq);
    if (batch > 0 && needed > room) return;
    const int taken = out.take(c->seq, std::min(c->pending, budget));
    if (taken == 0) return;
    budget -= taken;
    room -= needed;
    admitted(*c);
  }
}

}  // namespace tenon::detail

#ifndef TENON_COMPILED
#include "tenon/schedule/running-inl.h"
#endif
