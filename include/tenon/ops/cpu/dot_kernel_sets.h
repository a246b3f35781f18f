// The kernels that round activations, once per instruction set: for the tables of ops/cpu/dot_kernels.h, and for tests
// and tools that compare sets.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "tenon/core/elements.h"
#include "tenon/ops/cpu/dot_kernel_types.h"
#include "tenon/ops/cpu/kernel_sets.h"

namespace tenon::cpu {

#if defined(__x86_64__)
/// While an object lives, subnormal inputs and results are zeros, so that fma equals vdpbf16ps. Only around calls that
/// are not inlined: compilers move no arithmetic across them.
class FlushedSubnormals {
 public:
  FlushedSubnormals() : before_(_mm_getcsr()) {
    _mm_setcsr(before_ | _MM_FLUSH_ZERO_ON | 0x0040u);
  }  // 0x0040: flush inputs, too
  ~FlushedSubnormals() { _mm_setcsr(before_); }
  FlushedSubnormals(const FlushedSubnormals&) = delete;
  FlushedSubnormals& operator=(const FlushedSubnormals&) = delete;

 private:
  unsigned before_;
};
#endif

namespace portable {
#include "tenon/ops/cpu/simd/dot_portable.inc"
//
#include "tenon/ops/cpu/kernels/dot.inc"
}  // namespace portable

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
namespace avx2_dot {
using namespace avx2;
#include "tenon/ops/cpu/simd/dot_ymm.inc"
//
#include "tenon/ops/cpu/simd/dot_avx2.inc"
//
#include "tenon/ops/cpu/kernels/dot.inc"
}  // namespace avx2_dot
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avxvnni"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avxvnni")
#endif
namespace avx2_vnni {
using namespace avx2;
#include "tenon/ops/cpu/simd/dot_ymm.inc"
//
#include "tenon/ops/cpu/simd/dot_avx_vnni.inc"
//
#include "tenon/ops/cpu/kernels/dot.inc"
}  // namespace avx2_vnni
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(                                                                               \
    __attribute__((target("avx2,fma,f16c,bmi2,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16"))), \
    apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,bmi2,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16")
#pragma GCC diagnostic push  // as in ops/cpu/kernels.h
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
namespace avx512_dot {
using namespace avx512;
#include "tenon/ops/cpu/simd/dot_zmm.inc"
//
#include "tenon/ops/cpu/simd/dot_avx512.inc"
//
#include "tenon/ops/cpu/kernels/dot.inc"
}  // namespace avx512_dot
namespace avx512_fma {
using namespace avx512;
#include "tenon/ops/cpu/simd/dot_zmm.inc"
//
#include "tenon/ops/cpu/simd/dot_avx512_fma.inc"
//
#include "tenon/ops/cpu/kernels/dot.inc"
}  // namespace avx512_fma
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(                                                                                        \
    __attribute__((target(                                                                                           \
        "avx2,fma,f16c,bmi2,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,amx-tile,amx-int8,amx-bf16"))), \
    apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target( \
    "avx2,fma,f16c,bmi2,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,amx-tile,amx-int8,amx-bf16")
#endif
namespace amx_dot {
using namespace avx512_dot;
#include "tenon/ops/cpu/simd/dot_amx.inc"
}  // namespace amx_dot
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC diagnostic pop
#pragma GCC pop_options
#endif
#elif defined(__aarch64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("dotprod"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+dotprod")
#endif
namespace neon_dot {
using namespace neon;
#include "tenon/ops/cpu/simd/dot_neon.inc"
//
#include "tenon/ops/cpu/kernels/dot.inc"
}  // namespace neon_dot
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

}  // namespace tenon::cpu
