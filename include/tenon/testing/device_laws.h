// The laws of DevicePolicy, without its ops. Memory begins as zeros and keeps what is filled in. Values that a step
// puts stay until the next step begins.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/testing/fits.h"
#include "tenon/testing/random.h"

namespace tenon::testing {

namespace detail {

template <class D>
std::vector<int> fetched(D& device, const int* from, std::size_t count) {
  const int* there = device.fetch(from, count);
  return {there, there + count};
}

template <class D>
void memory_laws(D& device, Violations& broken) {
  constexpr std::size_t kCount = 5000;
  typename D::Memory first = device.allocate(kCount * sizeof(int)), second = device.allocate(kCount * sizeof(int));
  const auto ints = [](typename D::Memory& memory) { return reinterpret_cast<const int*>(memory.data()); };
  const auto zeros = [&](typename D::Memory& memory) {
    return fetched(device, ints(memory), kCount) == std::vector<int>(kCount, 0);
  };
  note(broken, zeros(first) && zeros(second), "device: memory begins as zeros");
  std::vector<int> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i) values[i] = static_cast<int>(i * 7 + 1);
  device.fill(std::span<std::byte>(first.data(), kCount * sizeof(int)), [&](std::span<std::byte> to) {
    std::copy_n(std::as_bytes(std::span(values)).begin(), to.size(), to.begin());
  });
  note(broken, fetched(device, ints(first), kCount) == values, "device: memory keeps what is filled in");
  note(broken, zeros(second), "device: filling one memory leaves others as they are");
  typename D::Memory moved = std::move(first);
  note(broken, fetched(device, ints(moved), kCount) == values, "device: memory that is moved keeps what it holds");
}

// A step puts few or many spans, small and large ones. All are read after the last was put.
template <class D>
void step_laws(D& device, Random& random, Violations& broken) {
  device.begin_step();
  std::vector<std::vector<int>> values;
  const int spans = random.between(1, 300);
  for (int i = 0; i < spans; ++i) {
    const int size = random.between(0, 40) == 0 ? random.between(1, 100000) : random.between(0, 50);
    values.emplace_back();
    for (int k = 0; k < size; ++k) values.back().push_back(random.between(-1000000, 1000000));
  }
  std::vector<const int*> there;
  for (const auto& span : values) there.push_back(device.put(std::span<const int>(span)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].empty()) continue;
    note(broken, fetched(device, there[i], values[i].size()) == values[i],
         "device: what a step puts stays until the next step begins");
  }
}

template <class D>
void thread_laws(D& device, Violations& broken) {
  note(broken, device.threads() >= 1, "device: has one thread of the host at least");
  std::array<std::atomic<int>, 1000> times{};
  device.pool().split(static_cast<int>(times.size()), [&](int begin, int end) {
    for (int i = begin; i < end; ++i) ++times[static_cast<std::size_t>(i)];
  });
  note(broken, std::all_of(times.begin(), times.end(), [](const std::atomic<int>& n) { return n == 1; }),
       "device: its pool does each part of a job once");
}

}  // namespace detail

/// Checks memory, steps and threads of a device, without its ops. Returns the broken laws.
template <class D>
Violations device_laws(D& device) {
  detail::must_fit<Device<D>>();
  Violations broken;
  if constexpr (detail::fits<Device<D>>) {
    try {
      detail::note(broken, !std::string_view(D::name).empty(), "device: has a name");
      detail::memory_laws(device, broken);
      Random random(17);
      for (int step = 0; step < 20; ++step) detail::step_laws(device, random, broken);
      detail::thread_laws(device, broken);
      device.synchronize();
    } catch (const std::exception& e) {
      broken.push_back(std::string("device: throws nothing, but threw: ") + e.what());
    }
  }
  return broken;
}

}  // namespace tenon::testing
