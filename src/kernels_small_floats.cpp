// Products of packed 8-bit and 16-bit floating-point weights, for every instruction set.
#include "tenon/ops/cpu/kernels-inl.h"

namespace tenon::cpu {

template const PanelKernels<CodePanels<bfloat16>>& panel_kernels_for<CodePanels<bfloat16>>(Isa isa);
template const PanelKernels<CodePanels<float16>>& panel_kernels_for<CodePanels<float16>>(Isa isa);
template const PanelKernels<CodePanels<float8<E4M3>>>& panel_kernels_for<CodePanels<float8<E4M3>>>(Isa isa);
template const PanelKernels<CodePanels<float8<E5M2>>>& panel_kernels_for<CodePanels<float8<E5M2>>>(Isa isa);

}  // namespace tenon::cpu
