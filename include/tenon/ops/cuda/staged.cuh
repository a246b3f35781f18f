// Asynchronous copies from global into shared memory (PTX ISA). Small copies belong to one thread, which waits for its
// own (cp.async); a barrier afterwards publishes them. One thread starts a bulk copy (cp.async.bulk, sm_90), and all
// threads wait for its Arrival.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tenon/device/cuda.cuh"

namespace tenon::cuda {

/// Copies sixteen bytes, aligned to sixteen on both sides, past L1.
__device__ inline void copy_16_bytes(void* to, const void* from) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(to))),
      "l"(from)
      : "memory");
}
__device__ inline void copy_float(float* to, const float* from) {
  asm volatile(
      "cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(to))),
      "l"(from)
      : "memory");
}

/// Copies a multiple of sixteen bytes; thread `thread` of `threads` takes every `threads`-th unit.
__device__ inline void copy_by(void* to, const void* from, int bytes, int thread, int threads) {
  for (int at = 16 * thread; at < bytes; at += 16 * threads) {
    copy_16_bytes(static_cast<std::byte*>(to) + at, static_cast<const std::byte*>(from) + at);
  }
}

/// Ends a group of this thread's copies. wait_for_copies<N>() waits for all groups but the last N.
__device__ inline void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/// Barriers 1 .. 15 of a block, each for `threads` of its threads, a multiple of 32. Some may only arrive, without
/// waiting.
__device__ inline void sync_threads(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ inline void arrive_threads(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

#if __CUDA_ARCH__ >= 900
/// A barrier in shared memory that opens once per turn, when the bytes of that turn have arrived.
class Arrival {
 public:
  /// By one thread, before a barrier of the block.
  __device__ void begin() {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address()) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  /// By one thread, once a turn.
  __device__ void expect(int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()), "r"(bytes) : "memory");
  }
  /// bytes: a multiple of sixteen, aligned on both sides.
  __device__ void copy(void* to, const void* from, int bytes) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     static_cast<std::uint32_t>(__cvta_generic_to_shared(to))),
                 "l"(from), "r"(bytes), "r"(address())
                 : "memory");
  }
  /// turn: 0, 1, ...
  __device__ void wait(int turn) {
    std::uint32_t open = 0;
    while (!open) {
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                   : "=r"(open)
                   : "r"(address()), "r"(turn & 1)
                   : "memory");
    }
  }

 private:
  __device__ std::uint32_t address() { return static_cast<std::uint32_t>(__cvta_generic_to_shared(&barrier_)); }
  std::uint64_t barrier_;
};
#endif

}  // namespace tenon::cuda
