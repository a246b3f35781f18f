// The admission queue of an adapter store. Requests wait in order of arrival until the adapter budget has space for
// their adapters.
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

/// Serves waiting requests in order of arrival. Thread-safe.
///
/// An adapter that is always in use could keep the first request waiting for ever. Therefore one such adapter yields:
/// requests that may wait do not use it until the first request has been served.
class AdmissionQueue {
 public:
  /// One request that may have to wait. Its destructor leaves the queue.
  class Waiter {
   public:
    /// Does not enter the queue yet: see join(). `queue` must outlive the waiter.
    Waiter(AdmissionQueue& queue, Patience patience)
        : queue_(queue), patience_(std::move(patience)), may_wait_(patience_.until > Clock::now()) {}
    Waiter(const Waiter&) = delete;
    ~Waiter();

    /// Whether the request is the first in the queue, or the queue is empty.
    bool is_first() const;
    /// Whether the request may use this adapter now. False if the adapter yields and this request may wait but is not
    /// the first.
    bool may_use(const std::string& name) const;
    /// Makes this adapter yield. Has an effect only if the request is the first in the queue.
    void request_yield(const std::string& name);

    /// Enters the queue at its end. Does nothing if the request may not wait, or is in the queue.
    void join();
    /// Waits until change_count() differs from `seen`, which was read before the failed attempt. Returns false if the
    /// request is not in the queue, its time is over, or `patience.wanted` says no.
    bool wait(std::uint64_t seen);

   private:
    static constexpr auto kPollInterval = std::chrono::milliseconds(50);  // between two calls of patience.wanted

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

/// Owns the adapters of a lease. Its destructor releases them and wakes the waiting requests.
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
