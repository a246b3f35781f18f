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

#include "tenon/adapter/waiting_line.h"

namespace tenon {

// All but a Reservation's end happens under the store's mutex.
template <class Resident>
class AdapterRoom {
 public:
  using Handle = std::shared_ptr<const Resident>;

  AdapterRoom(int count, std::size_t bytes, std::shared_ptr<WaitingLine> line)
      : most_{count, bytes}, line_(std::move(line)) {}

  // Adapters, and their bytes.
  struct Taken {
    int count;
    std::size_t bytes;
  };
  // By those that live.
  Taken taken() const {
    Taken now{0, 0};
    for (const auto& each : versions_) {
      if (const Handle version = each.lock()) ++now.count, now.bytes += version->bytes();
    }
    return now;
  }
  // By those, and what is reserved.
  Taken with_reserved() {
    std::erase_if(versions_, [](const auto& each) { return each.expired(); });
    const Taken now = taken();
    return {now.count + reserved_, now.bytes + reserved_bytes_};
  }
  // 0: any number.
  bool holds(Taken taken) const {
    return (most_.count == 0 || taken.count <= most_.count) && (most_.bytes == 0 || taken.bytes <= most_.bytes);
  }

  // An adapter that is read, and its place within the limits until it is kept, or dropped.
  class Reservation {
   public:
    Reservation(AdapterRoom& room, std::size_t bytes) : room_(&room), bytes_(bytes) {
      room_->reserved_bytes_ += bytes_;
      ++room_->reserved_;
    }
    Reservation(Reservation&& other) noexcept
        : room_(std::exchange(other.room_, nullptr)), bytes_(other.bytes_), handle_(std::move(other.handle_)) {}
    Reservation& operator=(Reservation&&) = delete;
    ~Reservation() { give_back(); }

    void fill(Handle handle) { handle_ = std::move(handle); }
    const std::string& digest() const { return handle_->digest(); }
    // From now on it is counted as what it is.
    Handle keep() {
      room_->versions_.push_back(handle_);
      give_back();
      return handle_;
    }

   private:
    void give_back() {
      if (!room_) return;
      room_->reserved_bytes_ -= bytes_;
      --room_->reserved_;
      room_->line_->changed();
      room_ = nullptr;
    }

    AdapterRoom* room_;
    std::size_t bytes_;
    Handle handle_;
  };

 private:
  const Taken most_;
  const std::shared_ptr<WaitingLine> line_;
  std::vector<std::weak_ptr<const Resident>> versions_;
  std::atomic<int> reserved_ = 0;
  std::atomic<std::size_t> reserved_bytes_ = 0;
};

}  // namespace tenon
