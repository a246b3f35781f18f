// Copies from global into shared memory that nobody waits for until they are needed (cp.async; PTX ISA). Each thread waits for
// its own; a barrier behind that makes them everybody's.
#pragma once
#include <cstdint>

#include "tenon/device/cuda.cuh"

namespace tenon::cuda {

// Sixteen bytes, at a multiple of sixteen on both sides; they pass the first cache by.
__device__ inline void copy_16_bytes(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(to))), "l"(from)
               : "memory");
}
__device__ inline void copy_float(float* to, const float* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(to))), "l"(from)
               : "memory");
}

// Ends a group of copies of this thread's; wait_for_copies<N>() waits for all groups but the last N.
__device__ inline void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

}  // namespace tenon::cuda
