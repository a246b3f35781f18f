// Adapters of ended sequences, kept while kernels may still read them: on devices whose steps return before kernels
// run.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/core/low_rank.h"

namespace tenon {

/// Keeps each adapter for two further steps.
template <class DeviceP>
class RetiredAdapters {
 public:
  void add(const std::shared_ptr<const AdapterSet>& set) {
    if constexpr (RunsBehind<DeviceP>) {
      if (set) now_.push_back(set);
    }
  }

  /// The device has ended the step before the last one. The last one may still read adapters that were added since.
  void begin_step() {
    before_.clear();
    std::swap(before_, now_);
  }

  /// Releases all: the next step may be far off, and another request may wait for the adapters.
  void release(DeviceP& device) {
    if (now_.empty() && before_.empty()) return;
    device.synchronize();
    now_.clear();
    before_.clear();
  }

 private:
  std::vector<std::shared_ptr<const AdapterSet>> now_, before_;  // before the last step was launched
};

}  // namespace tenon
