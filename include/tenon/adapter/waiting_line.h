// Who waits for room among the adapters of a store, first come first served.
#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "tenon/core/request.h"

namespace tenon {

// Room goes to who has waited longest. So that an adapter which is always in use cannot keep the first in line waiting
// for ever, one of them yields: those who wait, too, leave it alone until the first has been served.
class WaitingLine {
 public:
  // Of one who asks; it leaves the line with it.
  class Place {
   public:
    Place(WaitingLine& line, Patience patience)
        : line_(line), patience_(std::move(patience)), patient_(patience_.until > Clock::now()) {}
    Place(const Place&) = delete;
    ~Place() {
      std::lock_guard lock(line_.mutex_);
      if (!joined_) return;
      if (line_.places_.front() == this) line_.yielding_.clear();
      std::erase(line_.places_, this);
      line_.change();
    }

    // Whether nobody else has waited longer.
    bool is_first() const {
      std::lock_guard lock(line_.mutex_);
      return line_.places_.empty() || line_.places_.front() == this;
    }
    bool may_use(const std::string& name) const {
      std::lock_guard lock(line_.mutex_);
      return !patient_ || line_.yielding_.empty() || line_.yielding_ != name || line_.places_.front() == this;
    }
    // The first in line says who shall yield to it.
    void ask_to_yield(const std::string& name) {
      std::lock_guard lock(line_.mutex_);
      if (joined_ && line_.places_.front() == this) line_.yielding_ = name;
    }

    // Gets in line, if it waits at all.
    void join() {
      std::lock_guard lock(line_.mutex_);
      if (!patient_ || joined_) return;
      line_.places_.push_back(this);
      joined_ = true;
    }
    // In line, until something has changed since `seen`; false where its time is over, or nobody wants it any more.
    bool wait(std::uint64_t seen) {
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

   private:
    static constexpr auto kLook = std::chrono::milliseconds(50);

    WaitingLine& line_;
    const Patience patience_;
    const bool patient_;
    bool joined_ = false;
  };

  // Counts what may have made room, or brought an adapter that somebody waits for.
  std::uint64_t changes() const {
    std::lock_guard lock(mutex_);
    return changes_;
  }
  void changed() {
    std::lock_guard lock(mutex_);
    change();
  }
  int waiting() const {
    std::lock_guard lock(mutex_);
    return static_cast<int>(places_.size());
  }

 private:
  void change() {
    ++changes_;
    if (!places_.empty()) changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<const Place*> places_;
  std::string yielding_;  // an adapter; empty: none
  std::uint64_t changes_ = 0;
};

// What a lease owns: those who wait hear of its end.
class HeldInLine {
 public:
  HeldInLine(std::shared_ptr<const void> held, std::shared_ptr<WaitingLine> line)
      : held_(std::move(held)), line_(std::move(line)) {}
  HeldInLine(const HeldInLine&) = delete;
  ~HeldInLine() {
    held_.reset();
    line_->changed();
  }

 private:
  std::shared_ptr<const void> held_;
  const std::shared_ptr<WaitingLine> line_;
};

}  // namespace tenon
