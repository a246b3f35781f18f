// Which of the instructions that multiply rounded activations a processor has.
#pragma once
#include "tenon/core/require.h"
#include "tenon/device/cpu.h"

namespace tenon::cpu {

// Whose instructions multiply: a processor with AVX-512 may lack VNNI or BF16, and one without it may have AVX-VNNI.
enum class DotIsa { portable, avx2, avx2_vnni, avx512_fma, avx512, amx };

// Asks Linux for tile registers, once: leave is the whole process's from then on and cannot be given back. Each thread
// that has used them takes 8 KiB more, in the kernel and on its stack when a signal comes, and a sigaltstack() that is
// too small for that fails with ENOMEM. Linux refuses where a thread has such a stack already, and then everything is
// computed without.
bool request_tile_permission();

// What a processor has beside its Isa.
struct DotFeatures {
  Isa isa = Isa::portable;
  bool avx_vnni = false, avx512_vnni = false, avx512_bf16 = false;
  bool amx_int8 = false, amx_bf16 = false;
  bool slow_bf16 = false;  // two fused multiply-adds take half the time of vdpbf16ps (see simd/dot_avx512_fma.inc)
  bool (*may_use_tiles)() = request_tile_permission;  // called only where they would be used
};

// Asked once: cpuid takes a microsecond and more where a hypervisor answers.
const DotFeatures& dot_features();

}  // namespace tenon::cpu

#ifndef TENON_COMPILED
#include "tenon/ops/cpu/dot_features-inl.h"
#endif
