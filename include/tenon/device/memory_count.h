// Counts the bytes that the allocations of a device hold.
#pragma once
#include <atomic>
#include <cstddef>

#include "tenon/core/require.h"

namespace tenon {

/// Bytes held now, and the most held since the device was made.
struct MemoryUse {
  std::size_t bytes = 0, peak = 0;
};

/// Thread-safe. With several threads, the peak is at least the largest count that any of them reached.
class MemoryCount {
 public:
  void add(std::size_t bytes) {
    const std::size_t now = bytes_.fetch_add(bytes) + bytes;
    std::size_t peak = peak_.load();
    while (peak < now && !peak_.compare_exchange_weak(peak, now)) {
    }
  }
  void remove(std::size_t bytes) { bytes_.fetch_sub(bytes); }
  /// The current count and its peak.
  MemoryUse use() const { return {bytes_.load(), peak_.load()}; }

 private:
  std::atomic<std::size_t> bytes_{0}, peak_{0};
};

}  // namespace tenon
