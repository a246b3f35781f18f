// Counts the bytes that the allocations of a device hold.
#pragma once
#include <atomic>
#include <cstddef>

#include "tenon/core/require.h"

namespace tenon {

/// Bytes that allocations hold now, and the largest number that they held at once since the device was made.
struct MemoryUse {
  std::size_t bytes = 0, peak = 0;
};

/// Counter of the bytes that allocations hold. Thread-safe; while another thread is inside add(), `peak` may be less
/// than `bytes`.
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
