// The cost model of the laboratory: how long a step takes on its clock.
#pragma once
#include <algorithm>
#include <chrono>
#include <cmath>

#include "tenon/core/require.h"

namespace tenon::lab {

/// Time of a step: a constant for reading the weights, plus a part per row for arithmetic, plus a part per token of
/// context that attention reads. The defaults are GPT-2 124M in float32 on two cores of an AMD EPYC. They differ by -14
/// % to +31 % from `tenon bench --random gpt2 --threads 2`, in seven cases from 1 to 512 rows.
struct StepCost {
  double step = 13e-3, row = 0.8e-3, context = 3e-6;  ///< seconds

  /// Time of a step of `rows` rows whose attention reads `context_tokens` tokens; at least 1 ns.
  std::chrono::nanoseconds operator()(int rows, long long context_tokens) const {
    const double seconds = std::fma(row, rows, std::fma(context, static_cast<double>(context_tokens), step));
    return std::chrono::nanoseconds(std::llround(std::clamp(seconds * 1e9, 1.0, 0x1p62)));
  }
};

}  // namespace tenon::lab
