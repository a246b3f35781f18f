// device/memory_count.h: bytes held now, and their peak.
#include "tenon/device/memory_count.h"

#include <boost/test/unit_test.hpp>
#include <thread>
#include <vector>

using tenon::MemoryCount;

BOOST_AUTO_TEST_SUITE(device_memory_count)

BOOST_AUTO_TEST_CASE(a_peak_stays_when_memory_is_freed) {
  MemoryCount count;
  BOOST_TEST(count.use().peak == 0u);
  count.add(100);
  count.add(50);
  count.remove(100);
  BOOST_TEST(count.use().bytes == 50u);
  BOOST_TEST(count.use().peak == 150u);
  count.add(90);
  BOOST_TEST(count.use().peak == 150u);
  count.add(20);
  BOOST_TEST(count.use().bytes == 160u);
  BOOST_TEST(count.use().peak == 160u);
}

BOOST_AUTO_TEST_CASE(threads_lose_nothing) {
  constexpr int kThreads = 4, kTurns = 20'000;
  MemoryCount count;
  count.add(7);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < kTurns; ++turn) {
        count.add(3);
        count.remove(3);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST(count.use().bytes == 7u);
  BOOST_TEST(count.use().peak >= 10u);
  BOOST_TEST(count.use().peak <= 7u + 3u * kThreads);
}

BOOST_AUTO_TEST_SUITE_END()
