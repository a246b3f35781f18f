// How much is under way at once, in places: whoever finds too few is told so at once, and waits for none.
#pragma once
#include <atomic>
#include <optional>
#include <utility>

namespace serve {

class Gate {
 public:
  explicit Gate(int places) : places_(places) {}

  // Places, given back when it goes.
  class Ticket {
   public:
    Ticket(Gate& gate, int places) : gate_(&gate), places_(places) {}
    Ticket(Ticket&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)), places_(other.places_) {}
    Ticket& operator=(Ticket&& other) noexcept {
      std::swap(gate_, other.gate_);
      std::swap(places_, other.places_);
      return *this;
    }
    ~Ticket() {
      if (gate_) gate_->taken_.fetch_sub(places_);
    }

   private:
    Gate* gate_;
    int places_;
  };

  std::optional<Ticket> enter(int places = 1) {
    int taken = taken_;
    do {
      if (taken > places_ - places) return std::nullopt;
    } while (!taken_.compare_exchange_weak(taken, taken + places));
    return Ticket(*this, places);
  }
  int taken() const { return taken_; }

 private:
  const int places_;
  std::atomic<int> taken_{0};
};

}  // namespace serve
