#pragma once
#include <bit>
#include <cmath>

#include "tenon/core/elements.h"
#include "tenon/core/require.h"
#include "tenon/model/alibi.h"

namespace tenon {

TENON_INLINE std::vector<float> alibi_slopes(int heads) {
  const auto whole = static_cast<int>(std::bit_floor(static_cast<unsigned>(heads)));
  // The i-th power of the first slope. The first slope is rounded to float32 before, as in transformers.
  const auto slope = [](int i, int n) {
    return static_cast<float>(std::pow(double{static_cast<float>(std::exp2(-8.0 / n))}, i));
  };
  std::vector<float> slopes;
  for (int i = 1; i <= whole; ++i) slopes.push_back(slope(i, whole));
  for (int i = 1; static_cast<int>(slopes.size()) < heads; i += 2) slopes.push_back(slope(i, 2 * whole));
  return slopes;
}

TENON_INLINE std::vector<float> rounded_alibi_biases(int heads, int positions, float scale) {
  const auto value = [](bfloat16 x) { return static_cast<float>(x); };
  std::vector<float> biases;
  for (const float slope : alibi_slopes(heads)) {
    const float rounded = value(bfloat16(slope));
    for (int t = 0; t < (positions + 63) / 64 * 64; ++t)
      biases.push_back(scale * value(bfloat16(rounded * value(bfloat16(static_cast<float>(t))))));
  }
  return biases;
}

}  // namespace tenon
