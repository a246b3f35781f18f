// Fairness between adapters: continuous batching with a virtual token counter for each (VTC; Sheng et al., "Fairness in
// Serving Large Language Models", OSDI 2024). Whose adapter was served least is admitted next.
//
// The bound, theirs for backlogged clients: of two adapters that have requests waiting all through an interval, neither
// is served more than 2 U ahead of the other in it, with
//     U = max(input_weight x longest prompt, output_weight x most tokens that the requests running at once come to).
// It holds for service as admitted. A prompt that does not fit a step's token budget is admitted whole and read in
// chunks, one such prompt at a time: service as computed is at most twice the longest prompt further apart.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/schedule/running.h"

namespace tenon {

namespace detail {

// Where an adapter stands, or would stand, in rows sorted by adapter.
template <class Rows>
auto place_of(Rows& rows, int adapter) {
  return std::lower_bound(rows.begin(), rows.end(), adapter, [](const auto& row, int id) { return row.adapter < id; });
}

// What each adapter has been served. Requests without an adapter (-1) are one tenant like any other.
class TokenCounters {
 public:
  // An adapter that has something to do in the step that is being planned.
  struct Tenant {
    int adapter = -1;
    double counter = 0;               // service received
    double charge = 0;                // service on its way: of prompts that were admitted, what is not read yet
    const Candidate* next = nullptr;  // of its requests that wait and are not admitted by this plan, the first in line
    double level() const { return counter + charge; }
  };

  // Finds out who wants what. Whoever had nothing waiting after the last step is lifted to the least of those who had,
  // so that idleness earns no credit; if nobody had, to the one who was last to have. The accounts stay as they are,
  // for a plan may be asked for again. `before` orders the requests of one adapter.
  template <class Before>
  void look(const QueueState& state, double input_weight, Before&& before) {
    tenants_.clear();
    admitted_any_ = false;
    for (const Candidate& c : state.running) {
      // After a preemption this counts again what was paid for already; it is gone when that has been read again.
      tenant(c.adapter).charge += c.pending > 1 ? input_weight * c.pending : 0;
    }
    for (const Candidate& c : state.waiting) {
      Tenant& t = tenant(c.adapter);
      if (!t.next || before(c, *t.next)) t.next = &c;
    }
    constexpr double kNobody = std::numeric_limits<double>::infinity();
    double floor = kNobody;
    for (const Tenant& t : tenants_) {
      if (t.next && waited(t.adapter)) floor = std::min(floor, t.level());
    }
    if (floor == kNobody) floor = floor_;
    for (Tenant& t : tenants_) {
      if (t.next && !waited(t.adapter)) t.counter += std::max(0.0, floor - t.level());
    }
  }

  // The first in line of the adapter that was served least; among equals the one that came first. Null: nobody waits.
  const Candidate* poorest() const {
    const Tenant* chosen = nullptr;
    for (const Tenant& t : tenants_) {
      if (!t.next) continue;
      const bool less = chosen && (t.level() != chosen->level() ? t.level() < chosen->level() : t.next < chosen->next);
      if (!chosen || less) chosen = &t;
    }
    return chosen ? chosen->next : nullptr;
  }

  template <class Before>
  void admit(const Candidate& c, std::span<const Candidate> waiting, double input_weight, Before&& before) {
    Tenant& t = tenant(c.adapter);
    t.charge += input_weight * c.pending;
    t.next = behind(&c, waiting, before, [&](const Candidate& other) { return other.adapter == c.adapter; });
    admitted_ = c.adapter;
    admitted_any_ = true;
  }

  // Books a step.
  void serve(std::span<const Served> step, double input_weight, double output_weight) {
    if (!tenants_.empty()) take_over();
    for (const Served& s : step) {
      account(s.adapter).counter += input_weight * s.prompt_tokens + output_weight * s.new_tokens;
    }
    forget();
  }

  // Of an adapter that is not remembered it is known that it had no more than this.
  double counter(int adapter) const {
    const auto at = place_of(accounts_, adapter);
    return at != accounts_.end() && at->adapter == adapter ? at->counter : floor_;
  }

  std::size_t remembered() const { return accounts_.size(); }

 private:
  struct Account {
    int adapter = -1;
    double counter = 0;
    bool waits = false;   // had requests waiting after the last step
    bool active = false;  // or running
  };

  // So many idle adapters are remembered for being ahead of the others; of more, the half that is least so is forgiven.
  static constexpr std::size_t kRemembered = 1024;

