// bitsandbytes 0.50: int8 with a scale per row (LLM.int8()), and NF4 or FP4 in blocks. Values are decoded by the
// float32 formulas of its `int8_vectorwise_dequant` and `dequantize_4bit`. The library then rounds 4-bit values to the
// dtype of the quantisation state; this reader does not.
#pragma once
#include "tenon/checkpoint/quantized_tensors.h"

namespace tenon::detail {

/// Finds the matrices <name>.weight with <name>.SCB, or with <name>.weight.quant_state.bitsandbytes__nf4 or __fp4.
/// Errors: those of decode_quantized.
void find_bitsandbytes(QuantizedTensors& tensors);

}  // namespace tenon::detail

#ifndef TENON_COMPILED
#include "tenon/checkpoint/bitsandbytes-inl.h"
#endif
