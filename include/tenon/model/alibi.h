// Attention with linear biases (ALiBi; Press et al., 2022): the slope of each head.
#pragma once
#include <vector>

#include "tenon/core/require.h"

namespace tenon {

/// The slopes, [heads]. For a power of two n = `heads`: 2^(-8 i / n), i = 1..n. Otherwise the slopes of the next
/// smaller power of two m, then every second slope of 2 m, as in the code of the paper and of BLOOM.
std::vector<float> alibi_slopes(int heads);

/// ALiBi as Falcon RW computes it, [heads, positions rounded up to 64]: scale * (slope * position of the key), where
/// slope, position and product are rounded to bfloat16.
std::vector<float> rounded_alibi_biases(int heads, int positions, float scale);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/alibi-inl.h"
#endif
