// Matrices in MXFP4 (Open Compute Project, Microscaling Formats, 2023), as OpenAI publishes the experts of gpt-oss:
// codes of 4 bits (E2M1), and an exponent (E8M0) for each 32 of them.
#pragma once
#include "tenon/checkpoint/quantized_tensors.h"

namespace tenon::detail {

// The tensors of mxfp4: <name>_blocks [experts, outputs, inputs / 32, 16] and <name>_scales [experts, outputs,
// inputs / 32], both U8. The matrices of all experts become one tensor <name> [experts, inputs, outputs].
void find_mxfp4(QuantizedTensors& tensors);

}  // namespace tenon::detail

#ifndef TENON_COMPILED
#include "tenon/checkpoint/mxfp4-inl.h"
#endif
