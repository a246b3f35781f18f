// Weights as IEEE binary16, rounded to nearest. A model with weights of 65520 or more is refused.
#pragma once
#include "tenon/core/float16.h"
#include "tenon/weights/sixteen_bit_code.h"

namespace tenon {

/// The code of float16 weights.
struct Float16Code : SixteenBitCode<float16, DType::f16> {
  static constexpr std::string_view name = "float16";
};

/// Weight policy: float16 weights in panels, float32 activations and sums.
struct Float16 : PanelWeights<Float16Code, float16> {
  static constexpr NumericClass<Float16> numeric_class{Float16Code::name};
};
static_assert(WeightPolicy<Float16> && WeightCode<Float16Code>);

}  // namespace tenon
