// Weights as BFloat16 has them, in products of NVIDIA's tensor cores. The file form is the same.
#pragma once
#include "tenon/weights/bfloat16.h"
#include "tenon/weights/operand_weights.h"

namespace tenon {

struct BFloat16Mma : OperandWeights<BFloat16Code, bfloat16> {};
static_assert(WeightPolicy<BFloat16Mma>);

}  // namespace tenon
