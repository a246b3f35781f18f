// E4M3 and E5M2: every code read and written back, every rounding against a search over all codes, and both ends.
#include "tenon/core/float8.h"

#include <array>
#include <boost/test/unit_test.hpp>
#include <limits>
#include <tuple>
#include <type_traits>

#include "float_search.h"

BOOST_AUTO_TEST_SUITE(core_float8)

using namespace tenon;
using tenon::test::Codes;
using tenon::test::float_of;

namespace {

using Formats = std::tuple<E4M3, E5M2>;

template <class Format>
std::uint32_t rounded(float x) {
  return float8<Format>(x).bits;
}
template <class Format>
float8<Format> of_bits(std::uint32_t bits) {
  float8<Format> x{};
  x.bits = static_cast<std::uint8_t>(bits);
  return x;
}

// The definition of OFP8, a second time: bias 7 and 15, subnormals in steps of 2^-9 and 2^-16.
template <class Format>
double meaning(std::uint32_t code) {
  constexpr bool e4m3 = std::is_same_v<Format, E4M3>;
  constexpr int mantissa_bits = e4m3 ? 3 : 2, bias = e4m3 ? 7 : 15;
  const int exponent = static_cast<int>(code >> mantissa_bits);
  const double fraction = std::ldexp(code & ((1u << mantissa_bits) - 1u), -mantissa_bits);
  return exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
}
template <class Format>
constexpr std::uint32_t kLast = std::is_same_v<Format, E4M3> ? 0x7e : 0x7b;

template <class Format>
Codes codes() {
  std::vector<double> values;
  for (std::uint32_t code = 0; code <= kLast<Format>; ++code) values.push_back(meaning<Format>(code));
  return Codes(values);
}

template <class Format, class Convert>
int wrong_ones(Convert&& convert) {
  const Codes all = codes<Format>();
  int wrong = 0;
  all.for_each_interesting([&](float x) {
    const std::uint32_t sign = std::signbit(x) ? 0x80u : 0u;
    wrong += convert(x) != (sign | all.nearest(x));
  });
  return wrong;
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(every_code_is_read_as_what_it_means_and_written_back, Format, Formats) {
  int finite_ones = 0;
  for (std::uint32_t bits = 0; bits < 0x100u; ++bits) {
    const std::uint32_t magnitude = bits & 0x7fu;
    const auto code = of_bits<Format>(bits);
    BOOST_TEST_REQUIRE(finite(code) == (magnitude <= kLast<Format>));
    if (!finite(code)) continue;
    ++finite_ones;
    const auto wide = static_cast<float>(code);
    BOOST_TEST_REQUIRE(std::signbit(wide) == (bits >= 0x80u));
    BOOST_TEST_REQUIRE(std::fabs(static_cast<double>(wide)) == meaning<Format>(magnitude));
    BOOST_TEST_REQUIRE(rounded<Format>(wide) == bits);
  }
  BOOST_TEST(finite_ones == (std::is_same_v<Format, E4M3> ? 254 : 248));
  BOOST_TEST(static_cast<float>(of_bits<Format>(kLast<Format>)) == Format::largest);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_float_becomes_the_nearest_and_ties_are_even, Format, Formats) {
  BOOST_TEST(wrong_ones<Format>(rounded<Format>) == 0);
  // The inverse tests: truncation, and rounding of ties away from zero, are detected.
  const auto cut = [](float x) {
    const std::uint32_t code = rounded<Format>(x);
    return std::fabs(static_cast<float>(of_bits<Format>(code))) > std::fabs(x) ? code - 1 : code;
  };
  const auto ties_away = [](float x) {
    const std::uint32_t code = rounded<Format>(x), magnitude = code & 0x7fu;
    const bool tie = magnitude < kLast<Format> && std::fabs(static_cast<double>(x)) ==
                                                      (meaning<Format>(magnitude) + meaning<Format>(magnitude + 1)) / 2;
    return tie ? code + 1 : code;
  };
  BOOST_TEST(wrong_ones<Format>(cut) > 100);
  BOOST_TEST(wrong_ones<Format>(ties_away) > 100);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(larger_values_become_the_largest, Format, Formats) {
  const float largest = Format::largest, infinity = std::numeric_limits<float>::infinity();
  for (const float beyond : {std::nextafterf(largest, infinity), largest * 1.03125f, largest * 1.0625f,
                             largest * 1.125f, largest * 2, 1e30f, std::numeric_limits<float>::max(), infinity}) {
    BOOST_TEST(rounded<Format>(beyond) == kLast<Format>);
    BOOST_TEST(rounded<Format>(-beyond) == (kLast<Format> | 0x80u));
  }
}

BOOST_AUTO_TEST_CASE(they_are_plain_data_and_known_at_compile_time) {
  static_assert(sizeof(float8<E4M3>) == 1 && std::is_trivial_v<float8<E4M3>> && std::is_trivial_v<float8<E5M2>>);
  static_assert(float8<E4M3>(448.0f).bits == 0x7e && float8<E4M3>(-1.0f).bits == 0xb8 &&
                float8<E4M3>(0x1p-9f).bits == 1);
  static_assert(float8<E5M2>(57344.0f).bits == 0x7b && float8<E5M2>(1.0f).bits == 0x3c &&
                float8<E5M2>(0x1p-16f).bits == 1);
  static_assert(float8<E4M3>(0x1p-10f).bits == 0 && float8<E4M3>(0x1.8p-9f).bits == 2);  // ties
  static_assert(static_cast<float>(float8<E5M2>(1.125f)) == 1.0f);
  BOOST_TEST(!(float8<E4M3>(0.0f) == float8<E4M3>(-0.0f)));  // of bits
}

BOOST_AUTO_TEST_SUITE_END()
