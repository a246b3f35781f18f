// compressed-tensors 0.20, and fp8 in blocks as DeepSeek and Qwen3 publish it: integers or floats of 8 bits, or packed
// integers, with a scale per matrix, output, group or block. The library computes (code - zero) * scale in the dtype of
// the scales; this reader computes it in float32, with one rounding at most.
#pragma once
#include "tenon/checkpoint/quantized_tensors.h"

namespace tenon::detail {

/// Finds the matrices <name>.weight_packed, and <name>.weight of type I8 or F8_E4M3 with <name>.weight_scale. Errors:
/// those of decode_quantized.
void find_compressed_tensors(QuantizedTensors& tensors);

/// Finds the matrices <name>.weight of type F8_E4M3 with <name>.weight_scale_inv or <name>.weight_scale. Errors: those
/// of decode_quantized.
void find_fp8(QuantizedTensors& tensors);

}  // namespace tenon::detail

#ifndef TENON_COMPILED
#include "tenon/checkpoint/compressed_tensors-inl.h"
#endif
