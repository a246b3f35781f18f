// How many requests are served at once: all others are told so at once, before anything is done for them.
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
    if (taken_.fetch_add(places) <= places_ - places) return Ticket(*this, places);
    taken_.fetch_sub(places);
    return std::nullopt;
  }
  int taken() const { return taken_; }

 private:
  const int places_;
  std::atomic<int> taken_{0};
};

}  // namespace serve
