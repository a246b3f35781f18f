// Weights as Float16 has them, in products of NVIDIA's tensor cores. Activations beyond 65504 become infinite, as they
// do in any half-precision model. The file form is the same.
#pragma once
#include "tenon/weights/float16.h"
#include "tenon/weights/operand_weights.h"

namespace tenon {

struct Float16Mma : OperandWeights<Float16Code, float16> {};
static_assert(WeightPolicy<Float16Mma>);

}  // namespace tenon
