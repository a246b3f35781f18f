#include "kernels.h"

namespace tenon::cpu {

template const Kernels& kernels_for<>(Isa isa);
template const LowRankKernels& low_rank_kernels_for<>(Isa isa, FactorType type);
template const AttentionKernels<float>& attention_kernels_for<float>(Isa isa);
template const PanelKernels<CodePanels<float>>& panel_kernels_for<CodePanels<float>>(Isa isa);
template const PanelKernels<CodePanels<std::int8_t>>& panel_kernels_for<CodePanels<std::int8_t>>(Isa isa);

}  // namespace tenon::cpu
