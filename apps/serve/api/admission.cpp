#include "serve/api/admission.h"

#include <algorithm>
#include <cmath>

namespace serve {

namespace {
using Seconds = std::chrono::duration<double>;
}

std::optional<Admission::Ticket> Admission::enter(int client, const Share& share) {
  std::lock_guard lock(mutex_);
  const auto use = clients_.find(client);
  const bool guest = use == clients_.end();
  if (!guest && share.requests > 0 && use->second.requests >= share.requests) return std::nullopt;
  if (all_.requests >= limits_.requests + (guest ? limits_.guests : 0)) return std::nullopt;
  const bool hoards = !guest && clients_.size() > 1 && use->second.requests >= (limits_.requests + 1) / 2;
  if (hoards && limits_.requests - all_.requests <= limits_.requests / 4) return std::nullopt;
  std::list<tenon::TimePoint> begin{now_()};
  Use& own = clients_[client];  // last of what may throw: no count is raised before
  ++own.requests;
  ++all_.requests;
  begins_.splice(begins_.end(), begin);
  begins_sum_ += begins_.back() - epoch_;
  return Ticket(*this, client, share, std::prev(begins_.end()));
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

// With N requests under way that take D seconds each, a place becomes free every D / N seconds, the first when the
// oldest request has run for D. A request is on average half done, so D is at least twice the mean age: this covers
// requests that are longer than those before them. If none has ended since the oldest began, nothing is known about
// this load: then D is at least four times the mean age, and the wait at least 2 s, so that a client with two retries
// waits long enough in the second. Refused clients get the places in turn, and the first place after the last one: the
// work under way frees no more than N. So one client that asks again and again cannot delay others by more than D.
int Admission::retry_after() {
  constexpr double kLongest = 60;
  std::lock_guard lock(mutex_);
  if (begins_.empty()) return 1;
  const tenon::TimePoint now = now_();
  const auto count = static_cast<double>(begins_.size());
  const Seconds mean_age = Seconds(now - epoch_) - begins_sum_ / count;
  const bool is_current = last_end_ >= begins_.front();
  const Seconds duration = std::max(duration_, (is_current ? 2 : 4) * mean_age);
  const Seconds first = std::max(Seconds(is_current ? 0 : 2), duration - Seconds(now - begins_.front()));
  const Seconds last = std::min(first + (count - 0.5) * duration / count, Seconds(kLongest));
  Seconds next = Seconds(promised_ - now) + duration / count;  // after the place of the latest refused client
  if (next > last) next = first;
  const Seconds wait = std::min(std::max(first, next), Seconds(kLongest));
  promised_ = now + std::chrono::duration_cast<tenon::Clock::duration>(wait);
  return static_cast<int>(std::clamp(std::ceil(wait.count()), 1.0, kLongest));
}

void Admission::leave(int client, const Work& work, std::list<tenon::TimePoint>::iterator begin) noexcept {
  constexpr double kWeight = 0.1;  // of the latest duration
  std::lock_guard lock(mutex_);
  last_end_ = now_();
  const Seconds took = last_end_ - *begin;
  duration_ = is_measured_ ? (1 - kWeight) * duration_ + kWeight * took : took;
  is_measured_ = true;
  begins_sum_ -= *begin - epoch_;
  begins_.erase(begin);
  if (begins_.empty()) begins_sum_ = Seconds(0);  // without the errors of rounding
  const auto use = clients_.find(client);
  for (Use* each : {&use->second, &all_}) {
    --each->requests;
    each->work.sequences -= work.sequences;
    each->work.tokens -= work.tokens;
  }
  if (use->second.requests == 0) clients_.erase(use);
}

}  // namespace serve
