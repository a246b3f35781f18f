// GPTQ, as gptqmodel 7.7 writes and decodes it, and AWQ in the order of AutoAWQ 0.2 ("gemm"). Both compute
// scale * (code - zero) in float16 with float16 scales. The product has at most 20 bits, so it is exact in float32; the
// library's value is this one rounded to float16.
#pragma once
#include "tenon/checkpoint/quantized_tensors.h"

namespace tenon::detail {

/// Finds the matrices <name>.qweight, .qzeros, .scales and .g_idx. Errors: those of decode_quantized.
void find_gptq(QuantizedTensors& tensors);

/// Finds the matrices <name>.qweight, .qzeros and .scales. Errors: those of decode_quantized.
void find_awq(QuantizedTensors& tensors);

}  // namespace tenon::detail

#ifndef TENON_COMPILED
#include "tenon/checkpoint/gptq-inl.h"
#endif
