// The inner loops of matrix products that round activations, for AMX, AVX-512 with VNNI and BF16, AVX2 with and without
// VNNI, NEON, and plain C++. Apart from ops/cpu/kernels.h, because only programs that name such a weight format should
// compile them.
#pragma once
#include <initializer_list>
#include <type_traits>

#include "tenon/core/panels.h"
#include "tenon/ops/cpu/dot_features.h"
#include "tenon/ops/cpu/dot_kernel_types.h"
#include "tenon/ops/cpu/kernels.h"

namespace tenon::cpu {

/// Whether the kernels of simd/dot_amx.inc take this weight.
template <class Layout>
bool fits_tile_registers(const Layout& weight) {
  if constexpr (std::is_same_v<Layout, Int4Quads>)
    return weight.group == 32 || weight.group == 64 || weight.group == 128;
  else
    return !std::is_same_v<Layout, BFloat16Pairs>;
}

/// Whether a device with these features has the set for this weight. Both AVX-512 sets are compiled for VNNI and BF16.
/// Only avx512_dot, for pairs, and amx_dot, for blocks of pairs, use BF16 instructions, which Ice Lake and Cascade Lake
/// lack. vdpbf16ps cannot multiply blocks: its sums have another order.
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
    case DotIsa::neon:
      return features.isa == Isa::neon && features.neon_dot;
    case DotIsa::portable:
      break;
  }
  return true;
}

/// The fastest set for this weight on a device with these features.
template <class Layout>
DotIsa dot_isa(Isa isa, const DotFeatures& features = dot_features(), const Layout& weight = {}) {
  const auto first_of = [&](std::initializer_list<DotIsa> sets) {
    for (const DotIsa each : sets) {
      if (has_dot_isa(each, features, weight)) return each;
    }
    return DotIsa::portable;
  };
  if (isa == Isa::portable) return DotIsa::portable;
  if (isa == Isa::neon) return first_of({DotIsa::neon});
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
