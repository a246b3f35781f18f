// BFloat16 weights for NVIDIA's tensor cores. Files are those of BFloat16.
#pragma once
#include "tenon/weights/bfloat16.h"
#include "tenon/weights/operand_weights.h"

namespace tenon {

/// Weight policy: bfloat16 weights and activations on tensor cores.
struct BFloat16Mma : OperandWeights<BFloat16Code, bfloat16> {
  static constexpr NumericClass<BFloat16Mma> numeric_class{"bfloat16_mma"};
};
static_assert(WeightPolicy<BFloat16Mma>);

}  // namespace tenon
