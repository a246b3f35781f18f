// Who waits for room among the adapters of a store, first come first served.
#pragma once
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
class AdmissionQueue {
 public:
  // Of one who asks; it leaves the line with it.
  class Waiter {
   public:
    Waiter(AdmissionQueue& queue, Patience patience)
        : queue_(queue), patience_(std::move(patience)), may_wait_(patience_.until > Clock::now()) {}
    Waiter(const Waiter&) = delete;
    ~Waiter();

    // Whether nobody else has waited longer.
    bool is_first() const;
    bool may_use(const std::string& name) const;
    // The first in line says who shall yield to it.
    void request_yield(const std::string& name);

    // Gets in queue, if it waits at all.
    void join();
    // In queue, until something has changed since `seen`; false where its time is over, or nobody wants it any more.
    bool wait(std::uint64_t seen);

   private:
    static constexpr auto kPollInterval = std::chrono::milliseconds(50);

    AdmissionQueue& queue_;
    const Patience patience_;
    const bool may_wait_;
    bool joined_ = false;
  };

  // Counts what may have made room, or brought an adapter that somebody waits for.
  std::uint64_t change_count() const;
  void notify_changed();
  int waiting() const;

 private:
  void notify();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<const Waiter*> waiters_;
  std::string yielding_;  // an adapter; empty: none
  std::uint64_t changes_ = 0;
};

// What a lease owns: those who wait hear of its end.
class NotifyingHold {
 public:
  NotifyingHold(std::shared_ptr<const void> held, std::shared_ptr<AdmissionQueue> queue)
      : held_(std::move(held)), queue_(std::move(queue)) {}
  NotifyingHold(const NotifyingHold&) = delete;
  ~NotifyingHold();

 private:
  std::shared_ptr<const void> held_;
  const std::shared_ptr<AdmissionQueue> queue_;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/adapter/admission_queue-inl.h"
#endif
