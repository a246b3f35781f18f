// The distance of two cores. The host of a virtual machine may change it from one second to the next, and with it the
// bandwidth of both cores together and the time for which they wait for each other.
#pragma once
#include <atomic>
#include <chrono>
#include <thread>

namespace bench {

// Nanoseconds that a cache line takes from one core to another, in a ping-pong of two threads for about 10 ms. On an
// EPYC 9004: 27 for cores that share a last-level cache, 170 to 400 for others.
inline double line_ns() {
  constexpr int kTurns = 20'000;
  struct alignas(64) Line {
    std::atomic<int> turn{0};
    void wait_for(int other) const {
      while (turn.load(std::memory_order_acquire) != other) {
      }
    }
  } line;
  std::thread there([&] {
    for (int i = 1; i < 2 * kTurns; i += 2) {
      line.wait_for(i);
      line.turn.store(i + 1, std::memory_order_release);
    }
  });
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 1; i < 2 * kTurns; i += 2) {
    line.turn.store(i, std::memory_order_release);
    line.wait_for(i + 1);
  }
  const std::chrono::duration<double, std::nano> passed = std::chrono::steady_clock::now() - begin;
  there.join();
  return passed.count() / (2 * kTurns);
}

}  // namespace bench
