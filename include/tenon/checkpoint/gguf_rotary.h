// Rotary positions in GGUF files: the scaling of Llama 3.1, which they have as a factor of each frequency, and the part
// of a head that is turned.
#pragma once
#include <cmath>

#include "tenon/core/require.h"

namespace tenon::detail {

inline constexpr double kLowFrequency = 1, kHighFrequency = 4;
inline constexpr int kTrainedPositions = 8192;

// The divisor of a frequency, in radians per position, by Llama 3.1's scaling of this factor
// (modeling_rope_utils.py, _compute_llama3_parameters; low factor 1, high factor 4, trained at 8192 positions).
inline double llama3_divisor(double frequency, double factor) {
  const double length = 2 * 3.141592653589793 / frequency;
  if (length < kTrainedPositions / kHighFrequency) return 1;
  if (length > kTrainedPositions / kLowFrequency) return factor;
  const double smooth = (kTrainedPositions / length - kLowFrequency) / (kHighFrequency - kLowFrequency);
  return 1 / ((1 - smooth) / factor + smooth);
}

// The number whose product with the width of a head is truncated to `turned`.
inline double part_of_head(int head_dim, int turned) {
  double part = static_cast<double>(turned) / head_dim;
  while (static_cast<int>(head_dim * part) < turned) part = std::nextafter(part, 2.0);
  return part;
}

}  // namespace tenon::detail
