// AutoRound 0.16: the tensors of GPTQ or AWQ, as packing_format says. Its layer of torch (qlinear_torch_zp.py) adds 1
// to each zero point by itself, without a carry.
#pragma once
#include "tenon/checkpoint/quantized_tensors.h"

namespace tenon::detail {

/// Finds all matrices of a checkpoint of AutoRound. Errors: those of decode_quantized.
void find_auto_round(QuantizedTensors& tensors);

}  // namespace tenon::detail

#ifndef TENON_COMPILED
#include "tenon/checkpoint/auto_round-inl.h"
#endif
