// The inner loops of matrix products that round activations, too: for AMX, for AVX-512 with VNNI and BF16, for AVX2
// with VNNI and without, and in plain C++. Beside ops/cpu/kernels.h, since only programs that name such a weight format
// should compile them.
#pragma once
#include <initializer_list>
#include <type_traits>

#include "tenon/core/panels.h"
#include "tenon/ops/cpu/dot_kernel_types.h"
#include "tenon/ops/cpu/kernels.h"

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

// Whether the kernels of simd/dot_amx.inc take this weight.
template <class Layout>
bool fits_tile_registers(const Layout& weight) {
  if constexpr (std::is_same_v<Layout, Int4Quads>)
    return weight.group == 32 || weight.group == 64 || weight.group == 128;
  else
    return !std::is_same_v<Layout, BFloat16Pairs>;
}

// Both AVX-512 sets are compiled for VNNI and BF16, but only avx512_dot, for pairs, and amx_dot, for blocks of them,
// use BF16's instructions, which Ice Lake and Cascade Lake lack. Pairs in blocks are nothing for vdpbf16ps, whose sums
// are in another order.
template <class Layout>
bool has_dot_isa(DotIsa isa, const DotFeatures& features = dot_features(), const Layout& weight = {}) {
  constexpr bool kPairs = std::is_same_v<Layout, BFloat16Pairs>, kBlocks = std::is_same_v<Layout, BFloat16Blocks>;
  const bool vnni = features.isa == Isa::avx512 && features.avx512_vnni;
  const bool tiles = kBlocks ? features.amx_bf16 && features.avx512_bf16 : features.amx_int8;
  switch (isa) {
    case DotIsa::amx:
      return vnni && tiles && fits_tile_registers(weight) && features.may_use_tiles();
    case DotIsa::avx512:
      return !kBlocks && vnni && (!kPairs || features.avx512_bf16);
    case DotIsa::avx512_fma:
      return kOfPairs<Layout> && vnni;
    case DotIsa::avx2_vnni:
      return !kOfPairs<Layout> && features.isa >= Isa::avx2 && features.avx_vnni;
    case DotIsa::avx2:
      return features.isa >= Isa::avx2;
    case DotIsa::portable:
      break;
  }
  return true;
}

// The fastest one that a device with these instructions has for the weight.
template <class Layout>
DotIsa dot_isa(Isa isa, const DotFeatures& features = dot_features(), const Layout& weight = {}) {
  const auto first_of = [&](std::initializer_list<DotIsa> sets) {
    for (const DotIsa each : sets) {
      if (has_dot_isa(each, features, weight)) return each;
    }
    return DotIsa::portable;
  };
  if (isa == Isa::portable) return DotIsa::portable;
  if (isa == Isa::avx2) return first_of({DotIsa::avx2_vnni, DotIsa::avx2});
  if (features.slow_bf16)
    return first_of({DotIsa::amx, DotIsa::avx512_fma, DotIsa::avx512, DotIsa::avx2_vnni, DotIsa::avx2});
  return first_of({DotIsa::amx, DotIsa::avx512, DotIsa::avx512_fma, DotIsa::avx2_vnni, DotIsa::avx2});
}

template <class Layout>
const DotKernels<Layout>& dot_kernels_of(DotIsa isa);

#ifdef TENON_COMPILED
extern template const DotKernels<Int8Quads>& dot_kernels_of<Int8Quads>(DotIsa isa);
extern template const DotKernels<Int4Quads>& dot_kernels_of<Int4Quads>(DotIsa isa);
extern template const DotKernels<BFloat16Pairs>& dot_kernels_of<BFloat16Pairs>(DotIsa isa);
extern template const DotKernels<BFloat16Blocks>& dot_kernels_of<BFloat16Blocks>(DotIsa isa);
#endif

template <class Layout>
const DotKernels<Layout>& dot_kernels_for(Isa isa, const Layout& weight) {
  return dot_kernels_of<Layout>(dot_isa(isa, dot_features(), weight));
}

}  // namespace tenon::cpu

#ifndef TENON_COMPILED
#include "tenon/ops/cpu/dot_kernels-inl.h"
#endif
