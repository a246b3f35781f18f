#include "tenon/core/exact_math.h"

#include <algorithm>
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>

BOOST_AUTO_TEST_SUITE(core_exact_math)

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// The distance of a float32 result from the true value, in units of the last place of the true value.
double ulps(float result, double truth) {
  int exponent = 0;
  std::frexp(truth, &exponent);
  return std::abs(static_cast<double>(result) - truth) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

}  // namespace

BOOST_AUTO_TEST_CASE(exp_is_within_one_ulp) {
  double worst = 0;
  for (float x = -87.0f; x < 88.72f; x += 0x1.1p-13f)
    worst = std::max(worst, ulps(tenon::exact::exp(x), std::exp(static_cast<double>(x))));
  for (float x = -1.0f; x < 1.0f; x += 0x1p-19f)
    worst = std::max(worst, ulps(tenon::exact::exp(x), std::exp(static_cast<double>(x))));
  BOOST_TEST_MESSAGE("exp: worst " << worst << " ulp");
  BOOST_TEST(worst < 1.0);
  BOOST_TEST(worst > 0.5);  // not 0.5 at most: this exp is not correctly rounded, and ulps() sees that
}

BOOST_AUTO_TEST_CASE(exp_at_the_ends_of_its_range) {
  using tenon::exact::exp;
  BOOST_TEST(exp(0.0f) == 1.0f);
  BOOST_TEST(exp(-0.0f) == 1.0f);
  BOOST_TEST(exp(-kInf) == 0.0f);
  BOOST_TEST(exp(-87.00001f) == 0.0f);
  BOOST_TEST(exp(-3.0e38f) == 0.0f);
  BOOST_TEST(exp(-87.0f) >= std::numeric_limits<float>::min());
  BOOST_TEST(exp(88.72f) < kInf);
  BOOST_TEST(exp(88.73f) == kInf);
  BOOST_TEST(exp(kInf) == kInf);
  BOOST_TEST(std::isnan(exp(std::numeric_limits<float>::quiet_NaN())));
  BOOST_TEST(std::isnan(exp(-std::numeric_limits<float>::quiet_NaN())));
}

// A less likely token never gets a larger weight. The filters of sampling rely on it.
BOOST_AUTO_TEST_CASE(exp_is_monotone_below_zero) {
  float last = 2;
  for (std::uint32_t bits = 0x80000000u; bits < 0xC2B00000u; bits += 97) {  // -0 down to -88
    const float e = tenon::exact::exp(std::bit_cast<float>(bits));
    BOOST_REQUIRE(e <= last);
    last = e;
  }
}

BOOST_AUTO_TEST_CASE(log_is_within_two_ulp_of_a_double) {
  double worst = 0;
  const auto check = [&](double x) {
    const long double truth = std::log(static_cast<long double>(x));
    int exponent = 0;
    std::frexp(static_cast<double>(truth), &exponent);
    const long double error = std::abs(static_cast<long double>(tenon::exact::log(x)) - truth);
    worst = std::max(worst, static_cast<double>(error / std::ldexp(1.0L, exponent - 53)));
  };
  for (double x = 1e-300; x < 1e300; x *= 1.0137) check(x);
  for (double x = 1; x < 60000; x *= 1.00021) check(x);
  for (double x = 0.5; x < 2; x += 0.0000317) check(x);
  BOOST_TEST_MESSAGE("log: worst " << worst << " ulp");
  BOOST_TEST(worst < 2.0);
}

BOOST_AUTO_TEST_CASE(log_at_the_ends_of_its_range) {
  using tenon::exact::log;
  constexpr double inf = std::numeric_limits<double>::infinity();
  BOOST_TEST(log(1.0) == 0.0);
  BOOST_TEST(log(0.0) == -inf);
  BOOST_TEST(log(-0.0) == -inf);
  BOOST_TEST(log(inf) == inf);
  BOOST_TEST(std::isnan(log(-1.0)));
  BOOST_TEST(std::isnan(log(std::numeric_limits<double>::quiet_NaN())));
  BOOST_TEST(std::abs(log(0x1p-1074) + 744.44007192138127) < 1e-12);
}

