// device/cuda.cuh: memory, uploads of a step's small data, and errors.
#define BOOST_TEST_MODULE tenon device cuda
#include <boost/test/unit_test.hpp>

#include <array>
#include <numeric>

#include "on_device.h"

using namespace tenon;
using namespace tenon::test;

BOOST_TEST_GLOBAL_FIXTURE(NeedsCuda);

namespace {

__global__ void add_to(const int* values, int count, int* sum) {
  unsigned total = 0;
  for (int i = 0; i < count; ++i) total += static_cast<unsigned>(values[i]);
  *sum = static_cast<int>(total);
}

using cuda::wait_for_earlier;

// value = value * factor + i: each kernel depends on the previous one.
template <class = void>
__global__ void step_kernel(unsigned factor, unsigned i, unsigned* value) {
  wait_for_earlier();
  *value = *value * factor + i;
}
template <class = void>
__global__ void copy_kernel(const unsigned* from, unsigned* to) {
  *to = *from;
}

template <class = void>
__global__ void use_kernel(unsigned floats, unsigned* last) {
  extern __shared__ float shared[];
  for (unsigned i = 0; i < floats; ++i) shared[i] = static_cast<float>(i + 1);
  *last = static_cast<unsigned>(shared[floats - 1]);
}

int sum_of(Cuda& device, const int* values, int count) {
  const OnDevice<int> sum(device, std::vector<int>{0});
  device.launch("add_to", add_to, dim3(1), 1, 0, values, count, sum.data());
  return sum.values().front();
}

}  // namespace

BOOST_AUTO_TEST_CASE(memory_begins_zeroed) {
  Cuda device;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4097}, std::size_t{3} << 20}) {
    auto memory = device.allocate(bytes);
    for (const std::byte b : memory.contents(bytes)) BOOST_TEST_REQUIRE(std::to_integer<int>(b) == 0);
    device.fill({memory.data(), bytes},
                [](std::span<std::byte> host) { std::fill(host.begin(), host.end(), std::byte{7}); });
    BOOST_TEST(std::to_integer<int>(memory.contents(bytes).back()) == 7);
  }
  BOOST_TEST(device.allocate(0).bytes() == 0u);
}

BOOST_AUTO_TEST_CASE(memory_is_counted_with_its_peak) {
  Cuda device;
  const std::size_t before = device.memory_use().bytes;
  {
    const auto first = device.allocate(1000);
    auto second = device.allocate(500);
    BOOST_TEST(device.memory_use().bytes == before + 1500);
    const auto moved = std::move(second);
    BOOST_TEST(device.memory_use().bytes == before + 1500);
  }
  BOOST_TEST(device.memory_use().bytes == before);
  BOOST_TEST(device.memory_use().peak == before + 1500);
  BOOST_CHECK_THROW(device.allocate(std::size_t{1} << 50), Error);
  BOOST_TEST(device.memory_use().peak == before + 1500);
}

