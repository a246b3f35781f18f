#pragma once
#include <algorithm>

#include "tenon/adapter/admission_queue.h"
#include "tenon/core/require.h"

namespace tenon {

TENON_INLINE AdmissionQueue::Waiter::~Waiter() {
  std::lock_guard lock(queue_.mutex_);
  if (!joined_) return;
  if (queue_.waiters_.front() == this) queue_.yielding_.clear();
  std::erase(queue_.waiters_, this);
  queue_.notify();
}

TENON_INLINE bool AdmissionQueue::Waiter::is_first() const {
  std::lock_guard lock(queue_.mutex_);
  return queue_.waiters_.empty() || queue_.waiters_.front() == this;
}

TENON_INLINE bool AdmissionQueue::Waiter::may_use(const std::string& name) const {
  std::lock_guard lock(queue_.mutex_);
  return !may_wait_ || queue_.yielding_.empty() || queue_.yielding_ != name || queue_.waiters_.front() == this;
}

TENON_INLINE void AdmissionQueue::Waiter::request_yield(const std::string& name) {
  std::lock_guard lock(queue_.mutex_);
  if (joined_ && queue_.waiters_.front() == this) queue_.yielding_ = name;
}

TENON_INLINE void AdmissionQueue::Waiter::join() {
  std::lock_guard lock(queue_.mutex_);
  if (!may_wait_ || joined_) return;
  queue_.waiters_.push_back(this);
  joined_ = true;
}

TENON_INLINE bool AdmissionQueue::Waiter::wait(std::uint64_t seen) {
  std::unique_lock lock(queue_.mutex_);
  const auto ready = [&] { return queue_.changes_ != seen; };
  if (!joined_) return false;
  for (;;) {
    const TimePoint look = Clock::now() + kPollInterval;
    if (queue_.changed_.wait_until(lock, std::min(patience_.until, look), ready)) return true;
    if (patience_.until <= look) return false;
    lock.unlock();
    if (patience_.wanted && !patience_.wanted()) return false;
    lock.lock();
  }
}

TENON_INLINE std::uint64_t AdmissionQueue::change_count() const {
  std::lock_guard lock(mutex_);
  return changes_;
}

TENON_INLINE void AdmissionQueue::notify_changed() {
  std::lock_guard lock(mutex_);
  notify();
}

TENON_INLINE int AdmissionQueue::waiting() const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(waiters_.size());
}

TENON_INLINE void AdmissionQueue::notify() {
  ++changes_;
  if (!waiters_.empty()) changed_.notify_all();
}

TENON_INLINE NotifyingHold::~NotifyingHold() {
  held_.reset();
  queue_->notify_changed();
}

}  // namespace tenon
