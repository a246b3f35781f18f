// Weights as bfloat16: the upper half of a float32, rounded to nearest.
#pragma once
#include "tenon/core/elements.h"
#include "tenon/weights/sixteen_bit_code.h"

namespace tenon {

/// The code of bfloat16 weights.
struct BFloat16Code : SixteenBitCode<bfloat16, DType::bf16> {
  static constexpr std::string_view name = "bfloat16";
};

/// Weight policy: bfloat16 weights in panels, float32 activations and sums.
struct BFloat16 : PanelWeights<BFloat16Code, bfloat16> {
  static constexpr NumericClass<BFloat16> numeric_class{BFloat16Code::name};
};
static_assert(WeightPolicy<BFloat16> && WeightCode<BFloat16Code>);

}  // namespace tenon
