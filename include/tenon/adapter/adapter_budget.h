// The room that a store's adapters take: all that live, whatever their names mean by now, and those that are being
// read.
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

// All but a Reservation's end happens under the store's mutex.
template <class Resident>
class AdapterBudget {
 public:
  using Handle = std::shared_ptr<const Resident>;

  AdapterBudget(int count, std::size_t bytes, std::shared_ptr<AdmissionQueue> queue)
      : limits_{count, bytes}, queue_(std::move(queue)) {}

  // Adapters, and their bytes.
  struct Usage {
    int count;
    std::size_t bytes;
  };
  // By those that live.
  Usage used() const {
    Usage now{0, 0};
    for (const auto& each : versions_) {
      if (const Handle version = each.lock()) ++now.count, now.bytes += version->bytes();
    }
    return now;
  }
  // By those, and what is reserved.
  Usage used_with_reserved() {
    std::erase_if(versions_, [](const auto& each) { return each.expired(); });
    const Usage now = used();
    return {now.count + reserved_, now.bytes + reserved_bytes_};
  }
  // 0: any number.
  bool admits(Usage usage) const {
    return (limits_.count == 0 || usage.count <= limits_.count) && (limits_.bytes == 0 || usage.bytes <= limits_.bytes);
  }

  // An adapter that is read, and its waiter within the limits until it is kept, or dropped.
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
    const std::string& digest() const { return handle_->digest(); }
    // From now on it is counted as what it is.
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
