// Paces prefetches of some memory ranges over a kernel's passes: all of their lines, evenly. For products that
// arithmetic bounds, where memory would idle.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "tenon/core/require.h"

namespace tenon::cpu {

class PrefetchPacer {
 public:
  struct Range {
    std::uintptr_t at, end;  ///< whole lines, at least one
  };

  void begin(std::span<const Range> ranges) {
    next_ = ranges.data(), last_ = next_ + ranges.size();
    lines_ = 0;
    for (const Range& range : ranges) lines_ += (range.end - range.at) / 64;
    now_ = {}, rate_ = due_ = 0;
  }
  void spread(std::ptrdiff_t passes) {
    rate_ = passes > 0 ? (lines_ << kShift) / static_cast<std::uintptr_t>(passes) + 1 : 0;
  }
  std::size_t lines() const { return lines_; }  // lines still to prefetch
  void prefetch_all() {
    while (lines_ > 0) next_line();
  }
  [[gnu::always_inline]] void pass() {
    for (due_ += rate_; due_ >= std::uintptr_t{1} << kShift; due_ -= std::uintptr_t{1} << kShift) next_line();
  }

 private:
  static constexpr int kShift = 16;
  [[gnu::always_inline]] void next_line() {
    if (now_.at == now_.end) {
      if (next_ == last_) return;
      now_ = *next_++;
    }
    __builtin_prefetch(reinterpret_cast<const void*>(now_.at), 0, 2);
    now_.at += 64;
    --lines_;
  }

  const Range *next_ = nullptr, *last_ = nullptr;
  Range now_{};
  std::uintptr_t lines_ = 0;           // still to prefetch
  std::uintptr_t rate_ = 0, due_ = 0;  // lines per pass, and lines due now, times 2^kShift
};

}  // namespace tenon::cpu
