// Products that also round activations, for every layout and instruction set.
#include "tenon/ops/cpu/dot_kernels-inl.h"

namespace tenon::cpu {

template const DotKernels<Int8Quads>& dot_kernels_of<Int8Quads>(DotIsa isa);
template const DotKernels<Int4Quads>& dot_kernels_of<Int4Quads>(DotIsa isa);
template const DotKernels<BFloat16Pairs>& dot_kernels_of<BFloat16Pairs>(DotIsa isa);
template const DotKernels<BFloat16Blocks>& dot_kernels_of<BFloat16Blocks>(DotIsa isa);

}  // namespace tenon::cpu
