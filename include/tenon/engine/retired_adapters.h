// Adapters of sequences that have ended, which kernels may still read where a step returns before they have run.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "tenon/core/low_rank.h"

namespace tenon {

template <class DeviceP>
class RetiredAdapters {
 public:
  void add(const std::shared_ptr<const AdapterSet>& set) {
    if constexpr (requires { requires DeviceP::runs_behind; }) {
      if (set) now_.push_back(set);
    }
  }

  // The device has ended the step before the last one: the last may read what has ended since.
  void begin_step() {
    before_.clear();
    std::swap(before_, now_);
  }

  // No step may come for long, and somebody may wait for the adapters.
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
