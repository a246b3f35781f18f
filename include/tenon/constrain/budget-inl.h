#pragma once
#include <time.h>

#include "tenon/constrain/budget.h"
#include "tenon/core/require.h"

namespace tenon::constrain {

TENON_INLINE std::chrono::nanoseconds thread_cpu_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

TENON_INLINE void Budget::spend(std::size_t bytes) {
  if (bytes_ + bytes > limits_.bytes)
    refuse_complex("it needs more than " + std::to_string(limits_.bytes >> 20) + " MiB");
  bytes_ += bytes;
}

TENON_INLINE void Budget::check() {
  if ((++checks_ & 15) != 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (!cpu_began_) cpu_began_ = thread_cpu_time();
  if (now <= next_look_) return;
  const std::chrono::nanoseconds left = time_ - (thread_cpu_time() - *cpu_began_);
  if (left < left.zero()) refuse_complex("it takes more than " + std::to_string(time_.count()) + " ms");
  next_look_ = now + left;
}

TENON_INLINE void Budget::begin(std::chrono::milliseconds time) {
  time_ = time;
  cpu_began_.reset();
  next_look_ = std::chrono::steady_clock::now() + time;
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
