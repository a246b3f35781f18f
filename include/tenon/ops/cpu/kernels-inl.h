// The tables of the sets of kernels.
#pragma once
#include "tenon/ops/cpu/kernel_sets.h"
#include "tenon/ops/cpu/kernels.h"

namespace tenon::cpu {

template <class>
const Kernels& kernels_for([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512) return avx512::table();
  if (isa == Isa::avx2) return avx2::table();
#elif defined(__aarch64__)
  if (isa == Isa::neon) return neon::table();
#endif
  return portable::table();
}

template <class Layout>
const PanelKernels<Layout>& panel_kernels_for([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512) return avx512::panel_table<Layout>(cpu_tuning().widening);
  if (isa == Isa::avx2) return avx2::panel_table<Layout>(Widening::in_registers);
#elif defined(__aarch64__)
  if (isa == Isa::neon) return neon::panel_table<Layout>(Widening::in_registers);
#endif
  return portable::panel_table<Layout>(Widening::in_registers);
}

template <class E, class Job>
const AttentionKernels<E, Job>& attention_kernels_for([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512) return avx512::attention_table<E, Job>();
  if (isa == Isa::avx2) return avx2::attention_table<E, Job>();
#elif defined(__aarch64__)
  if (isa == Isa::neon) return neon::attention_table<E, Job>();
#endif
  return portable::attention_table<E, Job>();
}

template <class>
const LowRankKernels& low_rank_kernels_for([[maybe_unused]] Isa isa, FactorType type) {
#if defined(__x86_64__)
  if (isa == Isa::avx512) return avx512::low_rank_table(type);
  if (isa == Isa::avx2) return avx2::low_rank_table(type);
#elif defined(__aarch64__)
  if (isa == Isa::neon) return neon::low_rank_table(type);
#endif
  return portable::low_rank_table(type);
}

}  // namespace tenon::cpu
