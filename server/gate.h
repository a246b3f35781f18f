// How many requests are served at once: all others are told so at once, before anything is done for them.
#pragma once
#include <atomic>
#include <optional>
#include <utility>

namespace serve {

class Gate {
 public:
  explicit Gate(int places) : places_(places) {}

  // A place, given back when it goes.
  class Ticket {
   public:
    explicit Ticket(Gate& gate) : gate_(&gate) {}
    Ticket(Ticket&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Ticket& operator=(Ticket&&) = delete;
    ~Ticket() {
      if (gate_) gate_->taken_.fetch_sub(1);
    }

   private:
    Gate* gate_;
  };

  std::optional<Ticket> enter() {
    if (taken_.fetch_add(1) < places_) return Ticket(*this);
    taken_.fetch_sub(1);
    return std::nullopt;
  }
  int taken() const { return taken_; }

 private:
  const int places_;
  std::atomic<int> taken_{0};
};

}  // namespace serve
