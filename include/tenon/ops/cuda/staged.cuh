// Copies from global into shared memory that nobody waits for until they are needed (PTX ISA). Each thread waits for
// its own of a few bytes (cp.async); a barrier behind that makes them everybody's. Copies of many bytes (cp.async.bulk,
// sm_90) are one thread's to ask for, and all wait for an Arrival of these.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tenon/device/cuda.cuh"

namespace tenon::cuda {

// Sixteen bytes, at a multiple of sixteen on both sides; they pass the first cache by.
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

// A multiple of sixteen bytes, of which `thread` of `threads` copies every so many.
__device__ inline void copy_by(void* to, const void* from, int bytes, int thread, int threads) {
  for (int at = 16 * thread; at < bytes; at += 16 * threads) {
    copy_16_bytes(static_cast<std::byte*>(to) + at, static_cast<const std::byte*>(from) + at);
  }
}

// Ends a group of copies of this thread's; wait_for_copies<N>() waits for all groups but the last N.
__device__ inline void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// A block's barriers 1 .. 15, each of so many of its threads, a multiple of 32: of whom some may only say that they
// have come.
__device__ inline void sync_threads(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ inline void arrive_threads(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

#if __CUDA_ARCH__ >= 900
// Opens again and again, each time when the bytes have come that its turn expects. In shared memory.
class Arrival {
 public:
  // By one thread, before a barrier of the block.
  __device__ void begin() {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address()) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  // By one thread, once a turn.
  __device__ void expect(int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()), "r"(bytes) : "memory");
  }
  // A multiple of sixteen bytes, at one on both sides.
  __device__ void copy(void* to, const void* from, int bytes) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     static_cast<std::uint32_t>(__cvta_generic_to_shared(to))),
                 "l"(from), "r"(bytes), "r"(address())
                 : "memory");
  }
  // turn: 0, 1, ..
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
