// Norms, activations, rotations and low-rank updates of rows, for every instruction set.
#include "tenon/ops/cpu/kernels-inl.h"

namespace tenon::cpu {

template const Kernels& kernels_for<>(Isa isa);
template const LowRankKernels& low_rank_kernels_for<>(Isa isa, FactorType type);

}  // namespace tenon::cpu
