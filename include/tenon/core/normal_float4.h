// The sixteen values of NormalFloat4, quantiles of a normal distribution (Dettmers et al., QLoRA, 2023).
#pragma once
#include "tenon/core/require.h"
#include "tenon/core/views.h"

namespace tenon {

struct NormalFloat4Table {
  float values[16];
};

/// The value of each code, ascending, as bitsandbytes has them (functional.py, get_4bit_type).
alignas(64) inline constexpr NormalFloat4Table kNormalFloat4 = {
    {-1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
     -0.18477343022823334f, -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f,
     0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f}};

/// The value of a code 0 .. 15.
TENON_HD inline float normal_float4(int code) {
  constexpr NormalFloat4Table table = kNormalFloat4;  // device code cannot read the host's
  return table.values[code];
}

/// The code 0 .. 15 of the value nearest to x; of two as near, the lower one. A NaN has the code 0.
constexpr int nearest_normal_float4(float x) {
  // Sums in double are exact.
  const auto twice_middle = [](int code) {
    return static_cast<double>(kNormalFloat4.values[code]) + static_cast<double>(kNormalFloat4.values[code + 1]);
  };
  int code = 0;
  while (code < 15 && 2 * static_cast<double>(x) > twice_middle(code)) ++code;
  return code;
}

}  // namespace tenon
