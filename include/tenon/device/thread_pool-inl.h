#pragma once
#include <memory>
#include <string>

#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/device/thread_pool.h"

namespace tenon {

TENON_INLINE ThreadPool::ThreadPool(int threads) : threads_(threads < 1 ? 1 : threads), next_piece_(index(threads_)) {
  try {
    for (int t = 1; t < threads_; ++t) workers_.emplace_back([this] { work(); });
  } catch (const std::exception& e) {  // an unjoined thread would end the program
    end();
    throw Error(Error::Kind::capacity, "threads",
                "the system refused " + std::to_string(threads_) + " threads: " + e.what());
  }
}

TENON_INLINE int ThreadPool::part_begin(int count, int part) const {
  return static_cast<int>(static_cast<std::int64_t>(count) * part / threads_);
}

TENON_INLINE void ThreadPool::end() {
  stop_ = true;
  jobs_.fetch_add(1, std::memory_order_release);
  jobs_.notify_all();
  for (auto& worker : workers_) worker.join();
}

TENON_INLINE void ThreadPool::take_parts() {
  for (int part; (part = next_part_.fetch_add(1, std::memory_order_acq_rel)) < threads_;) {
    try {
      job_(context_, part);
    } catch (...) {
      if (!failed_.exchange(true)) failure_ = std::current_exception();
    }
    unfinished_.fetch_sub(1, std::memory_order_release);
  }
}

TENON_INLINE void ThreadPool::work() {
  for (std::uint32_t seen = 0;;) {
    for (int spins = 0; jobs_.load(std::memory_order_acquire) == seen && spins < kSpins; ++spins) pause();
    jobs_.wait(seen, std::memory_order_acquire);
    seen = jobs_.load(std::memory_order_acquire);
    if (stop_) return;
    take_parts();
  }
}

}  // namespace tenon
