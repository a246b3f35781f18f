// The pool: every index exactly once, every thread at work, and no thread left waiting.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tenon/device/thread_pool.h"

BOOST_AUTO_TEST_SUITE(device_thread_pool)

using tenon::ThreadPool;

namespace {

struct Part {
  int begin, end;
};

// The parts that `spread` hands out, in order of their begin. Boost.Test's own checks are not thread-safe.
template <class Spread>
std::vector<Part> parts_of(Spread&& spread) {
  std::mutex mutex;
  std::vector<Part> parts;
  spread([&](int begin, int end, int = 0) {
    const std::lock_guard lock(mutex);
    parts.push_back({begin, end});
  });
  std::sort(parts.begin(), parts.end(), [](Part a, Part b) { return a.begin < b.begin; });
  return parts;
}

bool covers(const std::vector<Part>& parts, int count) {
  int next = 0;
  for (const Part& part : parts) {
    if (part.begin != next || part.end <= part.begin) return false;
    next = part.end;
  }
  return next == count;
}

}  // namespace

BOOST_AUTO_TEST_CASE(run_calls_every_part_once) {
  for (int threads = 1; threads <= 6; ++threads) {
    ThreadPool pool(threads);
    BOOST_TEST(pool.threads() == threads);
    std::vector<int> calls(static_cast<std::size_t>(threads), 0);
    for (int round = 1; round <= 50; ++round) {
      // not atomic: run() orders it before its return
      pool.run([&](int part) { ++calls[static_cast<std::size_t>(part)]; });
      BOOST_TEST(std::count(calls.begin(), calls.end(), round) == threads);
    }
  }
}

// Two parts that wait for each other end on two threads only.
BOOST_AUTO_TEST_CASE(parts_run_beside_each_other) {
  ThreadPool pool(2);
  std::atomic<int> here{0};
  pool.run([&](int) {
    ++here;
    while (here.load() < 2) std::this_thread::yield();
  });
  BOOST_TEST(here == 2);
}

BOOST_AUTO_TEST_CASE(no_threads_are_one) {
  for (const int threads : {0, -1, 1}) {
    ThreadPool pool(threads);
    int calls = 0;
    pool.run([&](int t) { calls += t == 0; });
    BOOST_TEST(pool.threads() == 1);
    BOOST_TEST(calls == 1);
  }
}

BOOST_AUTO_TEST_CASE(split_covers_exactly_and_evenly) {
  for (int threads = 1; threads <= 4; ++threads) {
    ThreadPool pool(threads);
    for (int count = 0; count <= 70; ++count) {
      const auto parts = parts_of([&](auto&& body) { pool.split(count, body); });
      BOOST_TEST(covers(parts, count));
      BOOST_TEST(static_cast<int>(parts.size()) == std::min(count, threads));
      for (const Part& part : parts) BOOST_TEST(part.end - part.begin <= count / threads + 1);
    }
    const int huge = 2'000'000'000;  // count * threads does not fit 32 bits
    BOOST_TEST(covers(parts_of([&](auto&& body) { pool.split(huge, body); }), huge));
  }
}

BOOST_AUTO_TEST_CASE(share_covers_exactly_in_pieces_of_the_grain) {
  for (int threads = 1; threads <= 4; ++threads) {
    ThreadPool pool(threads);
    for (const int grain : {1, 2, 3, 7, 64}) {
      for (int count = 0; count <= 70; ++count) {
        const auto parts = parts_of([&](auto&& body) { pool.share(count, grain, body); });
        BOOST_TEST(covers(parts, count));
        if (threads > 1) {
          for (const Part& part : parts) BOOST_TEST(part.end - part.begin <= grain);
        }
      }
    }
  }
}

