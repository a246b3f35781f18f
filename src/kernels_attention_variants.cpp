// Attention with hooks of a user's own, over every element of keys and values, for every instruction set. A unit apart:
// what is inlined in the kernels without hooks depends on the size of their unit.
#include "tenon/ops/cpu/kernels-inl.h"

namespace tenon::cpu {

template const AttentionKernels<float, VariantJob<float>>& attention_kernels_for<float, VariantJob<float>>(Isa isa);
template const AttentionKernels<bfloat16, VariantJob<bfloat16>>& attention_kernels_for<bfloat16, VariantJob<bfloat16>>(
    Isa isa);
template const AttentionKernels<float16, VariantJob<float16>>& attention_kernels_for<float16, VariantJob<float16>>(
    Isa isa);
template const AttentionKernels<std::int8_t, VariantJob<std::int8_t>>&
attention_kernels_for<std::int8_t, VariantJob<std::int8_t>>(Isa isa);

}  // namespace tenon::cpu
