// Tensor-core instructions, and how a warp's threads hold their operands (PTX ISA, "Matrix fragments for mma").
#pragma once
#include <cstdint>
#include <type_traits>

#include "tenon/core/elements.h"
#include "tenon/device/cuda.cuh"

namespace tenon::cuda {

/// Row and column of sums[i] of a warp's thread `lane` in sums[16, 8].
__device__ inline int row_of_sum(int lane, int i) { return lane / 4 + 8 * (i / 2); }
__device__ inline int column_of_sum(int lane, int i) { return 2 * (lane % 4) + i % 2; }

/// sums[16, 8] += a[16, 32] b[32, 8], exact while it fits 32 bits. Thread t of a warp, with r = t / 4 and c = t % 4,
/// holds
/// - a: rows r and r + 8 of columns 4 c .. 4 c + 3, then of columns 16 + 4 c ..; unsigned, one byte each;
/// - b: rows 4 c .. of column r, then rows 16 + 4 c ..; signed;
/// - sums: what row_of_sum and column_of_sum say.
__device__ inline void multiply_add(std::int32_t (&sums)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// sums[16, 8] += a[16, 16] b[16, 8] for pairs of sixteen-bit floats. A register holds columns 2 c and 2 c + 1 where
/// above it holds four, and columns 8 + 2 c ... A float sum adds sixteen products to its old value, in an order and
/// with roundings of the hardware. They are the same for every element, whatever its neighbours.
template <class E>
__device__ inline void multiply_add(float (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  if constexpr (std::is_same_v<E, bfloat16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
        "%2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    static_assert(std::is_same_v<E, float16>);
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

/// Loads four 8 x 8 matrices of sixteen-bit elements from shared memory. Lanes 8 i .. 8 i + 7 give the addresses of the
/// rows, sixteen bytes each, of matrix i. Thread t gets columns 2 (t % 4) and the next of row t / 4 of each.
__device__ inline void load_matrices(std::uint32_t (&to)[4], std::uint32_t row_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row_address)
               : "memory");
}

/// The two floats of a register of bfloat16.
__device__ inline float low_of_pair(std::uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ inline float high_of_pair(std::uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

/// 2^x by the hardware's approximation (PTX ISA, ex2.approx); 0 for -infinity.
__device__ inline float exp2_near(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

}  // namespace tenon::cuda
