#pragma once
#include <algorithm>
#include <chrono>

#include "tenon/core/require.h"
#include "tenon/engine/answer_buffer.h"

namespace tenon::detail {

TENON_INLINE TimePoint after(Clock::duration time, TimePoint then) {
  return time > TimePoint::max() - then ? TimePoint::max() : then + time;
}

TENON_INLINE bool AnswerBuffer::put(Event event) {
  if (calls_ && event.kind == Event::Kind::token) return false;
  if (failure_ && event.last) event = failure_->event(event.request);
  bool full = false, wakes = false;
  EventCallback spent;
  {
    std::lock_guard lock(mutex_);
    if (event.last) {
      ended_ = true;
      spent = std::exchange(settings_.on_event, nullptr);
    }
    if (dropped_) return false;
    full = !calls_ && !event.last && events_.size() + 1 >= settings_.limit && !std::exchange(held_, true);
    if (full) read_at_ = Clock::now();
    events_.push_back(std::move(event));
    wakes = ended_ || events_.size() >= awaited_;
  }
  if (wakes) changed_.notify_all();
  return full;
}

TENON_INLINE void AnswerBuffer::abort() noexcept {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
}

TENON_INLINE AnswerBuffer::Wishes AnswerBuffer::wishes() {
  std::lock_guard lock(mutex_);
  const bool resumes = held_ && drained();
  if (resumes) held_ = false;
  return {cancelled_, resumes};
}

TENON_INLINE TimePoint AnswerBuffer::read_at() const {
  std::lock_guard lock(mutex_);
  return read_at_;
}

TENON_INLINE AnswerBuffer::Taken AnswerBuffer::take(TimePoint until, std::size_t enough) {
  std::unique_lock lock(mutex_);
  awaited_ = events_.empty() ? std::clamp<std::size_t>(enough, 1, std::max<std::size_t>(1, settings_.limit / 2)) : 1;
  const auto ready = [&] { return events_.size() >= awaited_ || ended_; };
  // A wait for TimePoint::max() overflows in some clocks.
  if (until == TimePoint::max())
    changed_.wait(lock, ready);
  else if (until > TimePoint::min())
    changed_.wait_until(lock, until, ready);
  Taken taken;
  if (!events_.empty()) {
    taken.event = std::move(events_.front());
    events_.pop_front();
    if (held_) read_at_ = Clock::now();
    taken.wakes = held_ && drained();
  }
  taken.ended = events_.empty() && ended_;
  return taken;
}

TENON_INLINE void AnswerBuffer::cancel() {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
}

TENON_INLINE void AnswerBuffer::drop() {
  EventCallback spent;
  std::deque<Event> unread;
  {
    std::unique_lock lock(mutex_);
    cancelled_ = dropped_ = true;
    if (calling_ == std::this_thread::get_id()) return;
    changed_.wait(lock, [&] { return calling_ == std::thread::id(); });
    spent = std::exchange(settings_.on_event, nullptr);
    unread.swap(events_);
  }
}

TENON_INLINE std::optional<Failure> AnswerBuffer::call(const Event& event) {
  if (!calls_ || failure_) return std::nullopt;
  {
    std::lock_guard lock(mutex_);
    if (dropped_ || !settings_.on_event) return std::nullopt;
    calling_ = std::this_thread::get_id();
  }
  failure_ = attempt([&] { settings_.on_event(event); });
  EventCallback spent;
  {
    std::lock_guard lock(mutex_);
    calling_ = std::thread::id();
    if (dropped_ || failure_) spent = std::exchange(settings_.on_event, nullptr);
  }
  changed_.notify_all();
  return failure_;
}

}  // namespace tenon::detail
