#include "serve/api/admission.h"

namespace serve {

std::optional<Admission::Ticket> Admission::enter(int client) {
  std::lock_guard lock(mutex_);
  const auto share = clients_.find(client);
  const bool guest = share == clients_.end();
  if (all_.requests >= limits_.requests + (guest ? limits_.guests : 0)) return std::nullopt;
  const bool hoards = !guest && clients_.size() > 1 && share->second.requests >= (limits_.requests + 1) / 2;
  if (hoards && limits_.requests - all_.requests <= limits_.requests / 4) return std::nullopt;
  ++clients_[client].requests;
  ++all_.requests;
  return Ticket(*this, client);
}

int Admission::requests() const {
  std::lock_guard lock(mutex_);
  return all_.requests;
}

Work Admission::work() const {
  std::lock_guard lock(mutex_);
  return all_.work;
}

bool Admission::add(int client, const Work& work) {
  std::lock_guard lock(mutex_);
  Share& share = clients_.at(client);
  const bool fits =
      work.sequences <= limits_.sequences - all_.work.sequences && work.tokens <= limits_.tokens - all_.work.tokens;
  if (!fits && share.work.sequences > 0) return false;
  for (Share* each : {&share, &all_}) {
    each->work.sequences += work.sequences;
    each->work.tokens += work.tokens;
  }
  return true;
}

void Admission::leave(int client, const Work& work) noexcept {
  std::lock_guard lock(mutex_);
  const auto share = clients_.find(client);
  for (Share* each : {&share->second, &all_}) {
    --each->requests;
    each->work.sequences -= work.sequences;
    each->work.tokens -= work.tokens;
  }
  if (share->second.requests == 0) clients_.erase(share);
}

}  // namespace serve
