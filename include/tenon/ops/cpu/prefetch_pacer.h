// Paces prefetches of some memory ranges over a kernel's passes: all of their lines, evenly. For products that
// arithmetic bounds, where memory would idle.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "tenon/core/require.h"

namespace tenon::cpu {

/// The prefetches of one thread during one piece of a product.
class PrefetchPacer {
 public:
  struct Lines {
    std::uintptr_t at, end;  ///< whole lines, at least one
    /// The lines of a range of bytes.
    static Lines of(std::uintptr_t begin, std::uintptr_t end) { return {begin / 64 * 64, (end + 63) / 64 * 64}; }
  };

  /// Starts over with these ranges, which must outlive the passes.
  void begin(std::span<const Lines> ranges) {
    next_ = ranges.data(), last_ = next_ + ranges.size();
    lines_ = 0;
    for (const Lines& range : ranges) lines_ += (range.end - range.at) / 64;
    now_ = {}, rate_ = due_ = 0;
  }
  /// Spreads all lines over this many calls of pass().
  void spread(std::ptrdiff_t passes) {
    rate_ = passes > 0 ? (lines_ << kShift) / static_cast<std::uintptr_t>(passes) + 1 : 0;
  }
  std::size_t lines() const { return lines_; }  ///< lines still to prefetch
  /// Prefetches all lines left at once.
  void prefetch_all() {
    while (lines_ > 0) next_line();
  }
  /// Prefetches the lines that are due.
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

  const Lines *next_ = nullptr, *last_ = nullptr;
  Lines now_{};
  std::uintptr_t lines_ = 0;           // still to prefetch
  std::uintptr_t rate_ = 0, due_ = 0;  // lines per pass, and lines due now, times 2^kShift
};

}  // namespace tenon::cpu
