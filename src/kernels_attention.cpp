// Attention for every element type of keys and values and every instruction set.
#include "tenon/ops/cpu/kernels-inl.h"

namespace tenon::cpu {

template const AttentionKernels<float>& attention_kernels_for<float>(Isa isa);
template const AttentionKernels<bfloat16>& attention_kernels_for<bfloat16>(Isa isa);
template const AttentionKernels<float16>& attention_kernels_for<float16>(Isa isa);
template const AttentionKernels<std::int8_t>& attention_kernels_for<std::int8_t>(Isa isa);

}  // namespace tenon::cpu
