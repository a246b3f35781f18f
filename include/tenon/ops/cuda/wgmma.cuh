// Products of sm_90's warpgroups, with operands in shared memory (PTX ISA, wgmma): d[64, N] += a[64, 16] b[N, 16]^T.
// A thread holds elements d[n][i] of its warp's 16 rows, from column 8 n on. row_of_sum and column_of_sum give their
// place.
#pragma once
#include <cstdint>
#include <type_traits>

#include "tenon/core/elements.h"
#include "tenon/core/operand_tiles.h"

namespace tenon::cuda {

/// Core matrices lie side by side in a chunk, and blocks of eight rows one after another, like in OperandTiles: no
/// swizzle.
__device__ inline std::uint64_t matrix_descriptor(std::uint32_t address) {
  constexpr std::uint64_t kAlongColumns = kCoreElements * 2 / 16,
                          kAlongRows = kCoreRows * kChunkColumns * 2 / 16;  // in sixteen bytes
  return std::uint64_t{(address & 0x3ffffu) >> 4} | kAlongColumns << 16 | kAlongRows << 32;
}
inline constexpr std::uint64_t kDescriptorStep = 2 * kCoreElements * 2 / 16;  ///< to the next sixteen columns

/// begin_products() fences the threads' registers and shared memory. end_products() closes a group of products.
/// wait_for_products<N>() waits for all groups but the last N.
__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
__device__ inline void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/// Keeps the compiler from moving uses of sums across this point: products write them asynchronously.
template <int Count>
__device__ __forceinline__ void for_registers_of_products(float (&d)[Count][4]) {
#pragma unroll
  for (int i = 0; i < 4 * Count; ++i) asm volatile("" : "+f"(d[i / 4][i % 4])::"memory");
}

// E: bfloat16 or float16, whose instructions differ by name. numbers: of the sums; a_and_b: of the descriptors after
// them.
#define TENON_GROUP_PRODUCT(n, numbers, a_and_b, ...)                                                                 \
  if constexpr (std::is_same_v<E, bfloat16>) {                                                                        \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" n "k16.f32.bf16.bf16 {" numbers "}, " a_and_b ", 1, 1, 1, 0, 0;" \
                 : __VA_ARGS__                                                                                        \
                 : "l"(a), "l"(b));                                                                                   \
  } else {                                                                                                            \
    static_assert(std::is_same_v<E, float16>);                                                                        \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" n "k16.f32.f16.f16 {" numbers "}, " a_and_b ", 1, 1, 1, 0, 0;"   \
                 : __VA_ARGS__                                                                                        \
                 : "l"(a), "l"(b));                                                                                   \
  }
#define TENON_FOUR_SUMS(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])

template <class E>
__device__ __forceinline__ void multiply_group(float (&d)[4][4], std::uint64_t a, std::uint64_t b) {
  TENON_GROUP_PRODUCT("32", "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15", "%16, %17",
                      TENON_FOUR_SUMS(0), TENON_FOUR_SUMS(1), TENON_FOUR_SUMS(2), TENON_FOUR_SUMS(3))
}

template <class E>
__device__ __forceinline__ void multiply_group(float (&d)[8][4], std::uint64_t a, std::uint64_t b) {
  TENON_GROUP_PRODUCT(
      "64",
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, "
      "%23, %24, %25, %26, %27, %28, %29, %30, %31",
      "%32, %33", TENON_FOUR_SUMS(0), TENON_FOUR_SUMS(1), TENON_FOUR_SUMS(2), TENON_FOUR_SUMS(3), TENON_FOUR_SUMS(4),
      TENON_FOUR_SUMS(5), TENON_FOUR_SUMS(6), TENON_FOUR_SUMS(7))
}

template <class E>
__device__ __forceinline__ void multiply_group(float (&d)[16][4], std::uint64_t a, std::uint64_t b) {
  TENON_GROUP_PRODUCT(
      "128",
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, "
      "%23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, "
      "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63",
      "%64, %65", TENON_FOUR_SUMS(0), TENON_FOUR_SUMS(1), TENON_FOUR_SUMS(2), TENON_FOUR_SUMS(3), TENON_FOUR_SUMS(4),
      TENON_FOUR_SUMS(5), TENON_FOUR_SUMS(6), TENON_FOUR_SUMS(7), TENON_FOUR_SUMS(8), TENON_FOUR_SUMS(9),
      TENON_FOUR_SUMS(10), TENON_FOUR_SUMS(11), TENON_FOUR_SUMS(12), TENON_FOUR_SUMS(13), TENON_FOUR_SUMS(14),
      TENON_FOUR_SUMS(15))
}

#undef TENON_FOUR_SUMS
#undef TENON_GROUP_PRODUCT

}  // namespace tenon::cuda
