// The budget of an adapter store: the number and bytes of adapters on the device. It counts every adapter that is
// alive, also after its name was unloaded or replaced, and every adapter that is being loaded.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tenon/adapter/admission_queue.h"

namespace tenon {

/// Limits and usage of a store's adapters. Every call needs the store's mutex, except the end of a Reservation.
template <class Resident>
class AdapterBudget {
 public:
  using Handle = std::shared_ptr<const Resident>;

  AdapterBudget(int count, std::size_t bytes, std::shared_ptr<AdmissionQueue> queue)
      : limits_{count, bytes}, queue_(std::move(queue)) {}

  /// A number of adapters and the bytes of their factors.
  struct Usage {
    int count;
    std::size_t bytes;
  };
  /// Usage of the adapters that are alive.
  Usage used() const {
    Usage now{0, 0};
    for (const auto& each : versions_) {
      if (const Handle version = each.lock()) ++now.count, now.bytes += version->bytes();
    }
    return now;
  }
  /// Usage of the adapters that are alive plus the reservations.
  Usage used_with_reserved() {
    std::erase_if(versions_, [](const auto& each) { return each.expired(); });
    const Usage now = used();
    return {now.count + reserved_, now.bytes + reserved_bytes_};
  }
  /// Whether `usage` is within the limits. A limit of 0 is no limit.
  bool admits(Usage usage) const {
    return (limits_.count == 0 || usage.count <= limits_.count) && (limits_.bytes == 0 || usage.bytes <= limits_.bytes);
  }

  /// Budget for one adapter while it is loaded. Destruction releases it.
  class Reservation {
   public:
    Reservation(AdapterBudget& budget, std::size_t bytes) : budget_(&budget), bytes_(bytes) {
      budget_->reserved_bytes_ += bytes_;
      ++budget_->reserved_;
    }
    Reservation(Reservation&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_), handle_(std::move(other.handle_)) {}
    Reservation& operator=(Reservation&&) = delete;
    ~Reservation() { release(); }

    void fill(Handle handle) { handle_ = std::move(handle); }
    /// The loaded adapter; call it before digest() and keep().
    const std::string& digest() const { return handle_->digest(); }
    /// Turns the reservation into usage: from now on the adapter counts as alive.
    Handle keep() {
      budget_->versions_.push_back(handle_);
      release();
      return handle_;
    }

   private:
    void release() {
      if (!budget_) return;
      budget_->reserved_bytes_ -= bytes_;
      --budget_->reserved_;
      budget_->queue_->notify_changed();
      budget_ = nullptr;
    }

    AdapterBudget* budget_;
    std::size_t bytes_;
    Handle handle_;
  };

 private:
  const Usage limits_;
  const std::shared_ptr<AdmissionQueue> queue_;
  std::vector<std::weak_ptr<const Resident>> versions_;
  std::atomic<int> reserved_ = 0;
  std::atomic<std::size_t> reserved_bytes_ = 0;
};

}  // namespace tenon