  Tenant& tenant(int adapter) {
    const auto at = place_of(tenants_, adapter);
    if (at != tenants_.end() && at->adapter == adapter) return *at;
    return *tenants_.insert(at, {.adapter = adapter, .counter = counter(adapter)});
  }
  Account& account(int adapter) {
    const auto at = place_of(accounts_, adapter);
    if (at != accounts_.end() && at->adapter == adapter) return *at;
    return *accounts_.insert(at, {.adapter = adapter, .counter = floor_});
  }
  bool waited(int adapter) const {
    const auto at = place_of(accounts_, adapter);
    return at != accounts_.end() && at->adapter == adapter && at->waits;
  }

  // What the last look saw becomes the state of the accounts.
  void take_over() {
    for (Account& a : accounts_) a.waits = a.active = false;
    for (const Tenant& t : tenants_) {
      Account& a = account(t.adapter);
      a = {.adapter = t.adapter, .counter = t.counter, .waits = t.next != nullptr, .active = true};
    }
    if (admitted_any_) last_ = admitted_;
    tenants_.clear();
  }

  // Whoever is idle, and has no more than everybody who comes is lifted to, is as good as unknown. The floor never
  // falls: it is the least counter of those that wait, who are served first, and whoever joins them is lifted to it.
  void forget() {
    double least = std::numeric_limits<double>::infinity();
    for (const Account& a : accounts_) least = a.waits ? std::min(least, a.counter) : least;
    if (least == std::numeric_limits<double>::infinity()) least = counter(last_);
    floor_ = std::max(floor_, least);
    const auto idle = [&](const Account& a) { return !a.active && a.adapter != last_; };
    std::erase_if(accounts_, [&](const Account& a) { return idle(a) && a.counter <= floor_; });
    const auto count = static_cast<std::size_t>(std::count_if(accounts_.begin(), accounts_.end(), idle));
    if (count <= kRemembered) return;
    std::vector<double> counters;
    for (const Account& a : accounts_) {
      if (idle(a)) counters.push_back(a.counter);
    }
    const auto middle = counters.begin() + static_cast<std::ptrdiff_t>(count / 2);
    std::nth_element(counters.begin(), middle, counters.end());
    std::erase_if(accounts_, [&](const Account& a) { return idle(a) && a.counter <= *middle; });
  }

  std::vector<Account> accounts_;  // by adapter
  std::vector<Tenant> tenants_;    // of the plan in hand, by adapter: kept so that a step allocates nothing
  double floor_ = 0;               // the least of those that wait, or of the last who did; the forgotten had no more
  int last_ = -1;                  // the adapter admitted last: when nobody waits, it was the last who did
  int admitted_ = -1;              // the same, of the plan in hand
  bool admitted_any_ = false;
};

}  // namespace detail

struct FairPolicy {
  int max_batch = 32;                                   // sequences at once
  int token_budget = std::numeric_limits<int>::max();   // rows in a step; the engine's own budget binds too
  double input_weight = 1, output_weight = 2;           // service that a token of a prompt, and a new one, count for
  Clock::duration patience = std::chrono::seconds(30);  // within an adapter, who waited so long goes before priorities
  detail::TokenCounters counters = {};                  // not a parameter

  void plan(const QueueState& state, PlanWriter& out) {
    const auto first = [&](const Candidate& a, const Candidate& b) { return before(a, b, state.now); };
    counters.look(state, input_weight, first);
    const auto admitted = [&](const Candidate& c) { counters.admit(c, state.waiting, input_weight, first); };
    const auto next = [&] { return counters.poorest(); };
    detail::run_continuously(state, out, max_batch, token_budget, next, admitted);
  }

  // From the adapter that was served most, the one admitted last. The oldest is nobody's victim.
  SeqId victim(const QueueState& state) const {
    const Candidate* chosen = &state.running.back();
    for (const Candidate& c : state.running.subspan(1)) {
      if (counters.counter(c.adapter) >= counters.counter(chosen->adapter)) chosen = &c;
    }
    return chosen->seq;
  }

  void served(std::span<const Served> step) { counters.serve(step, input_weight, output_weight); }

 private:
  // Of one adapter.
  bool before(const Candidate& a, const Candidate& b, TimePoint now) const {
    const bool late = detail::overdue(a, now, patience);
    if (late != detail::overdue(b, now, patience)) return late;
    if (!late && a.priority != b.priority) return a.priority > b.priority;
    return &a < &b;  // of one span, which is in order of arrival
  }
};
static_assert(SchedulerPolicy<FairPolicy> && ChoosesVictim<FairPolicy> && KeepsAccounts<FairPolicy>);

}  // namespace tenon
