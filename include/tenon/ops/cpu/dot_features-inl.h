#pragma once
#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "tenon/core/require.h"
#include "tenon/device/cpu_tuning.h"
#include "tenon/ops/cpu/dot_features.h"

namespace tenon::cpu {

TENON_INLINE bool request_tile_permission() {
#if defined(__x86_64__) && defined(__linux__)
  enum : long { kRequestPermission = 0x1023, kTileData = 18 };  // numbers and names of Linux's arch/x86/xstate.rst
  static const bool granted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return granted;
#else
  return false;
#endif
}

TENON_INLINE const DotFeatures& dot_features() {
  static const DotFeatures features = [] {
    DotFeatures found{best_isa()};
#if defined(__x86_64__)
    unsigned a = 0, b = 0, c = 0, d = 0;
    found.avx_vnni =
        // not every compiler knows AVX-VNNI by name
        __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & 1u << 4) != 0;
    found.avx512_vnni = __builtin_cpu_supports("avx512vnni");
    found.avx512_bf16 = __builtin_cpu_supports("avx512bf16");
    found.slow_bf16 = cpu_tuning().slow_bf16;
    constexpr unsigned kPairs = 1u << 22, kTiles = 1u << 24, kBytes = 1u << 25;  // AMX-BF16, AMX-TILE, AMX-INT8
    const bool tiles = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kTiles) != 0;
    found.amx_int8 = tiles && (d & kBytes) != 0;
    found.amx_bf16 = tiles && (d & kPairs) != 0;
#elif defined(__aarch64__) && defined(__linux__)
    found.neon_dot = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#elif defined(__aarch64__) && defined(__APPLE__)
    found.neon_dot = true;
#endif
    return found;
  }();
  return features;
}

}  // namespace tenon::cpu
