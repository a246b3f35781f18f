// How long a step takes on the laboratory's clock.
#pragma once
#include <algorithm>
#include <chrono>
#include <cmath>

#include "tenon/core/require.h"

namespace tenon::lab {

// Time of a step: a part of its own (reading the weights), one for each row (arithmetic), one for each token of context
// that attention reads. The defaults are GPT-2 124M in float32 on two cores of an AMD EPYC, as measured by
// `tenon bench --random gpt2 --threads 2`, ms a step:
//                                measured   by this
//     decode of 1, context 20        14.5      13.9
//     decode of 8, context 20        15.2      19.9
//     decode of 16, context 20       26.1      26.8
//     decode of 32, context 20       47.2      40.5
//     decode of 8, context 362       23.8      28.1
//     decode of 8, context 712       31.8      36.5
//     512 rows of one prompt          416       424
struct StepCost {
  double step = 13e-3, row = 0.8e-3, context = 3e-6;  // seconds

  std::chrono::nanoseconds operator()(int rows, long long context_tokens) const {
    const double seconds = std::fma(row, rows, std::fma(context, static_cast<double>(context_tokens), step));
    return std::chrono::nanoseconds(std::llround(std::clamp(seconds * 1e9, 1.0, 0x1p62)));
  }
};

}  // namespace tenon::lab
