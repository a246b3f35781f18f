// Sine and cosine with one definition for all machines, like exp and log of core/exact_math.h: libm differs between
// versions and CPUs. Every multiply-add is an explicit std::fma, everything else single IEEE operations, so that no
// compiler flag changes a bit.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

#include "tenon/core/views.h"

namespace tenon::exact {

/// Sine and cosine of one angle.
struct SinCos {
  double sine, cosine;
};

/// Sine and cosine of x, a float32 of magnitude 2^31 or less, each within 2^-51 relative: rounded to float32 they are
/// the nearest values but for one case in some 2^26. Infinity and NaN give NaN.
///
/// Method: x = n pi/2 + r with |r| <= pi/4 and a little. The first step of the reduction is exact, because x - n
/// half_pi is a multiple of 2^-52 below 1 (or n is 0). half_pi + half_pi_rest are off pi/2 by 2^-109, times n by 2^-78.
/// No such x but 0 comes nearer to a multiple of pi/2 than 2^-28. Taylor series to r^15 and r^16 follow, with
/// remainders of 2^-53 of the sums.
[[gnu::always_inline]] TENON_HD inline SinCos sincos(double x) {
  constexpr double round = 0x1.8p52;  // adding and subtracting it rounds to an integer, found in the low bits
  constexpr double two_over_pi = 0x1.45f306dc9c883p-1;
  constexpr double half_pi = 0x1.921fb54442d18p0, half_pi_rest = 0x1.1a62633145c07p-54;
  const double shifted = std::fma(x, two_over_pi, round);
  const double n = shifted - round;
  const double r = std::fma(n, -half_pi_rest, std::fma(n, -half_pi, x));
  const double square = r * r;
  double s = -1.0 / 1307674368000;  // 15!
  s = std::fma(s, square, 1.0 / 6227020800);
  s = std::fma(s, square, -1.0 / 39916800);
  s = std::fma(s, square, 1.0 / 362880);
  s = std::fma(s, square, -1.0 / 5040);
  s = std::fma(s, square, 1.0 / 120);
  s = std::fma(s, square, -1.0 / 6);
  s = std::fma(r * square, s, r);
  double c = 1.0 / 20922789888000;  // 16!
  c = std::fma(c, square, -1.0 / 87178291200);
  c = std::fma(c, square, 1.0 / 479001600);
  c = std::fma(c, square, -1.0 / 3628800);
  c = std::fma(c, square, 1.0 / 40320);
  c = std::fma(c, square, -1.0 / 720);
  c = std::fma(c, square, 1.0 / 24);
  c = std::fma(c, square, -0.5);
  c = std::fma(c, square, 1.0);
  const auto quarter = std::bit_cast<std::uint64_t>(shifted) & 3;  // n modulo 4
  const double sine = quarter & 1 ? c : s, cosine = quarter & 1 ? s : c;
  return {quarter & 2 ? -sine : sine, (quarter + 1) & 2 ? -cosine : cosine};
}

}  // namespace tenon::exact
