// HQQ 0.2, as transformers saves it: a few tensors per matrix, most of which hold one number or a word.
#pragma once
#include "tenon/checkpoint/quantized_tensors.h"

namespace tenon::detail {

/// Finds the matrices <name>.W_q, .scale and .zero, which <name>.nbits, .group_size, .shape, .axis and others describe.
/// Errors: those of decode_quantized.
void find_hqq(QuantizedTensors& tensors);

}  // namespace tenon::detail

#ifndef TENON_COMPILED
#include "tenon/checkpoint/hqq-inl.h"
#endif
