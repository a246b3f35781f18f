#include "serve/api/admission.h"

namespace serve {

std::optional<Admission::Ticket> Admission::enter(int client, const Share& share) {
  std::lock_guard lock(mutex_);
  const auto use = clients_.find(client);
  const bool guest = use == clients_.end();
  if (!guest && share.requests > 0 && use->second.requests >= share.requests) return std::nullopt;
  if (all_.requests >= limits_.requests + (guest ? limits_.guests : 0)) return std::nullopt;
  const bool hoards = !guest && clients_.size() > 1 && use->second.requests >= (limits_.requests + 1) / 2;
  if (hoards && limits_.requests - all_.requests <= limits_.requests / 4) return std::nullopt;
  ++clients_[client].requests;
  ++all_.requests;
  return Ticket(*this, client, share);
}

int Admission::requests() const {
  std::lock_guard lock(mutex_);
  return all_.requests;
}

Work Admission::work() const {
  std::lock_guard lock(mutex_);
  return all_.work;
}

bool Admission::add(int client, const Share& share, const Work& work) {
  std::lock_guard lock(mutex_);
  Use& use = clients_.at(client);
  const bool first = use.work.sequences == 0;
  const bool fits =
      work.sequences <= limits_.sequences - all_.work.sequences && work.tokens <= limits_.tokens - all_.work.tokens;
  const bool within_share = share.tokens == 0 || work.tokens <= share.tokens - use.work.tokens;
  if (!first && !(fits && within_share)) return false;
  for (Use* each : {&use, &all_}) {
    each->work.sequences += work.sequences;
    each->work.tokens += work.tokens;
  }
  return true;
}

void Admission::leave(int client, const Work& work) noexcept {
  std::lock_guard lock(mutex_);
  const auto use = clients_.find(client);
  for (Use* each : {&use->second, &all_}) {
    --each->requests;
    each->work.sequences -= work.sequences;
    each->work.tokens -= work.tokens;
  }
  if (use->second.requests == 0) clients_.erase(use);
}

}  // namespace serve
