// A ring of stages in shared memory, filled by one or two warps and read by the others. Copies of many stages are in
// flight at once. On sm_90 one lane copies in bulk and counts bytes; before it, every lane copies sixteen bytes at a
// time.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tenon/device/cuda.cuh"

namespace tenon::cuda {

__device__ inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

#if __CUDA_ARCH__ >= 900
inline constexpr int kFillers = 1;  ///< lanes of a filling warp that fill
#else
inline constexpr int kFillers = 32;
#endif

/// Whether this lane of a whole warp fills. elect.sync tells the assembler that one lane is active, so that it needs no
/// loop over lanes.
__device__ inline bool is_filler() {
#if __CUDA_ARCH__ >= 900
  std::uint32_t elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
  return elected != 0;
#else
  return true;
#endif
}

/// An mbarrier in shared memory. Turn t ends after its arrivals and after all bytes that they expect.
class RingBarrier {
 public:
  /// By one thread, before a barrier of the block.
  __device__ void begin(int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(&word_)), "r"(arrivals) : "memory");
  }
  __device__ void arrive() {
    asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" ::"r"(shared_address(&word_)) : "memory");
  }
  /// Whether a turn has ended; a barrier tells two consecutive turns apart. turn: 0, 1, ...
  __device__ bool has_ended(int turn) {
    std::uint32_t ended;
#if __CUDA_ARCH__ >= 900
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(ended)
                 : "r"(shared_address(&word_)), "r"(turn & 1)
                 : "memory");
#else
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(ended)
                 : "r"(shared_address(&word_)), "r"(turn & 1)
                 : "memory");
#endif
    return ended != 0;
  }
  __device__ void wait(int turn) {
    while (!has_ended(turn)) {
    }
  }

  /// Called by the filling lanes. bytes: a multiple of sixteen, with both addresses; 0 copies nothing.
  __device__ void fill(void* to, const void* from, int bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&word_)), "r"(bytes)
                 : "memory");
    if (bytes > 0) {
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                       shared_address(to)),
                   "l"(from), "r"(bytes), "r"(shared_address(&word_))
                   : "memory");
    }
#else
    for (int at = 16 * static_cast<int>(threadIdx.x % 32); at < bytes; at += 16 * 32) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to) + at),
                   "l"(static_cast<const std::byte*>(from) + at)
                   : "memory");
    }
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(&word_)) : "memory");
#endif
  }

 private:
  std::uint64_t word_;
};

inline constexpr int kMostStages = CudaTuning::ring_stages;

/// The barriers of a block's ring. A stage is filled in `parts` parts; `readers` warps or groups report that they have
/// read it.
struct StageRing {
  RingBarrier full[kMostStages], empty[kMostStages];

  /// By the whole block.
  __device__ void begin(int stages, int parts, int readers) {
    for (int s = static_cast<int>(threadIdx.x); s < stages; s += static_cast<int>(blockDim.x)) {
      full[s].begin(parts * kFillers);
      empty[s].begin(readers);
    }
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
    __syncthreads();
  }
};

/// A kernel's position in its ring.
struct RingPlace {
  int stage = 0, turn = 0;
  __device__ void next(int stages) {
    if (++stage == stages) stage = 0, ++turn;
  }
  __device__ int before(int stages) const { return (stage == 0 ? stages : stage) - 1; }  ///< the previous stage
};

}  // namespace tenon::cuda
