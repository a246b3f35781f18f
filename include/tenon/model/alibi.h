// Attention with linear biases (ALiBi; Press et al., 2022): the slope of each head.
#pragma once
#include <bit>
#include <cmath>
#include <vector>

#include "tenon/core/require.h"

namespace tenon {

// [heads]: 2^(-8 i / n), i = 1..n, where n, the number of heads, is a power of two. Otherwise those of the next smaller
// power, and then every second one of twice that power, as the paper's code and BLOOM's have it.
inline std::vector<float> alibi_slopes(int heads) {
  const auto whole = static_cast<int>(std::bit_floor(static_cast<unsigned>(heads)));
  // The i-th power of the first, which is rounded to float32 before.
  const auto slope = [](int i, int n) {
    return static_cast<float>(std::pow(double{static_cast<float>(std::exp2(-8.0 / n))}, i));
  };
  std::vector<float> slopes;
  for (int i = 1; i <= whole; ++i) slopes.push_back(slope(i, whole));
  for (int i = 1; static_cast<int>(slopes.size()) < heads; i += 2) slopes.push_back(slope(i, 2 * whole));
  return slopes;
}

}  // namespace tenon
