// The instructions of a processor that multiply rounded activations.
#pragma once
#include "tenon/core/require.h"
#include "tenon/device/cpu.h"

namespace tenon::cpu {

/// Sets of kernels that round activations. A processor with AVX-512 may lack VNNI or BF16, and one without AVX-512 may
/// have AVX-VNNI. neon needs the dot products of Armv8.2.
enum class DotIsa { portable, neon, avx2, avx2_vnni, avx512_fma, avx512, amx };

/// Asks Linux for AMX's tile registers, once per process. The permission holds for the whole process and cannot be
/// returned.
///
/// Each thread that has used tiles takes 8 KiB more in the kernel, and in the stack frame of a signal. From then on
/// sigaltstack() refuses a stack that is too small for such a frame (ENOMEM). Linux refuses the permission if a thread
/// already has such a stack; other kernels then multiply.
bool request_tile_permission();

/// Features of a processor beyond its Isa.
struct DotFeatures {
  Isa isa = Isa::portable;
  bool avx_vnni = false, avx512_vnni = false, avx512_bf16 = false;
  bool amx_int8 = false, amx_bf16 = false;
  bool neon_dot = false;                              ///< sdot (Armv8.2, FEAT_DotProd)
  bool slow_bf16 = false;                             ///< two fused multiply-adds beat vdpbf16ps (CpuTuning::slow_bf16)
  bool (*may_use_tiles)() = request_tile_permission;  ///< called only where tiles would be used
};

/// Features of this processor. Detected once: cpuid takes a microsecond or more under a hypervisor.
const DotFeatures& dot_features();

}  // namespace tenon::cpu

#ifndef TENON_COMPILED
#include "tenon/ops/cpu/dot_features-inl.h"
#endif
