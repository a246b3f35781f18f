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
class WaitingLine {
 public:
  // Of one who asks; it leaves the line with it.
  class Place {
   public:
    Place(WaitingLine& line, Patience patience)
        : line_(line), patience_(std::move(patience)), patient_(patience_.until > Clock::now()) {}
    Place(const Place&) = delete;
    ~Place();

    // Whether nobody else has waited longer.
    bool is_first() const;
    bool may_use(const std::string& name) const;
    // The first in line says who shall yield to it.
    void ask_to_yield(const std::string& name);

    // Gets in line, if it waits at all.
    void join();
    // In line, until something has changed since `seen`; false where its time is over, or nobody wants it any more.
    bool wait(std::uint64_t seen);

   private:
    static constexpr auto kLook = std::chrono::milliseconds(50);

    WaitingLine& line_;
    const Patience patience_;
    const bool patient_;
    bool joined_ = false;
  };

  // Counts what may have made room, or brought an adapter that somebody waits for.
  std::uint64_t changes() const;
  void changed();
  int waiting() const;

 private:
  void change();

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
  ~HeldInLine();

 private:
  std::shared_ptr<const void> held_;
  const std::shared_ptr<WaitingLine> line_;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/adapter/waiting_line-inl.h"
#endif
