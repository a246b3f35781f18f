#pragma once
#include <algorithm>

#include "tenon/adapter/waiting_line.h"
#include "tenon/core/require.h"

namespace tenon {

TENON_INLINE WaitingLine::Place::~Place() {
  std::lock_guard lock(line_.mutex_);
  if (!joined_) return;
  if (line_.places_.front() == this) line_.yielding_.clear();
  std::erase(line_.places_, this);
  line_.change();
}

TENON_INLINE bool WaitingLine::Place::is_first() const {
  std::lock_guard lock(line_.mutex_);
  return line_.places_.empty() || line_.places_.front() == this;
}

TENON_INLINE bool WaitingLine::Place::may_use(const std::string& name) const {
  std::lock_guard lock(line_.mutex_);
  return !patient_ || line_.yielding_.empty() || line_.yielding_ != name || line_.places_.front() == this;
}

TENON_INLINE void WaitingLine::Place::ask_to_yield(const std::string& name) {
  std::lock_guard lock(line_.mutex_);
  if (joined_ && line_.places_.front() == this) line_.yielding_ = name;
}

TENON_INLINE void WaitingLine::Place::join() {
  std::lock_guard lock(line_.mutex_);
  if (!patient_ || joined_) return;
  line_.places_.push_back(this);
  joined_ = true;
}

TENON_INLINE bool WaitingLine::Place::wait(std::uint64_t seen) {
  std::unique_lock lock(line_.mutex_);
  const auto ready = [&] { return line_.changes_ != seen; };
  if (!joined_) return false;
  for (;;) {
    const TimePoint look = Clock::now() + kLook;
    if (line_.changed_.wait_until(lock, std::min(patience_.until, look), ready)) return true;
    if (patience_.until <= look) return false;
    lock.unlock();
    if (patience_.wanted && !patience_.wanted()) return false;
    lock.lock();
  }
}

TENON_INLINE std::uint64_t WaitingLine::changes() const {
  std::lock_guard lock(mutex_);
  return changes_;
}

TENON_INLINE void WaitingLine::changed() {
  std::lock_guard lock(mutex_);
  change();
}

TENON_INLINE int WaitingLine::waiting() const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(places_.size());
}

TENON_INLINE void WaitingLine::change() {
  ++changes_;
  if (!places_.empty()) changed_.notify_all();
}

TENON_INLINE HeldInLine::~HeldInLine() {
  held_.reset();
  line_->changed();
}

}  // namespace tenon
