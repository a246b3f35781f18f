// The inner loops of the CPU ops, written once and compiled three times: for AVX-512, for AVX2 with FMA, and in plain
// C++. A Cpu selects a table of function pointers by cpuid, so that programs built without -march are fast, too. The
// files in kernels/ use one 16-lane type, F32x16 of simd/. The same operations in the same order give the same bits.
#pragma once
#include <cstdint>

#include "tenon/core/panels.h"
#include "tenon/device/cpu.h"
#include "tenon/ops/cpu/kernel_types.h"

namespace tenon::cpu {

/// The kernel table of an instruction set, which lives as long as the program. These are templates, so that a
/// header-only program compiles only the tables that it uses.
template <class = void>
const Kernels& kernels_for(Isa isa);
template <class Layout>
const PanelKernels<Layout>& panel_kernels_for(Isa isa);
template <class E, class Job = FlashJob<E>>
const AttentionKernels<E, Job>& attention_kernels_for(Isa isa);
template <class = void>
const LowRankKernels& low_rank_kernels_for(Isa isa, FactorType type);

#ifdef TENON_COMPILED
/// The tables of every layout and element of the library. A format of your own is decoded into CodePanels<float>.
extern template const Kernels& kernels_for<>(Isa isa);
extern template const PanelKernels<CodePanels<float>>& panel_kernels_for<CodePanels<float>>(Isa isa);
extern template const PanelKernels<CodePanels<bfloat16>>& panel_kernels_for<CodePanels<bfloat16>>(Isa isa);
extern template const PanelKernels<CodePanels<float16>>& panel_kernels_for<CodePanels<float16>>(Isa isa);
extern template const PanelKernels<CodePanels<float8<E4M3>>>& panel_kernels_for<CodePanels<float8<E4M3>>>(Isa isa);
extern template const PanelKernels<CodePanels<float8<E5M2>>>& panel_kernels_for<CodePanels<float8<E5M2>>>(Isa isa);
extern template const PanelKernels<CodePanels<std::int8_t>>& panel_kernels_for<CodePanels<std::int8_t>>(Isa isa);
extern template const PanelKernels<Int4Panels>& panel_kernels_for<Int4Panels>(Isa isa);
extern template const PanelKernels<NormalFloat4Panels>& panel_kernels_for<NormalFloat4Panels>(Isa isa);
extern template const PanelKernels<GroupInt8Panels>& panel_kernels_for<GroupInt8Panels>(Isa isa);
extern template const AttentionKernels<float>& attention_kernels_for<float>(Isa isa);
extern template const AttentionKernels<bfloat16>& attention_kernels_for<bfloat16>(Isa isa);
extern template const AttentionKernels<float16>& attention_kernels_for<float16>(Isa isa);
extern template const AttentionKernels<std::int8_t>& attention_kernels_for<std::int8_t>(Isa isa);
extern template const AttentionKernels<float, VariantJob<float>>& attention_kernels_for<float, VariantJob<float>>(
    Isa isa);
extern template const AttentionKernels<bfloat16, VariantJob<bfloat16>>&
attention_kernels_for<bfloat16, VariantJob<bfloat16>>(Isa isa);
extern template const AttentionKernels<float16, VariantJob<float16>>&
attention_kernels_for<float16, VariantJob<float16>>(Isa isa);
extern template const AttentionKernels<std::int8_t, VariantJob<std::int8_t>>&
attention_kernels_for<std::int8_t, VariantJob<std::int8_t>>(Isa isa);
extern template const LowRankKernels& low_rank_kernels_for<>(Isa isa, FactorType type);
#endif

}  // namespace tenon::cpu

#ifndef TENON_COMPILED
#include "tenon/ops/cpu/kernels-inl.h"
#endif
