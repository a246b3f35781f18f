// NVIDIA's ModelOpt 0.47: FP8 (E4M3 with one scale per matrix or output) and NVFP4. Newer folders say so in
// config.json, older ones in hf_quant_config.json.
#pragma once
#include "tenon/checkpoint/quantized_tensors.h"

namespace tenon::detail {

/// Finds the matrices <name>.weight of type F8_E4M3 with <name>.weight_scale, and of type U8 with <name>.weight_scale
/// and <name>.weight_scale_2. Errors: those of decode_quantized.
void find_modelopt(QuantizedTensors& tensors);

}  // namespace tenon::detail

#ifndef TENON_COMPILED
#include "tenon/checkpoint/modelopt-inl.h"
#endif
