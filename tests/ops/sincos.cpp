// sincos: its distance from the truth, near multiples of pi/2 and far out, and the same bits on every machine.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdio>
#include <limits>

#include "tenon/core/hash.h"
#include "tenon/ops/sincos.h"

BOOST_AUTO_TEST_SUITE(ops_sincos)

using namespace tenon;

namespace {

struct Errors {
  long double sine = 0, cosine = 0;  // largest error, as a share of the truth
  long misrounded = 0, all = 0;      // of both, as float32
};

// Against libm's long double, which has 11 bits more and reduces exactly.
template <class F>
Errors errors(F&& next, long count) {
  Errors e;
  for (long i = 0; i < count; ++i) {
    const float x = next(i);
    const auto [sine, cosine] = exact::sincos(static_cast<double>(x));
    const long double s = std::sin(static_cast<long double>(x)), c = std::cos(static_cast<long double>(x));
    if (s != 0) e.sine = std::max(e.sine, std::fabs((sine - s) / s));
    e.cosine = std::max(e.cosine, std::fabs((cosine - c) / c));
    e.misrounded +=
        (static_cast<float>(sine) != static_cast<float>(s)) + (static_cast<float>(cosine) != static_cast<float>(c));
    e.all += 2;
  }
  return e;
}

void check(const char* what, const Errors& e) {
  std::printf("%-36s sine off by %.3Lg, cosine by %.3Lg; %ld of %ld not the nearest float\n", what, e.sine, e.cosine,
              e.misrounded, e.all);
  BOOST_TEST(e.sine < 0x1p-51L);
  BOOST_TEST(e.cosine < 0x1p-51L);
  BOOST_TEST(e.misrounded <= e.all >> 20);
}

constexpr double kHalfPi = 0x1.921fb54442d18p0;

}  // namespace

// Measured over every third float from 2^-126 to 2^31, 181 million: the largest error was 2^-52, and all results were
// the nearest floats.
BOOST_AUTO_TEST_CASE(is_within_its_bound_for_floats_of_every_size) {
  constexpr std::uint32_t first = 0x00800000, last = 0x4f000000;  // 2^-126, 2^31
  constexpr std::uint32_t step = 1009;
  check("up to 2^31", errors([](long i) { return std::bit_cast<float>(first + static_cast<std::uint32_t>(i) * step); },
                             (last - first) / step));
  check("down to -2^31",
        errors([](long i) { return -std::bit_cast<float>(first + static_cast<std::uint32_t>(i) * step); },
               (last - first) / step));
}

BOOST_AUTO_TEST_CASE(is_within_its_bound_for_whole_angles) {
  check("positions 0 .. 2^19", errors([](long i) { return static_cast<float>(i); }, 1 << 19));
  check("positions to 2^24, every 61st", errors([](long i) { return static_cast<float>(i * 61); }, (1 << 24) / 61));
}

// The floats on both sides of multiples of pi/2, where one of the two nearly vanishes.
BOOST_AUTO_TEST_CASE(is_within_its_bound_near_multiples_of_half_pi) {
  const auto near = [](long n, long side) {
    const float x = static_cast<float>(static_cast<double>(n) * kHalfPi);
    return side == 0 ? x : std::nextafterf(x, side == 1 ? 0.0f : std::numeric_limits<float>::infinity());
  };
  check("near n pi/2, n to 2^17", errors([&](long i) { return near(1 + i / 3, i % 3); }, 3 << 17));
  check("near n pi/2, n to 2^30", errors([&](long i) { return near(1 + i / 3 * 8191, i % 3); }, 3 << 17));
}

// The inverse test: a reduction in one part, without half_pi_rest, is detected.
BOOST_AUTO_TEST_CASE(a_reduction_in_one_part_is_caught) {
  const float x = static_cast<float>(1e6 * kHalfPi);
  const double r = std::fma(-1e6, kHalfPi, static_cast<double>(x));
  const long double truth = std::sin(static_cast<long double>(x));
  BOOST_TEST(std::fabs((std::sin(r) - truth) / truth) > 0x1p-51L);
}

BOOST_AUTO_TEST_CASE(keeps_its_promises) {
  const auto zero = exact::sincos(0.0);
  BOOST_TEST((zero.sine == 0 && zero.cosine == 1));
  for (const double x : {0x1p-60, 0.5, 1.0, 3.0, 100.0, 12345.0, 0x1p30}) {
    const auto right = exact::sincos(x), left = exact::sincos(-x);
    BOOST_TEST((right.sine == -left.sine && right.cosine == left.cosine));
    BOOST_TEST(std::fabs(right.sine * right.sine + right.cosine * right.cosine - 1) < 0x1p-50);
  }
  for (const double x : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    BOOST_TEST((std::isnan(exact::sincos(x).sine) && std::isnan(exact::sincos(x).cosine)));
  }
}

// Known answers: no compiler or flag may change them.
BOOST_AUTO_TEST_CASE(is_the_same_bits_on_every_machine) {
  std::uint64_t digest = 0;
  for (std::uint64_t i = 0; i < 200000; ++i) {
    const double x =
        static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(0x30000000 + i * 2600)));  // to 2^31
    const auto [sine, cosine] = exact::sincos(x);
    digest = mix64(digest ^ std::bit_cast<std::uint64_t>(sine));
    digest = mix64(digest ^ std::bit_cast<std::uint64_t>(cosine));
  }
  BOOST_TEST(digest == 0x3bc6b7dda5d2e271u, "the digest is 0x" << std::hex << digest);
  const auto [sine, cosine] = exact::sincos(1.0);
  BOOST_TEST((sine == 0x1.aed548f090ceep-1 && cosine == 0x1.14a280fb5068cp-1));
}

BOOST_AUTO_TEST_SUITE_END()