// Each thread walks its part in one direction, so that its prefetches are its own.
BOOST_AUTO_TEST_CASE(share_gives_each_thread_its_own_part_in_order_first) {
  constexpr int kCount = 100, kThreads = 4;
  ThreadPool pool(kThreads);
  std::vector<std::vector<int>> taken(kThreads);
  pool.share(kCount, 1, [&](int begin, int, int thread) { taken[static_cast<std::size_t>(thread)].push_back(begin); });
  for (int t = 0; t < kThreads; ++t) {
    const std::vector<int>& mine = taken[static_cast<std::size_t>(t)];
    // Owners in the order t, t + 1, ...; pieces of each owner in order.
    BOOST_TEST(std::is_sorted(mine.begin(), mine.end(), [&](int a, int b) {
      const auto rank = [&](int piece) {
        return (piece / (kCount / kThreads) + kThreads - t) % kThreads * kCount + piece;
      };
      return rank(a) < rank(b);
    }));
  }
}

// Uneven work: while one thread holds a piece, the others take the rest.
BOOST_AUTO_TEST_CASE(share_does_not_wait_for_the_slow) {
  ThreadPool pool(2);
  std::atomic<int> done{0};
  pool.share(10, 1, [&](int begin, int, int) {
    if (begin == 0) {
      while (done.load() < 9) std::this_thread::yield();
    }
    ++done;
  });
  BOOST_TEST(done == 10);
}

BOOST_AUTO_TEST_CASE(many_short_jobs_do_not_hang) {
  for (const auto& [threads, jobs] : {std::pair{2, 100'000}, {4, 100'000}}) {
    ThreadPool pool(threads);
    std::vector<std::int64_t> sums(static_cast<std::size_t>(threads) * 16, 0);  // a cache line each
    for (int job = 0; job < jobs; ++job) {
      pool.run([&, job](int t) { sums[static_cast<std::size_t>(t) * 16] += job; });
    }
    for (int t = 0; t < threads; ++t)
      BOOST_TEST(sums[static_cast<std::size_t>(t) * 16] == std::int64_t{jobs} * (jobs - 1) / 2);
  }
}

// Jobs so far apart that workers go to sleep, and pools that end in every state of their workers.
BOOST_AUTO_TEST_CASE(sleepers_wake_and_pools_end) {
  ThreadPool pool(3);
  std::atomic<int> calls{0};
  for (int job = 0; job < 20; ++job) {
    std::this_thread::sleep_for(std::chrono::milliseconds(job % 4));
    pool.run([&](int) { ++calls; });
  }
  BOOST_TEST(calls == 60);
  for (int i = 0; i < 1000; ++i) {
    ThreadPool brief(1 + i % 4);
    if (i % 3 == 0) brief.run([&](int) { ++calls; });
    if (i % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

BOOST_AUTO_TEST_CASE(two_pools_side_by_side) {
  std::atomic<int> calls{0};
  std::thread other([&] {
    ThreadPool pool(2);
    for (int i = 0; i < 500; ++i) pool.run([&](int) { ++calls; });
  });
  ThreadPool pool(2);
  for (int i = 0; i < 500; ++i) pool.run([&](int) { ++calls; });
  other.join();
  BOOST_TEST(calls == 2000);
}

// All threads see what the caller wrote before run(), and the caller sees their writes after it. Const jobs and
// temporaries run.
BOOST_AUTO_TEST_CASE(memory_is_ordered_across_a_job) {
  ThreadPool pool(3);
  std::vector<int> data(3000, 0);
  for (int round = 1; round <= 200; ++round) {
    std::fill(data.begin(), data.end(), round);
    const auto job = [&](int begin, int end) {
      for (int i = begin; i < end; ++i) data[static_cast<std::size_t>(i)] += data[static_cast<std::size_t>(i)];
    };
    pool.split(3000, job);
    if (std::count(data.begin(), data.end(), 2 * round) != 3000) BOOST_ERROR("round " << round);
  }
}

BOOST_AUTO_TEST_CASE(errors_of_parts_reach_the_caller_after_all_have_returned) {
  for (const int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 200; ++round) {
      std::atomic<int> parts{0};
      BOOST_CHECK_THROW(pool.run([&](int) {
        ++parts;
        throw std::runtime_error("part");
      }),
                        std::runtime_error);
      BOOST_TEST(parts == threads);
      pool.run([&](int) { --parts; });
      BOOST_TEST(parts == 0);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
