// Elements of keys and values as a user writes them. The first two store the bits of a built-in element.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tenon/core/elements.h"

namespace tenon::own {

struct Whole {
  float x;
  static Whole encode(float value) { return {value}; }
  float decode() const { return x; }
};

struct UpperHalf {
  bfloat16 half;
  static UpperHalf encode(float value) { return {bfloat16(value)}; }
  float decode() const { return static_cast<float>(half); }
};

// 4 bits of a byte: whole numbers from -7 to 7, with a scale for each row.
struct Nibble {
  std::int8_t code;
  static float row_scale(const float* row, int n) {
    float most = 0;
    for (int i = 0; i < n; ++i) most = std::isfinite(row[i]) ? std::max(most, std::fabs(row[i])) : NAN;
    return most / 7;
  }
  static Nibble encode(float value) { return {static_cast<std::int8_t>(std::nearbyint(value))}; }
  float decode() const { return code; }
};

}  // namespace tenon::own
