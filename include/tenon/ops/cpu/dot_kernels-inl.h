// The tables of the sets of kernels that round activations.
#pragma once
#include <type_traits>

#include "tenon/core/require.h"
#include "tenon/ops/cpu/dot_kernel_sets.h"
#include "tenon/ops/cpu/dot_kernels.h"
#include "tenon/ops/cpu/kernels-inl.h"

namespace tenon::cpu {

template <class Layout>
const DotKernels<Layout>& dot_kernels_of([[maybe_unused]] DotIsa isa) {
#if defined(__x86_64__)
  if constexpr (!std::is_same_v<Layout, BFloat16Pairs>) {
    if (isa == DotIsa::amx) return amx_dot::dot_table<Layout>();
  }
  if constexpr (!std::is_same_v<Layout, BFloat16Blocks>) {
    if (isa == DotIsa::avx512) return avx512_dot::dot_table<Layout>();
  }
  if constexpr (kOfPairs<Layout>) {
    if (isa == DotIsa::avx512_fma) return avx512_fma::dot_table<Layout>();
  } else {
    if (isa == DotIsa::avx2_vnni) return avx2_vnni::dot_table<Layout>();
  }
  if (isa >= DotIsa::avx2) return avx2_dot::dot_table<Layout>();
#elif defined(__aarch64__)
  if (isa == DotIsa::neon) return neon_dot::dot_table<Layout>();
#endif
  return portable::dot_table<Layout>();
}

}  // namespace tenon::cpu
