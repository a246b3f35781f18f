// The kernels, once per instruction set: for the tables of ops/cpu/kernels.h, and for tests and tools that compare
// sets.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "tenon/core/normal_float4.h"
#include "tenon/ops/cpu/kernel_types.h"
#include "tenon/ops/sincos.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace tenon::cpu {

// TENON_KERNEL begins each function of kernels/*.inc. TENON_UNROLL precedes a loop whose iterations depend on one
// another. CUDA's copy (ops/cuda/lanes.cuh) compiles both for the device.
#define TENON_KERNEL inline
#define TENON_UNROLL

namespace portable {
#include "tenon/ops/cpu/simd/portable.inc"
//
#include "tenon/ops/cpu/kernels/math.inc"
//
#include "tenon/ops/cpu/kernels/attention.inc"
#include "tenon/ops/cpu/kernels/attention_direct.inc"
#include "tenon/ops/cpu/kernels/linear.inc"
#include "tenon/ops/cpu/kernels/low_rank.inc"
#include "tenon/ops/cpu/kernels/norm.inc"
#include "tenon/ops/cpu/kernels/rotary.inc"
#include "tenon/ops/cpu/kernels/table.inc"
}  // namespace portable

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
namespace avx2 {
#include "tenon/ops/cpu/simd/avx2.inc"
//
#include "tenon/ops/cpu/kernels/math.inc"
//
#include "tenon/ops/cpu/kernels/attention.inc"
#include "tenon/ops/cpu/kernels/attention_direct.inc"
#include "tenon/ops/cpu/kernels/linear.inc"
#include "tenon/ops/cpu/kernels/low_rank.inc"
#include "tenon/ops/cpu/kernels/norm.inc"
#include "tenon/ops/cpu/kernels/rotary.inc"
#include "tenon/ops/cpu/kernels/table.inc"
}  // namespace avx2
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,bmi2,avx512f,avx512bw,avx512dq,avx512vl"))), \
                             apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,bmi2,avx512f,avx512bw,avx512dq,avx512vl")
#pragma GCC diagnostic push  // GCC 12 warns of undefined operands in its own intrinsics (GCC bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
namespace avx512 {
#include "tenon/ops/cpu/simd/avx512.inc"
//
#include "tenon/ops/cpu/kernels/math.inc"
//
#include "tenon/ops/cpu/kernels/attention.inc"
#include "tenon/ops/cpu/kernels/attention_direct.inc"
#include "tenon/ops/cpu/kernels/linear.inc"
#include "tenon/ops/cpu/kernels/low_rank.inc"
#include "tenon/ops/cpu/kernels/norm.inc"
#include "tenon/ops/cpu/kernels/rotary.inc"
#include "tenon/ops/cpu/kernels/table.inc"
}  // namespace avx512
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC diagnostic pop
#pragma GCC pop_options
#endif
#elif defined(__aarch64__)
namespace neon {
#include "tenon/ops/cpu/simd/neon.inc"
//
#include "tenon/ops/cpu/kernels/math.inc"
//
#include "tenon/ops/cpu/kernels/attention.inc"
#include "tenon/ops/cpu/kernels/attention_direct.inc"
#include "tenon/ops/cpu/kernels/linear.inc"
#include "tenon/ops/cpu/kernels/low_rank.inc"
#include "tenon/ops/cpu/kernels/norm.inc"
#include "tenon/ops/cpu/kernels/rotary.inc"
#include "tenon/ops/cpu/kernels/table.inc"
}  // namespace neon
#endif

#undef TENON_KERNEL
#undef TENON_UNROLL

}  // namespace tenon::cpu
