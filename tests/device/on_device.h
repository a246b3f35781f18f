// Shared by tests with a GPU. They are skipped on machines without one.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "tenon/device/cuda.cuh"

namespace tenon::test {

// A global fixture: without a GPU it ends the program with ctest's code for "skipped".
struct NeedsCuda {
  NeedsCuda() {
    if (cuda::device_count() > 0) return;
    std::puts("skipped: there is no CUDA device, or no driver, on this machine");
    std::fflush(stdout);
    std::_Exit(77);
  }
};

// A copy of host values on the device.
template <class T>
class OnDevice {
 public:
  OnDevice(Cuda& device, std::span<const T> values)
      : memory_(device.allocate(values.size_bytes())), count_(values.size()) {
    device.fill({memory_.data(), values.size_bytes()},
                [&](std::span<std::byte> host) { std::memcpy(host.data(), values.data(), host.size()); });
  }
  OnDevice(Cuda& device, const std::vector<T>& values) : OnDevice(device, std::span<const T>(values)) {}

  T* data() const { return reinterpret_cast<T*>(memory_.data()); }
  std::vector<T> values() const {
    const auto bytes = memory_.contents(count_ * sizeof(T));
    std::vector<T> all(count_);
    std::memcpy(all.data(), bytes.data(), bytes.size());
    return all;
  }

 private:
  Cuda::Memory memory_;
  std::size_t count_;
};

}  // namespace tenon::test
