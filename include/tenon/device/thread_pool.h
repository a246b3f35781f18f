// A fixed set of threads that runs one job at a time. Workers spin briefly between jobs, then sleep.
#pragma once
#include <atomic>
#include <climits>
#include <cstdint>
#include <exception>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenon/core/require.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tenon {

/// Runs jobs in parts on a fixed number of threads, the caller's included.
class ThreadPool {
 public:
  /// `threads` counts the caller's thread: 1 starts none. Throws Error (capacity) if the system refuses a thread.
  explicit ThreadPool(int threads);
  ~ThreadPool() { end(); }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  /// First index of part `part` where 0..count-1 is cut evenly among the threads.
  int part_begin(int count, int part) const;

  /// Calls job(part) once for each part 0..threads-1 and returns when all have returned. A free thread takes the next
  /// part, so a thread that has not begun delays no part. The pool runs one job at a time: do not call from
  /// two threads or from within a job. An exception of a part is rethrown here after all parts have returned.
  template <class Job>
  void run(Job&& job) {
    if (threads_ == 1) return job(0);
    job_ = [](void* context, int part) { (*static_cast<std::remove_reference_t<Job>*>(context))(part); };
    context_ = const_cast<void*>(static_cast<const void*>(std::addressof(job)));
    unfinished_.store(threads_, std::memory_order_relaxed);
    next_part_.store(0, std::memory_order_release);
    jobs_.fetch_add(1, std::memory_order_release);
    jobs_.notify_all();
    take_parts();
    for (int spins = 0; unfinished_.load(std::memory_order_acquire) != 0; ++spins) {
      if (spins < kSpins)
        pause();
      else
        std::this_thread::yield();
    }
    if (failed_.exchange(false)) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  /// Splits 0..count-1 into one contiguous part per thread and calls body(begin, end). For work that all threads do at
  /// the same rate.
  template <class Body>
  void split(int count, Body&& body) {
    if (count <= 1 || threads_ == 1) {
      if (count > 0) body(0, count);
      return;
    }
    run([&](int t) {
      if (part_begin(count, t) < part_begin(count, t + 1)) body(part_begin(count, t), part_begin(count, t + 1));
    });
  }

  /// Cuts 0..count-1 into pieces of at most `grain` and calls body(begin, end, thread), one call at a time per thread.
  /// Each thread takes the pieces of its own contiguous part in order, so that it prefetches what it reads itself, then
  /// pieces that other threads have left. With one thread, all of it is one piece.
  template <class Body>
  void share(int count, int grain, Body&& body) {
    if (count <= grain || threads_ == 1) {
      if (count > 0) body(0, count, 0);
      return;
    }
    const int pieces = (count - 1) / grain + 1;
    for (int t = 0; t < threads_; ++t) {
      if (part_begin(pieces, t) < part_begin(pieces, t + 1)) {
        next_piece_[index(t)].value.store(part_begin(pieces, t), std::memory_order_relaxed);
      }
    }
    run([&](int thread) {
      for (int i = 0; i < threads_; ++i) {
        const int owner = (thread + i) % threads_, end = part_begin(pieces, owner + 1);
        if (part_begin(pieces, owner) == end) continue;
        std::atomic<int>& next = next_piece_[index(owner)].value;
        // Read first: fetch_add on a finished part would take its cache line from the owner.
        while (next.load(std::memory_order_relaxed) < end) {
          const int piece = next.fetch_add(1, std::memory_order_relaxed);
          if (piece < end) body(piece * grain, piece < pieces - 1 ? (piece + 1) * grain : count, thread);
        }
      }
    });
  }

 private:
  // A pause takes some 40 cycles: 40 us at 4 GHz, longer than the gaps within a step.
  static constexpr int kSpins = 4000;

  static void pause() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");  // waits longer than `yield`, which does nothing on many processors
#endif
  }

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  void end();

  // A worker may arrive after its job has ended. The counter then says that no part is left, or it belongs to the next
  // job, whose fields were written before the counter.
  void take_parts();

  void work();

  const int threads_;
  void (*job_)(void*, int) = nullptr;
  void* context_ = nullptr;
  std::atomic<bool> stop_{false};  // atomic: a late worker of the last job reads it while the destructor writes it
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;  // from the first part that threw; read after all parts have returned
  struct alignas(64) Next {
    std::atomic<int> value{0};
  };
  std::vector<Next> next_piece_;                    // [threads]: the next piece of each thread's own part, in share()
  alignas(64) std::atomic<std::uint32_t> jobs_{0};  // number of jobs; written by the caller alone
  alignas(64) std::atomic<int> next_part_{INT_MAX / 2};
  alignas(64) std::atomic<int> unfinished_{0};  // parts of the current job
  std::vector<std::thread> workers_;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/device/thread_pool-inl.h"
#endif
