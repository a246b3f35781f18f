#pragma once
#include "tenon/constrain/budget.h"
#include "tenon/core/require.h"

namespace tenon::constrain {

TENON_INLINE void Budget::spend(std::size_t bytes) {
  if (bytes_ + bytes > limits_.bytes)
    refuse_complex("it needs more than " + std::to_string(limits_.bytes >> 20) + " MiB");
  bytes_ += bytes;
}

TENON_INLINE void Budget::check() {
  if ((++checks_ & 15) == 0 && std::chrono::steady_clock::now() > end_) {
    refuse_complex("it takes more than " + std::to_string(time_.count()) + " ms");
  }
}

TENON_INLINE void Budget::begin_preparing() {
  time_ = limits_.time;
  end_ = std::chrono::steady_clock::now() + time_;
}

TENON_INLINE void Budget::begin_step() {
  time_ = limits_.step_time;
  end_ = std::chrono::steady_clock::now() + time_;
}

TENON_INLINE Budget::Nesting::Nesting(Budget& budget) : budget_(budget) {
  if (++budget_.nesting_ <= 4 * budget_.limits_.nesting) return;
  --budget_.nesting_;
  refuse_complex("nested deeper than " + std::to_string(budget_.limits_.nesting));
}

TENON_INLINE void Spent::add(std::size_t bytes) {
  budget_.spend(bytes);
  bytes_ += bytes;
}

TENON_INLINE void Spent::take(std::size_t bytes) {
  budget_.give_back(bytes);
  bytes_ -= bytes;
}

}  // namespace tenon::constrain
