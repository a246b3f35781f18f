// Float16 weights for NVIDIA's tensor cores. Activations beyond 65504 become infinite, as in any half-precision model.
// Files are those of Float16.
#pragma once
#include "tenon/weights/float16.h"
#include "tenon/weights/operand_weights.h"

namespace tenon {

/// Weight policy: float16 weights and activations on tensor cores.
struct Float16Mma : OperandWeights<Float16Code, float16> {
  static constexpr NumericClass<Float16Mma> numeric_class{"float16_mma"};
};
static_assert(WeightPolicy<Float16Mma>);

}  // namespace tenon
