// Attention with linear biases (ALiBi; Press et al., 2022): the slope of each head.
#pragma once
#include <vector>

#include "tenon/core/require.h"

namespace tenon {

// [heads]: 2^(-8 i / n), i = 1..n, where n, the number of heads, is a power of two. Otherwise those of the next smaller
// power, and then every second one of twice that power, as the paper's code and BLOOM's have it.
std::vector<float> alibi_slopes(int heads);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/alibi-inl.h"
#endif