// The promise itself: these bits, at every optimisation level, -march and -ffp-contract, with g++ and with clang.
BOOST_AUTO_TEST_CASE(known_answers) {
  struct Exp {
    float x, e;
  };
  const Exp exps[] = {
      {-0x1.5b999ap+6f, 0x1.8c1f12p-126f}, {-0x1.e2p+5f, 0x1.0e26bcp-87f},    {-0x1.4p+4f, 0x1.1b4866p-29f},
      {-0x1.5p+3f, 0x1.cdfc26p-16f},       {-0x1.a66666p+1f, 0x1.2e259cp-5f}, {-0x1p+0f, 0x1.78b564p-2f},
      {-0x1.666666p-1f, 0x1.fc80dcp-2f},   {-0x1.99999ap-4f, 0x1.cf46dap-1f}, {-0x1.4f8b58p-17f, 0x1.fffebp-1f},
      {0x1.0624dep-10f, 0x1.004192p+0f},   {0x1.62e33ep-2f, 0x1.6a099p+0f},   {0x1p-1f, 0x1.a61298p+0f},
      {0x1p+0f, 0x1.5bf0a8p+1f},           {0x1.6p+1f, 0x1.f4907p+3f},        {0x1.433334p+3f, 0x1.7c5c14p+14f},
      {0x1.5p+5f, 0x1.823256p+60f},        {0x1.62p+6f, 0x1.99b986p+127f},
  };
  for (const Exp& known : exps) BOOST_TEST(tenon::exact::exp(known.x) == known.e);
  struct Log {
    double x, ln;
  };
  const Log logs[] = {
      {0x1.19799812dea11p-40, -0x1.ba18a998fffap+4},
      {0x1.999999999999ap-4, -0x1.26bb1bbb55515p+1},
      {0x1.6a09e667f3bcdp-1, -0x1.62e42fefa39eep-2},
      {0x1.8p-1, -0x1.269621134db92p-2},
      {0x1.000001ad7f29bp+0, 0x1.ad7f2847b6491p-24},
      {0x1.6a0902de00d1bp+0, 0x1.62e1ac5b1d18p-2},
      {0x1p+1, 0x1.62e42fefa39efp-1},
      {0x1.5bf0a8b145769p+1, 0x1p+0},
      {0x1.4p+3, 0x1.26bb1bbb55516p+1},
      {0x1.88a2p+15, 0x1.5a659f6bed8c8p+3},
      {0x1.e240c9fbe76c9p+16, 0x1.77281cad8a844p+3},
      {0x1.93e5939a08ceap+99, 0x1.144f69ff9ffc4p+6},
  };
  for (const Log& known : logs) BOOST_TEST(tenon::exact::log(known.x) == known.ln);
}

// FNV-1a over the bits of many results, to find differences that a short table would miss.
BOOST_AUTO_TEST_CASE(digests) {
  const auto mix = [](std::uint64_t& hash, std::uint64_t bits) { hash = (hash ^ bits) * 0x100000001b3u; };
  std::uint64_t exps = 0xcbf29ce484222325u, logs = exps;
  for (float x = -88.0f; x < 89.0f; x += 0x1.23p-12f) mix(exps, std::bit_cast<std::uint32_t>(tenon::exact::exp(x)));
  for (double x = 1e-9; x < 1e9; x *= 1.000213) mix(logs, std::bit_cast<std::uint64_t>(tenon::exact::log(x)));
  BOOST_TEST(exps == 0xb83c17249cc08d96u);
  BOOST_TEST(logs == 0xb7eab939e00430f2u);
}

BOOST_AUTO_TEST_SUITE_END()
