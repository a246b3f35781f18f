/// exp and log with one definition on all machines. libm's differ between versions and CPUs, and g++ may contract
/// a * b + c. Here every multiply-add is an explicit std::fma (one rounding, in hardware or in software), and the rest
/// is single IEEE operations. So optimisation level, -march and -ffp-contract cannot change a bit.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tenon/core/views.h"

namespace tenon::exact {

/// 2^n for n in -126..127.
[[gnu::always_inline]] TENON_HD inline float power_of_two(std::int32_t n) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(n + 127) << 23);
}

/// e^x within 1 ulp. 0 below -87, so that no result is subnormal and flush-to-zero modes change nothing; +inf above
/// 88.72; NaN for NaN. Branchless, so that loops over it vectorise.
// x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its Taylor series to r^7 (remainder r^8/8! < 6e-9, a tenth of an ulp).
[[gnu::always_inline]] TENON_HD inline float exp(float x) {
  constexpr float round = 0x1.8p23f;  // adding and subtracting it rounds to an integer, found in the low bits
  constexpr float log2_e = 0x1.715476p0f;
  constexpr float ln2_high = 0x1.62e430p-1f, ln2_low = -0x1.05c610p-29f;  // their sum is ln 2 to 48 bits
  const float above = x < -87.0f ? -87.0f : x;
  const float inside = above > 89.0f ? 89.0f : above;
  const float shifted = std::fma(inside, log2_e, round);
  const float n = shifted - round;
  const float r = std::fma(n, -ln2_low, std::fma(n, -ln2_high, inside));
  float p = 1.0f / 5040;
  p = std::fma(p, r, 1.0f / 720);
  p = std::fma(p, r, 1.0f / 120);
  p = std::fma(p, r, 1.0f / 24);
  p = std::fma(p, r, 1.0f / 6);
  p = std::fma(p, r, 0.5f);
  p = std::fma(p, r, 1.0f);
  p = std::fma(p, r, 1.0f);
  // 2^128 is no float: two exact steps, of which the second overflows to +inf where it must.
  const std::int32_t whole = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(round);
  const std::int32_t half = whole >> 1;
  const float result = p * power_of_two(half) * power_of_two(whole - half);
  const std::uint32_t keep = (x < -87.0f ? 1u : 0u) - 1u;  // not a select of floats: g++ makes a branch of that
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(result) & keep);
}

/// ln x within 2 ulp of a double. -inf for 0, NaN for negative x and NaN.
// x = 2^e m with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh(s), s = (m - 1) / (m + 1), by its series to s^25 / 25.
inline double log(double x) {
  if (!(x > 0)) return x == 0 ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  if (x == std::numeric_limits<double>::infinity()) return x;
  int exponent = 0;
  if (x < std::numeric_limits<double>::min()) x *= 0x1p54, exponent = -54;
  constexpr std::uint64_t sqrt_half = 0x3FE6A09E667F3BCDu;  // the bits of sqrt(1/2)
  const std::uint64_t above = std::bit_cast<std::uint64_t>(x) - sqrt_half;
  exponent += static_cast<int>(static_cast<std::int64_t>(above) >> 52);
  const double m = std::bit_cast<double>((above & 0x000FFFFFFFFFFFFFu) + sqrt_half);
  const double s = (m - 1.0) / (m + 1.0), s2 = s * s;
  double series = 0;
  for (int k = 25; k >= 3; k -= 2) series = std::fma(series, s2, 1.0 / k);
  const double ln_m = std::fma(2 * s, s2 * series, 2 * s);
  constexpr double ln2_high = 0x1.62e42fee00000p-1, ln2_low = 0x1.a39ef35793c76p-33;  // e * ln2_high is exact
  return std::fma(exponent, ln2_high, std::fma(exponent, ln2_low, ln_m));
}

}  // namespace tenon::exact