// More values than the first buffer holds, in one step and again in the next, gathered and launched at once.
BOOST_AUTO_TEST_CASE(put_values_are_there_for_the_next_kernel) {
  Cuda device;
  for (int step = 0; step < 6; ++step) {
    device.begin_step(step % 2 == 0 ? 0 : 512);
    for (const int count : {1, 3, 1000, 100'000}) {
      std::vector<int> values(static_cast<std::size_t>(count));
      std::iota(values.begin(), values.end(), step);
      const int* there = device.put(std::span<const int>(values));
      std::fill(values.begin(), values.end(), -1);  // the caller may change its own
      int wanted = 0;
      for (int i = 0; i < count; ++i)
        wanted = static_cast<int>(static_cast<unsigned>(wanted) + static_cast<unsigned>(step + i));
      BOOST_TEST(sum_of(device, there, count) == wanted);
    }
    BOOST_TEST((device.put(std::span<const int>{}) == nullptr));
  }
}

// A step's values stay its own when the next step puts some, although the host waits for neither step nor for later
// results.
BOOST_AUTO_TEST_CASE(steps_that_nobody_waits_for_keep_what_they_put) {
  constexpr int kCount = 100'000, kSteps = 6;
  Cuda device;
  std::vector<OnDevice<int>> sums;
  std::vector<Cuda::Later> laters(kSteps);
  for (int step = 0; step < kSteps; ++step) sums.emplace_back(device, std::vector<int>{0});
  for (int step = 0; step < kSteps; ++step) {
    device.begin_step();
    const std::vector<int> values(kCount, step + 1);
    const int* there = device.put(std::span<const int>(values));
    device.launch("add_to", add_to, dim3(1), 1, 0, there, kCount, sums[static_cast<std::size_t>(step)].data());
    device.fetch_later(static_cast<const int*>(sums[static_cast<std::size_t>(step)].data()), 1,
                       laters[static_cast<std::size_t>(step)]);
  }
  for (int step = 0; step < kSteps; ++step) {
    BOOST_TEST(*reinterpret_cast<const int*>(laters[static_cast<std::size_t>(step)].wait()) == kCount * (step + 1));
  }
}

// Kernels write for the host, and graphs of alternating steps write to buffers of their own.
BOOST_AUTO_TEST_CASE(results_for_the_host_arrive) {
  constexpr int kKernels = 12;
  for (const int prompt_rows : {0, 512}) {
    Cuda device;
    std::array<Cuda::Later, 2> laters;
    const OnDevice<unsigned> value(device, std::vector<unsigned>{1});
    unsigned wanted = 1;
    std::array<unsigned, 2> wanted_of{};
    for (unsigned step = 0; step < 10; ++step) {
      Cuda::Later& later = laters[step % 2];
      if (step >= 2) BOOST_TEST(*reinterpret_cast<const unsigned*>(later.wait()) == wanted_of[step % 2]);
      device.begin_step(prompt_rows);
      unsigned* const there = device.arrivals<unsigned>(1, later);
      for (unsigned i = 0; i < kKernels; ++i) {
        wanted = wanted * 3 + i;
        device.launch_early("step", step_kernel<>, dim3(1), 1, 0, 3u, i, value.data());
      }
      device.launch("copy", copy_kernel<>, dim3(1), 1, 0, static_cast<const unsigned*>(value.data()), there);
      device.arrive(later);
      wanted_of[step % 2] = wanted;
    }
    BOOST_TEST(device.graph_launches() == (prompt_rows == 0 ? 9u : 0u));
  }
}

BOOST_AUTO_TEST_CASE(fetch_returns_what_kernels_wrote) {
  Cuda device;
  const OnDevice<int> values(device, std::vector<int>{5, 6, 7});
  const int* host = device.fetch(values.data(), 3);
  BOOST_TEST((host[0] == 5 && host[1] == 6 && host[2] == 7));
}

// First kernel by kernel, then as one graph: with the same arguments, with others, and with more kernels.
BOOST_AUTO_TEST_CASE(steps_that_come_again_are_one_launch) {
  for (const bool graphs : {false, true}) {
    Cuda device({.graphs = graphs});
    const OnDevice<unsigned> value(device, std::vector<unsigned>{1});
    unsigned wanted = 1, factor = 3;
    for (const unsigned kernels : {20, 20, 20, 21, 20, 21, 4, 4, 4}) {
      device.begin_step();
      if (kernels == 21) factor += 2;
      for (unsigned i = 0; i < kernels; ++i) {
        wanted = wanted * factor + i;
        if (i % 2 == 0)
          device.launch("step", step_kernel<>, dim3(1), 1, 0, factor, i, value.data());
        else
          device.launch_early("step", step_kernel<>, dim3(1), 1, 0, factor, i, value.data());
      }
      BOOST_TEST(*device.fetch(value.data(), 1) == wanted);
    }
    BOOST_TEST(device.graph_launches() ==
               (graphs ? 4u : 0u));  // 20 kernels from their second time on, 21 from theirs; 4 are too few
  }
}

// Two devices on one GPU do not reduce each other's limit for the same kernel.
BOOST_AUTO_TEST_CASE(shared_memory_is_everybodys) {
  Cuda one, other;
  const OnDevice<unsigned> there(one, std::vector<unsigned>{0});
  const auto use = [&](Cuda& device, unsigned floats) {
    device.launch("use", use_kernel<>, dim3(1), 1, floats * sizeof(float), floats, there.data());
    BOOST_TEST(*device.fetch(there.data(), 1) == floats);
  };
  for (const unsigned floats : {20'000u, 12'288u, 15'000u, 20'000u}) {
    use(one, floats);
    use(other, floats / 2);
  }
}

// Pending kernels run before another buffer gets memory that they use.
BOOST_AUTO_TEST_CASE(memory_that_is_freed_is_used_before) {
  Cuda device;
  auto first = device.allocate(4);
  const OnDevice<unsigned> value(device, std::vector<unsigned>{5});
  device.launch("step", step_kernel<>, dim3(1), 1, 0, 2u, 3u, reinterpret_cast<unsigned*>(first.data()));
  device.launch("copy", copy_kernel<>, dim3(1), 1, 0, reinterpret_cast<const unsigned*>(first.data()), value.data());
  first = {};
  const auto second = device.allocate(4);  // perhaps the same
  BOOST_TEST(*device.fetch(value.data(), 1) == 3u);
}

BOOST_AUTO_TEST_CASE(a_device_that_is_not_there_is_refused_by_number) {
  BOOST_CHECK_EXCEPTION(Cuda({.index = 4096}), Error, [](const Error& e) {
    return e.where() == "device" && std::string(e.what()).find("4096") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(a_refused_allocation_leaves_the_device_usable) {
  Cuda device;
  BOOST_CHECK_EXCEPTION(device.allocate(std::size_t{1} << 50), Error,
                        [](const Error& e) { return e.kind() == Error::Kind::capacity; });
  BOOST_TEST(sum_of(device, OnDevice<int>(device, std::vector<int>{4}).data(), 1) == 4);
}
