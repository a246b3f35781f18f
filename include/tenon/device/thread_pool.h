// A fixed set of threads that runs one job at a time: workers spin briefly between jobs, then sleep.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "tenon/core/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tenon {

class ThreadPool {
 public:
  // `threads` includes the caller's own: 1 starts none.
  explicit ThreadPool(int threads) : threads_(threads < 1 ? 1 : threads) {
    try {
      for (int t = 1; t < threads_; ++t) workers_.emplace_back([this, t] { work(t); });
    } catch (const std::exception& e) {  // a thread that is not joined would end the program
      end();
      throw Error(Error::Kind::capacity, "threads", "the system refused " + std::to_string(threads_) + " threads: " + e.what());
    }
  }
  ~ThreadPool() { end(); }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls job(t) for t = 0..threads-1, each on its own thread (0 is the caller's), and returns when all have. One job at
  // a time: the caller must not call from two threads, or from within a job. `job` must not throw.
  template <class Job>
  void run(Job&& job) {
    if (threads_ == 1) return job(0);
    job_ = [](void* context, int t) { (*static_cast<std::remove_reference_t<Job>*>(context))(t); };
    context_ = const_cast<void*>(static_cast<const void*>(std::addressof(job)));
    unfinished_.store(threads_ - 1, std::memory_order_relaxed);
    start_.fetch_add(1, std::memory_order_release);
    start_.notify_all();
    job(0);
    for (int spins = 0; unfinished_.load(std::memory_order_acquire) != 0; ++spins) {
      if (spins < kSpins) pause();
      else std::this_thread::yield();
    }
  }

  // Contiguous parts of 0..count-1, one a thread: body(begin, end). For work that all threads do at the same rate.
  template <class Body>
  void split(int count, Body&& body) {
    if (count <= 1 || threads_ == 1) {
      if (count > 0) body(0, count);
      return;
    }
    run([&](int t) {
      const int begin = static_cast<int>(static_cast<std::int64_t>(count) * t / threads_);
      const int end = static_cast<int>(static_cast<std::int64_t>(count) * (t + 1) / threads_);
      if (begin < end) body(begin, end);
    });
  }

  // Pieces of at most `grain` of 0..count-1, to whichever thread is free: body(begin, end). For uneven work. One thread
  // alone gets all of it as one piece.
  template <class Body>
  void share(int count, int grain, Body&& body) {
    if (count <= grain || threads_ == 1) {
      if (count > 0) body(0, count);
      return;
    }
    std::atomic<int> next{0};
    run([&](int) {
      for (int begin; (begin = next.fetch_add(grain, std::memory_order_relaxed)) < count;) {
        body(begin, begin + grain < count ? begin + grain : count);
      }
    });
  }

 private:
  // About 50 us at 4 GHz (a pause is some 40 cycles): longer than the gaps within a step, shorter than anybody minds.
  static constexpr int kSpins = 4000;

  static void pause() {
#if defined(__x86_64__)
    _mm_pause();
#endif
  }

  void end() {
    stop_ = true;
    start_.fetch_add(1, std::memory_order_release);
    start_.notify_all();
    for (auto& worker : workers_) worker.join();
  }

  void work(int t) {
    std::uint32_t seen = 0;
    for (;;) {
      for (int spins = 0; start_.load(std::memory_order_acquire) == seen && spins < kSpins; ++spins) pause();
      start_.wait(seen, std::memory_order_acquire);
      ++seen;
      if (stop_) return;
      job_(context_, t);
      unfinished_.fetch_sub(1, std::memory_order_release);
    }
  }

  const int threads_;
  void (*job_)(void*, int) = nullptr;
  void* context_ = nullptr;
  bool stop_ = false;
  alignas(64) std::atomic<std::uint32_t> start_{0};     // counts jobs; written by the caller only
  alignas(64) std::atomic<int> unfinished_{0};          // workers still in the current job
  std::vector<std::thread> workers_;
};

}  // namespace tenon
