// Sixteen floats, one in each of sixteen threads of a warp: a fourth instruction set for ops/cpu/kernels/*.inc. It does
// the CPU's operations in the same order, so it gives the same bits. Control flow is the same for all sixteen threads;
// a value that all need is computed by all. Memory that one thread writes and another reads is shared or global, with a
// fence() between.
#pragma once
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "tenon/core/concepts.h"
#include "tenon/core/elements.h"
#include "tenon/device/cuda.cuh"
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/kernel_types.h"
#include "tenon/ops/sincos.h"

namespace tenon::cuda::lanes {

using cpu::kHeldTiles;
using cpu::kSharedWeights;
using cpu::kSplitPositions;

struct F32x16 {
  float v;
};
inline constexpr int kQueries = 4;           ///< queries that share keys in registers
inline constexpr int kAttentionQueries = 8;  ///< most queries of a job

/// Blocks have one dimension, a multiple of 32.
__device__ inline int lane() { return static_cast<int>(threadIdx.x & 15u); }
__device__ inline unsigned together() { return 0xffffu << (threadIdx.x & 16u); }
__device__ inline void fence() { __syncwarp(together()); }
__device__ inline void prefetch_line(const std::byte*) {}  ///< other warps run while one waits

__device__ inline F32x16 zero() { return {0.0f}; }
__device__ inline F32x16 broadcast(float x) { return {x}; }
template <class E>
__device__ inline F32x16 load(const E* p) {
  return {static_cast<float>(p[lane()])};
}
__device__ inline void store(float* p, F32x16 a) { p[lane()] = a.v; }
__device__ inline F32x16 load_n(const float* p, int n) { return {lane() < n ? p[lane()] : 0.0f}; }
__device__ inline void store_n(float* p, F32x16 a, int n) {
  if (lane() < n) p[lane()] = a.v;
}
/// Intrinsics, because nvcc would fuse a bare product and sum.
__device__ inline F32x16 add(F32x16 a, F32x16 b) { return {__fadd_rn(a.v, b.v)}; }
__device__ inline F32x16 sub(F32x16 a, F32x16 b) { return {__fsub_rn(a.v, b.v)}; }
__device__ inline F32x16 mul(F32x16 a, F32x16 b) { return {__fmul_rn(a.v, b.v)}; }
__device__ inline F32x16 div(F32x16 a, F32x16 b) { return {__fdiv_rn(a.v, b.v)}; }
__device__ inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {__fmaf_rn(a.v, b.v, c.v)}; }
__device__ inline F32x16 max(F32x16 a, F32x16 b) { return {a.v > b.v ? a.v : b.v}; }
__device__ inline F32x16 min(F32x16 a, F32x16 b) { return {a.v < b.v ? a.v : b.v}; }
__device__ inline F32x16 select_less(F32x16 a, F32x16 b, F32x16 x, F32x16 y) { return {a.v < b.v ? x.v : y.v}; }
__device__ inline F32x16 keep_first(F32x16 a, int n, float other) { return {lane() < n ? a.v : other}; }
__device__ inline F32x16 drop_first(F32x16 a, int n, float other) { return {lane() < n ? other : a.v}; }
__device__ inline F32x16 round(F32x16 a) { return {rintf(a.v)}; }
__device__ inline F32x16 exp2_whole(F32x16 a) {
  return {__uint_as_float((__float_as_uint(__fadd_rn(a.v, 12582912.0f)) + 127u) << 23)};
}
__device__ inline F32x16 abs(F32x16 a) { return {fabsf(a.v)}; }
__device__ inline F32x16 copy_sign(F32x16 a, F32x16 b) { return {copysignf(a.v, b.v)}; }
__device__ inline float first(F32x16 a) { return __shfl_sync(together(), a.v, 0, 16); }
/// i with i + 8, then + 4, + 2, + 1. Half of the lanes add in the other order, with the same result.
__device__ inline float sum(F32x16 a) {
  for (int width = 8; width > 0; width /= 2) a.v = __fadd_rn(a.v, __shfl_xor_sync(together(), a.v, width, 16));
  return a.v;
}
__device__ inline float largest(F32x16 a) {
  for (int width = 8; width > 0; width /= 2) {
    const float other = __shfl_xor_sync(together(), a.v, width, 16);
    a.v = a.v > other ? a.v : other;
  }
  return a.v;
}

#define TENON_KERNEL __device__ inline
#define TENON_UNROLL _Pragma("unroll 8")  // loads go ahead of a chain
#include "tenon/ops/cpu/kernels/math.inc"
//
#include "tenon/ops/cpu/kernels/attention.inc"
#include "tenon/ops/cpu/kernels/attention_direct.inc"
#include "tenon/ops/cpu/kernels/norm.inc"
#include "tenon/ops/cpu/kernels/rotary.inc"
#undef TENON_KERNEL
#undef TENON_UNROLL

/// Blocks of kThreads threads do kRowsABlock rows or jobs at once, with sixteen threads each.
inline constexpr int kThreads = 128, kRowsABlock = kThreads / 16;

__device__ inline int job_of_thread() {
  return static_cast<int>(blockIdx.x) * kRowsABlock + static_cast<int>(threadIdx.x) / 16;
}
inline dim3 blocks_for(std::size_t jobs) { return blocks(jobs, kRowsABlock); }

}  // namespace tenon::cuda::lanes
