// Products of packed weights, for every layout and instruction set.
#include "tenon/ops/cpu/kernels-inl.h"

namespace tenon::cpu {

template const PanelKernels<CodePanels<float>>& panel_kernels_for<CodePanels<float>>(Isa isa);
template const PanelKernels<CodePanels<std::int8_t>>& panel_kernels_for<CodePanels<std::int8_t>>(Isa isa);
template const PanelKernels<Int4Panels>& panel_kernels_for<Int4Panels>(Isa isa);
template const PanelKernels<NormalFloat4Panels>& panel_kernels_for<NormalFloat4Panels>(Isa isa);
template const PanelKernels<GroupInt8Panels>& panel_kernels_for<GroupInt8Panels>(Isa isa);

}  // namespace tenon::cpu
