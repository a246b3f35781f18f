// The admission queue of an adapter store: requests wait first come, first served, until the budget admits their
// adapters.
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

/// First come, first served. An adapter that is always in use could keep the first request waiting for ever. Therefore
/// one such adapter yields: requests that may wait leave it alone until the first request has been served. Thread-safe.
class AdmissionQueue {
 public:
  /// One request's place in the queue. Destruction leaves the queue.
  class Waiter {
   public:
    Waiter(AdmissionQueue& queue, Patience patience)
        : queue_(queue), patience_(std::move(patience)), may_wait_(patience_.until > Clock::now()) {}
    Waiter(const Waiter&) = delete;
    ~Waiter();

    /// Whether no other request has waited longer.
    bool is_first() const;
    /// Whether the request may use this adapter now. False if the adapter yields and this request may wait but is not
    /// the first.
    bool may_use(const std::string& name) const;
    /// Names the adapter that shall yield. It has an effect for the first request only.
    void request_yield(const std::string& name);

    /// Enters the queue, if the request may wait at all.
    void join();
    /// Waits until change_count() differs from `seen`. False if the request is not queued, its time is over, or it is
    /// no longer wanted.
    bool wait(std::uint64_t seen);

   private:
    static constexpr auto kPollInterval = std::chrono::milliseconds(50);  // how often `wanted` is asked

    AdmissionQueue& queue_;
    const Patience patience_;
    const bool may_wait_;
    bool joined_ = false;
  };

  /// Counts events that may let a waiting request go on: budget was freed or an adapter was loaded.
  std::uint64_t change_count() const;
  /// Counts such an event and wakes the waiting requests.
  void notify_changed();
  /// The number of requests in the queue.
  int waiting() const;

 private:
  void notify();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<const Waiter*> waiters_;
  std::string yielding_;  // name of the adapter that yields; empty: none
  std::uint64_t changes_ = 0;
};

/// Owns what a lease holds. Its destruction wakes the waiting requests.
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
