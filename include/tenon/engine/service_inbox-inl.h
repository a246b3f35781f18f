#pragma once
#include <unistd.h>

#include <cstddef>
#include <utility>

#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/engine/service_inbox.h"

namespace tenon::detail {

TENON_INLINE ServiceInbox::ServiceInbox(const ServiceOptions& options)
    : options_(checked(options)), process_(::getpid()) {}

TENON_INLINE void ServiceInbox::admit() {
  std::lock_guard lock(mutex_);
  check_room();
}

TENON_INLINE RequestId ServiceInbox::next_id() {
  std::lock_guard lock(mutex_);
  return next_id_++;
}

TENON_INLINE void ServiceInbox::accept(AnswerPointer answer) {
  {
    std::lock_guard lock(mutex_);
    check_room();
    const int tokens = answer->settings().prompt_tokens;
    // A prompt that is longer than the limit is served alone: refusing it as overloaded would be forever.
    if (stats_.waiting > 0 && stats_.waiting_tokens + tokens > options_.max_waiting_tokens) {
      refuse("max_waiting_tokens", std::to_string(stats_.waiting_tokens) + " prompt tokens wait already; " +
                                       std::to_string(tokens) + " more would exceed " +
                                       std::to_string(options_.max_waiting_tokens));
    }
    requests_.push_back(std::move(answer));
    ++stats_.accepted;
    ++stats_.open;
    ++stats_.waiting;
    stats_.waiting_tokens += tokens;
    rung_ = true;
  }
  bell_.notify_one();
}

TENON_INLINE void ServiceInbox::count_refusal(Error::Kind kind) {
  std::lock_guard lock(mutex_);
  ++(kind == Error::Kind::overloaded ? stats_.refused : stats_.invalid);
}

TENON_INLINE void ServiceInbox::post(const AnswerPointer& answer) noexcept {
  {
    std::lock_guard lock(mutex_);
    if (stats_.stopped || answer->posted) return;
    answer->posted = true;
    answer->next_posted = std::exchange(posted_, answer);
    rung_ = true;
  }
  bell_.notify_one();
}

TENON_INLINE void ServiceInbox::run(std::function<void()> job) {
  std::packaged_task<void()> task(std::move(job));
  std::future<void> ran = task.get_future();
  {
    std::lock_guard lock(mutex_);
    if (!stats_.stopped) jobs_.push_back(std::move(task));
    rung_ = true;
  }
  bell_.notify_one();
  task = {};  // if it is still here, its future fails
  try {
    ran.get();
  } catch (const std::future_error&) {
    throw Error(Error::Kind::overloaded, "service", "has stopped");
  }
}

TENON_INLINE bool ServiceInbox::wait_stopped(TimePoint until) {
  std::unique_lock lock(mutex_);
  const auto ended = [&] { return stats_.stopped; };
  if (until != TimePoint::max()) return stopped_.wait_until(lock, until, ended);
  stopped_.wait(lock, ended);
  return true;
}

TENON_INLINE ServiceStats ServiceInbox::stats() const {
  std::lock_guard lock(mutex_);
  ServiceStats now = stats_;
  if (work_began_) now.in_step = Clock::now() - *work_began_;
  return now;
}

TENON_INLINE bool ServiceInbox::in_child() const { return ::getpid() != process_; }

TENON_INLINE void ServiceInbox::refuse_child() const {
  if (!in_child()) return;
  throw Error(Error::Kind::unsupported, "service",
              "belongs to process " + std::to_string(process_) + ", which made it; its thread is not in a child of " +
                  "fork(): make a service in the child");
}

TENON_INLINE void ServiceInbox::begin() { thread_ = std::this_thread::get_id(); }

TENON_INLINE void ServiceInbox::take(Mail& mail) {
  std::lock_guard lock(mutex_);
  mail.requests.swap(requests_);
  mail.posted = std::exchange(posted_, nullptr);
  mail.jobs = std::exchange(jobs_, {});
  mail.draining = stats_.draining;
  mail.stopping = stopping_;
  rung_ = false;
  work_began_ = Clock::now();
}

TENON_INLINE AnswerPointer ServiceInbox::next(AnswerPointer& list) {
  std::lock_guard lock(mutex_);
  AnswerPointer first = std::exchange(list, nullptr);
  if (!first) return first;
  list = std::exchange(first->next_posted, nullptr);
  first->posted = false;
  return first;
}

TENON_INLINE void ServiceInbox::wait(TimePoint until) {
  std::unique_lock lock(mutex_);
  work_began_.reset();
  const auto rung = [&] { return rung_; };
  if (until == TimePoint::max())
    bell_.wait(lock, rung);
  else
    bell_.wait_until(lock, until, rung);
}

TENON_INLINE void ServiceInbox::end() {
  AnswerPointer list;
  std::vector<std::packaged_task<void()>> lost;  // whose callers are told
  {
    std::lock_guard lock(mutex_);
    lost.swap(jobs_);
    stats_.draining = stats_.stopped = true;
    thread_ = std::thread::id();
    work_began_.reset();
    list = std::exchange(posted_, nullptr);
  }
  stopped_.notify_all();
  while (list) next(list);  // one by one: a long list that dies at once would recurse
}

TENON_INLINE const ServiceOptions& ServiceInbox::checked(const ServiceOptions& o) {
  require(o.max_open >= 1, "max_open", "must be 1 or more");
  require(o.max_waiting >= 1, "max_waiting", "must be 1 or more");
  require(o.max_waiting_tokens >= 1, "max_waiting_tokens", "must be 1 or more");
  require(o.buffer >= 1, "buffer", "must be 1 or more");
  require(o.stall_timeout >= Clock::duration::zero(), "stall_timeout", "must be 0 (never) or more");
  return o;
}

TENON_INLINE void ServiceInbox::refuse(const char* limit, const std::string& what) {
  ++stats_.refused;
  throw Error(Error::Kind::overloaded, limit, what);
}

TENON_INLINE void ServiceInbox::check_room() {
  if (stats_.stopped || stopping_) refuse("service", "has stopped");
  if (stats_.draining) refuse("service", "is draining, and takes nothing new");
  if (stats_.open >= options_.max_open) {
    refuse("max_open", std::to_string(stats_.open) + " requests are open already");
  }
  if (stats_.waiting >= options_.max_waiting) {
    refuse("max_waiting", std::to_string(stats_.waiting) + " requests wait already");
  }
}

TENON_INLINE void ServiceInbox::order(bool stop) {
  {
    std::lock_guard lock(mutex_);
    stats_.draining = true;
    stopping_ = stopping_ || stop;
    rung_ = true;
  }
  bell_.notify_one();
}

}  // namespace tenon::detail
