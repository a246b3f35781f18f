#pragma once
#include <limits>

#include "tenon/core/require.h"
#include "tenon/schedule/token_counters.h"

namespace tenon::detail {

TENON_INLINE void TokenCounters::begin_look() {
  tenants_.clear();
  admitted_any_ = false;
}

TENON_INLINE void TokenCounters::add_running(int id, double charge) {
  Tenant& t = tenant(id);
  t.runs = true;
  t.charge += charge;
}

TENON_INLINE void TokenCounters::end_look() {
  constexpr double kNobody = std::numeric_limits<double>::infinity();
  double floor = kNobody;
  for (const Tenant& t : tenants_) {
    if (t.next && waited(t.id)) floor = std::min(floor, t.level());
  }
  if (floor == kNobody) floor = floor_;
  for (Tenant& t : tenants_) {
    if (t.next && !waited(t.id)) t.counter += std::max(0.0, floor - t.level());
  }
}

TENON_INLINE const TokenCounters::Tenant* TokenCounters::poorest(bool idle_only) const {
  const Tenant* chosen = nullptr;
  for (const Tenant& t : tenants_) {
    if (!t.next || (idle_only && t.runs)) continue;
    const bool less = chosen && (t.level() != chosen->level() ? t.level() < chosen->level() : t.next < chosen->next);
    if (!chosen || less) chosen = &t;
  }
  return chosen;
}

TENON_INLINE void TokenCounters::admit(int id, double charge, const Candidate* next) {
  Tenant& t = tenant(id);
  t.runs = true;
  t.charge += charge;
  t.next = next;
  admitted_ = id;
  admitted_any_ = true;
}

TENON_INLINE void TokenCounters::begin_serve() {
  if (!tenants_.empty()) take_over();
}

TENON_INLINE void TokenCounters::end_serve() {
  double least = std::numeric_limits<double>::infinity();
  for (const Account& a : accounts_) least = a.waits ? std::min(least, a.counter) : least;
  if (least == std::numeric_limits<double>::infinity()) least = counter(last_);
  floor_ = std::max(floor_, least);
  const auto idle = [&](const Account& a) { return !a.active && a.id != last_; };
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

TENON_INLINE bool TokenCounters::waited(int id) const {
  const auto at = place_of(accounts_, id);
  return at != accounts_.end() && at->id == id && at->waits;
}

TENON_INLINE void TokenCounters::take_over() {
  for (Account& a : accounts_) a.waits = a.active = false;
  for (const Tenant& t : tenants_) {
    account(t.id) = {.id = t.id, .counter = t.counter, .waits = t.next != nullptr, .active = true};
  }
  if (admitted_any_) last_ = admitted_;
  tenants_.clear();
}

TENON_INLINE const Candidate* FairCounters::poorest(bool idle_only) {
  const TokenCounters::Tenant* chosen = clients_.poorest(idle_only);
  return chosen ? client(chosen->id).adapters.poorest()->next : nullptr;
}

TENON_INLINE void FairCounters::admit(const Candidate& c, double charge, const Candidate* next) {
  TokenCounters& adapters = client(c.client).adapters;
  adapters.admit(c.adapter, charge, next);
  const TokenCounters::Tenant* waiting = adapters.poorest();
  clients_.admit(c.client, charge, waiting ? waiting->next : nullptr);
}

TENON_INLINE void FairCounters::serve(std::span<const Served> step, double input_weight, double output_weight) {
  std::erase_if(active_, [](const Client& c) { return !c.seen; });
  clients_.begin_serve();
  for (Client& client : active_) client.adapters.begin_serve();
  for (const Served& s : step) {
    const double service = input_weight * s.prompt_tokens + output_weight * s.new_tokens;
    clients_.add_service(s.client, service);
    client(s.client).adapters.add_service(s.adapter, service);
  }
  clients_.end_serve();
  for (Client& client : active_) client.adapters.end_serve();
}

TENON_INLINE const TokenCounters* FairCounters::adapters_of(int client) const {
  const auto at = place_of(active_, client);
  return at != active_.end() && at->id == client ? &at->adapters : nullptr;
}

TENON_INLINE FairCounters::Client& FairCounters::client(int id) {
  Client& found = row_of(active_, id, {.id = id});
  found.seen = true;
  return found;
}

}  // namespace tenon::detail
