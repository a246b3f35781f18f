// Keeps adapters of ended sequences while kernels may still read them, on devices whose ops return before they have
// run.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/core/low_rank.h"

namespace tenon {

/// Keeps each adapter for two further steps.
class RetiredAdapters {
 public:
  /// runs_asynchronously: whether the device does (RunsAsynchronously). If not, no adapter is kept.
  explicit RetiredAdapters(bool runs_asynchronously) : runs_asynchronously_(runs_asynchronously) {}

  void add(const std::shared_ptr<const AdapterSet>& set) {
    if (runs_asynchronously_ && set) now_.push_back(set);
  }

  /// The device has ended the step before the last one. The last one may still read adapters that were added since.
  void begin_step() {
    before_.clear();
    std::swap(before_, now_);
  }

  /// Releases all: the next step may be far off, and another request may wait for the adapters.
  template <DevicePolicy D>
  void release(D& device) {
    if (now_.empty() && before_.empty()) return;
    device.synchronize();
    now_.clear();
    before_.clear();
  }

 private:
  bool runs_asynchronously_;
  std::vector<std::shared_ptr<const AdapterSet>> now_, before_;  // before the last step was launched
};

}  // namespace tenon
