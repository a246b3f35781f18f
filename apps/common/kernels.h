// Kernels for three instruction sets take seconds to compile: kernels.cpp compiles them once for the programs and the
// examples. Those of attention over another element, and of products with another format of weights, are compiled by
// who uses them.
#pragma once
#include <cstdint>

#include "tenon/ops/cpu/kernels.h"

namespace tenon::cpu {

extern template const Kernels& kernels_for<>(Isa isa);
extern template const LowRankKernels& low_rank_kernels_for<>(Isa isa, FactorType type);
extern template const AttentionKernels<float>& attention_kernels_for<float>(Isa isa);
extern template const PanelKernels<CodePanels<float>>& panel_kernels_for<CodePanels<float>>(Isa isa);
extern template const PanelKernels<CodePanels<std::int8_t>>& panel_kernels_for<CodePanels<std::int8_t>>(Isa isa);

}  // namespace tenon::cpu
