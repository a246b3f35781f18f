// What the schedulers share: sequences that run already go first, newcomers join only where they fit whole, and who has
// waited too long goes before everybody.
#pragma once
#include <algorithm>
#include <limits>
#include <span>

#include "tenon/core/plan.h"

namespace tenon::detail {

// Decodes first, so that a text being written never waits for somebody else's prompt; then what is left of prompts,
// which leave `reserve` of the step's rows. Returns what is left of the budget.
int take_running(const QueueState& state, PlanWriter& out, int budget = std::numeric_limits<int>::max(),
                 int reserve = 0);

// Cache tokens that newcomers may count on: what is free, less what those that run are about to take. Who does not fit
// whole would be preempted before its first token, and have computed for nothing. Ask before anybody is taken: the
// state does not see what this step has reserved.
int room_for_newcomers(const QueueState& state, const PlanWriter& out);

// Whoever has waited so long goes first, in order of arrival: no rule of order may starve anybody.
inline bool overdue(const Candidate& c, TimePoint now, Clock::duration patience) { return now - c.arrival >= patience; }

// Of the waiting sequences that `eligible` accepts, the first in line behind `last` (null: of all); null if there is
// none. `before` is a total order. A scan per admission, because a policy allocates nothing to sort in.
template <class Before, class Eligible>
const Candidate* behind(const Candidate* last, std::span<const Candidate> waiting, Before&& before,
                        Eligible&& eligible) {
  const Candidate* first = nullptr;
  for (const Candidate& c : waiting) {
    if (eligible(c) && (!last || before(*last, c)) && (!first || before(c, *first))) first = &c;
  }
  return first;
}

// Continuous batching: those that run go on, and newcomers join while rows, seats and room are left. `next()` is who is
// next (null: nobody), `admitted(c)` is told that c runs. Nobody overtakes who does not fit: a large request would wait
// for ever.
// `reserve`: rows that running prompts leave to newcomers.
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
