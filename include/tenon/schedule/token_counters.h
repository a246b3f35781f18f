// Virtual token counters (VTC; Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024): the service that
// each tenant has received, and the tenant that is next. A tenant is a client, or an adapter of one client.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "tenon/core/plan.h"

namespace tenon::detail {

// Position of `id`, or where it would be inserted, in rows sorted by id.
template <class Rows>
auto place_of(Rows& rows, int id) {
  return std::lower_bound(rows.begin(), rows.end(), id, [](const auto& row, int other) { return row.id < other; });
}

// The row of `id`; created from `fresh` where there is none.
template <class Row>
Row& row_of(std::vector<Row>& rows, int id, Row fresh) {
  const auto at = place_of(rows, id);
  return at != rows.end() && at->id == id ? *at : *rows.insert(at, std::move(fresh));
}

// Service received by each tenant.
class TokenCounters {
 public:
  // A tenant that has sequences in the plan in hand.
  struct Tenant {
    int id = -1;
    double counter = 0;               // service received
    double charge = 0;                // service admitted and not received yet: prompt tokens still to be read
    const Candidate* next = nullptr;  // first in line of its waiting sequences that this plan has not admitted
    bool runs = false;                // has running sequences, or this plan admits one
    double level() const { return counter + charge; }
  };

  // A look at a state: begin_look(), add_*() for each sequence, end_look(). Accounts stay as they are until serve(),
  // because a plan may be asked for again.
  void begin_look();
  void add_running(int id, double charge);
  // `before` orders the sequences of one tenant.
  template <class Before>
  void add_waiting(int id, const Candidate& c, Before&& before) {
    Tenant& t = tenant(id);
    if (!t.next || before(c, *t.next)) t.next = &c;
  }
  // Lifts tenants that had nothing waiting after the last step to the lowest level of those that had: idleness earns no
  // credit. If none had, the last tenant that waited is the measure.
  void end_look();

  // The waiting tenant that was served least; among equals the one whose sequence came first. Null: none waits.
  // idle_only: only tenants without running sequences.
  const Tenant* poorest(bool idle_only = false) const;

  // This plan admits a sequence of `id`; `next` is the tenant's new first in line.
  void admit(int id, double charge, const Candidate* next);

  // Books a step: begin_serve(), add_service() for each sequence, end_serve().
  void begin_serve();
  void add_service(int id, double service) { account(id).counter += service; }
  // Drops idle accounts at or below the floor: a new account would start there. The floor is the lowest counter of the
  // waiting tenants. It never falls: these are served first, and a tenant that joins them is lifted to it.
  void end_serve();

  // Service received; for a tenant without an account the floor, an upper bound of it.
  double counter(int id) const {
    const auto at = place_of(accounts_, id);
    return at != accounts_.end() && at->id == id ? at->counter : floor_;
  }

  std::size_t remembered() const { return accounts_.size(); }

 private:
  struct Account {
    int id = -1;
    double counter = 0;
    bool waits = false;   // had sequences waiting after the last step
    bool active = false;  // had sequences waiting or running
  };

  // Idle tenants that are ahead of the others are remembered up to this number. Beyond it the less indebted half is
  // dropped.
  static constexpr std::size_t kRemembered = 1024;

  Tenant& tenant(int id) { return row_of(tenants_, id, {.id = id, .counter = counter(id)}); }
  Account& account(int id) { return row_of(accounts_, id, {.id = id, .counter = floor_}); }
  bool waited(int id) const;

  // The last look becomes the state of the accounts.
  void take_over();

  std::vector<Account> accounts_;  // by id
  std::vector<Tenant> tenants_;    // of the plan in hand, by id: kept so that a step allocates nothing
  double floor_ = 0;               // lowest counter of waiting tenants, or of the last one that waited
  int last_ = -1;                  // tenant admitted last: when none waits, it was the last one that did
  int admitted_ = -1;              // the same, of the plan in hand
  bool admitted_any_ = false;
};

// Two levels: clients, and the adapters of each client that has sequences now.
class FairCounters {
 public:
  template <class Before>
  void look(const QueueState& state, double input_weight, Before&& before) {
    clients_.begin_look();
    for (Client& client : active_) {
      client.adapters.begin_look();
      client.seen = false;
    }
    for (const Candidate& c : state.running) {
      // After a preemption this charges again what was paid for already, until it has been read again.
      const double charge = c.pending > 1 ? input_weight * c.pending : 0;
      clients_.add_running(c.client, charge);
      client(c.client).adapters.add_running(c.adapter, charge);
    }
    for (const Candidate& c : state.waiting) {
      clients_.add_waiting(c.client, c, before);
      client(c.client).adapters.add_waiting(c.adapter, c, before);
    }
    clients_.end_look();
    for (Client& client : active_) client.adapters.end_look();
  }

  // First in line of the poorest adapter of the poorest client. Null: none waits. idle_only: of clients that run
  // nothing.
  const Candidate* poorest(bool idle_only = false);

  // `next`: first in line of the waiting sequences of c's client and adapter, after c.
  void admit(const Candidate& c, double charge, const Candidate* next);

  void serve(std::span<const Served> step, double input_weight, double output_weight);

  // Service of a client, then of its adapter: larger was served more.
  std::pair<double, double> counter(int client, int adapter) const {
    const TokenCounters* adapters = adapters_of(client);
    return {clients_.counter(client), adapters ? adapters->counter(adapter) : 0};
  }

  const TokenCounters& clients() const { return clients_; }
  // Null where the client has nothing waiting or running.
  const TokenCounters* adapters_of(int client) const;

 private:
  struct Client {
    int id = 0;
    TokenCounters adapters = {};
    bool seen = false;  // by the last look
  };

  Client& client(int id);

  TokenCounters clients_;
  std::vector<Client> active_;  // by id
};

}  // namespace tenon::detail

#ifndef TENON_COMPILED
#include "tenon/schedule/token_counters-inl.h"
#endif
