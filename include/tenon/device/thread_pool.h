// A fixed set of threads that runs one job at a time: workers spin briefly between jobs, then sleep.
#pragma once
#include <atomic>
#include <climits>
#include <cstdint>
#include <exception>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>

#include "tenon/core/require.h"
#endif

namespace tenon {

class ThreadPool {
 public:
  // `threads` includes the caller's own: 1 starts none.
  explicit ThreadPool(int threads);
  ~ThreadPool() { end(); }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Where a thread's own part of 0..count-1 begins, in split() and, of pieces, in share().
  int part_begin(int count, int part) const;

  // Calls job(part) once for each part 0..threads-1 and returns when all have returned. Whoever is free takes the next
  // part: the caller never waits for a thread that has no core, it does that thread's part. One job at a time: the
  // caller must not call from two threads, or from within a job. What a part throws is thrown here, once all have
  // returned.
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

  // Contiguous parts of 0..count-1, one a thread: body(begin, end). For work that all threads do at the same rate.
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

  // Pieces of at most `grain` of 0..count-1: body(begin, end, thread), no two at once for the same thread. Each thread
  // takes those of its own contiguous part in order, so that what it fetches ahead is its own, then what others have
  // left. One thread alone gets all of it as one piece.
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
        // Read first: adding to a part that is done takes its line from whoever has it.
        while (next.load(std::memory_order_relaxed) < end) {
          const int piece = next.fetch_add(1, std::memory_order_relaxed);
          if (piece < end) body(piece * grain, piece < pieces - 1 ? (piece + 1) * grain : count, thread);
        }
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

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  void end();

  // A part may be taken late, when its job has long been done by others: the counter then says that none is left, or it
  // is the next job's already, whose fields were written before the counter was.
  void take_parts();

  void work();

  const int threads_;
  void (*job_)(void*, int) = nullptr;
  void* context_ = nullptr;
  std::atomic<bool> stop_{false};  // atomic: a worker that comes late to the last job reads it while it is written
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;  // of the first part that threw; read once all have returned
  struct alignas(64) Next {
    std::atomic<int> value{0};
  };
  std::vector<Next> next_piece_;                    // [threads]: the next piece of each thread's own part, in share()
  alignas(64) std::atomic<std::uint32_t> jobs_{0};  // counts them; written by the caller only
  alignas(64) std::atomic<int> next_part_{INT_MAX / 2};
  alignas(64) std::atomic<int> unfinished_{0};  // parts of the current job
  std::vector<std::thread> workers_;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/device/thread_pool-inl.h"
#endif
