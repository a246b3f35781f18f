// binary16: every code read and written back, every rounding against a search over all codes, and against the
// processor.
#include "tenon/core/float16.h"

#include <boost/test/unit_test.hpp>
#include <limits>
#include <type_traits>

#include "float_search.h"

BOOST_AUTO_TEST_SUITE(core_float16)

using namespace tenon;
using tenon::test::Codes;
using tenon::test::float_of;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::uint32_t rounded(float x) { return float16(x).bits; }
float16 of_bits(std::uint32_t bits) {
  float16 x{};
  x.bits = static_cast<std::uint16_t>(bits);
  return x;
}

// The value of a positive code by IEEE 754: 2^-24 times the mantissa below the normal numbers, else
// 2^(e - 15) (1 + m / 1024). The code of infinity is the number that would follow.
double meaning(std::uint32_t code) {
  const auto mantissa = static_cast<double>(code & 0x3ffu);
  const int exponent = static_cast<int>(code >> 10);
  return exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1 + mantissa / 1024, exponent - 15);
}
Codes codes() {
  std::vector<double> values;
  for (std::uint32_t code = 0; code <= 0x7c00u; ++code) values.push_back(meaning(code));
  return Codes(values);
}

// Number of interesting float32 for which a conversion does not give the nearest code.
template <class Convert>
int wrong_ones(Convert&& convert) {
  const Codes all = codes();
  int wrong = 0;
  all.for_each_interesting([&](float x) {
    const std::uint32_t sign = std::signbit(x) ? 0x8000u : 0u;
    wrong += convert(x) != (sign | all.nearest(x));
  });
  return wrong;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_code_is_read_as_what_it_means_and_written_back) {
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const auto wide = static_cast<float>(of_bits(bits));
    const std::uint32_t magnitude = bits & 0x7fffu;
    BOOST_TEST_REQUIRE(std::signbit(wide) == (bits >= 0x8000u));
    if (magnitude > 0x7c00u) {
      BOOST_TEST_REQUIRE(std::isnan(wide));
      BOOST_TEST_REQUIRE(rounded(wide) == (bits | 0x200u));  // quiet, its payload kept
    } else if (magnitude == 0x7c00u) {
      BOOST_TEST_REQUIRE(std::isinf(wide));
      BOOST_TEST_REQUIRE(rounded(wide) == bits);
    } else {
      BOOST_TEST_REQUIRE(std::fabs(static_cast<double>(wide)) == meaning(magnitude));
      BOOST_TEST_REQUIRE(rounded(wide) == bits);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_float_becomes_the_nearest_and_ties_are_even) {
  BOOST_TEST(wrong_ones(rounded) == 0);
  // The inverse tests: truncation, and rounding of ties away from zero, are detected.
  const auto cut = [](float x) {
    const std::uint32_t code = rounded(x);
    return std::fabs(static_cast<float>(of_bits(code))) > std::fabs(x) ? code - 1 : code;
  };
  const auto ties_away = [](float x) {
    const std::uint32_t code = rounded(x);
    const double here = std::fabs(static_cast<double>(x));
    const bool tie =
        (code & 0x7fffu) < 0x7c00u && here == (meaning(code & 0x7fffu) + meaning((code & 0x7fffu) + 1)) / 2;
    return tie ? code + 1 : code;
  };
  BOOST_TEST(wrong_ones(cut) > 10'000);
  BOOST_TEST(wrong_ones(ties_away) > 10'000);
}

#if defined(__x86_64__)
// The processor's conversion, which kernels use to widen.
__attribute__((target("avx,f16c"))) float widened_by_f16c(std::uint32_t bits) {
  typedef short Halves __attribute__((vector_size(16)));
  const Halves halves = {static_cast<short>(bits)};
  return __builtin_ia32_vcvtph2ps(halves)[0];
}
BOOST_AUTO_TEST_CASE(the_processor_reads_the_same) {
  if (!__builtin_cpu_supports("avx2")) {
    BOOST_TEST_MESSAGE("skipped: this processor has no F16C");
    return;
  }
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    if ((bits & 0x7fffu) > 0x7c00u) continue;  // the bits of a NaN are unspecified
    const float wide = widened_by_f16c(bits);
    BOOST_TEST_REQUIRE(std::bit_cast<std::uint32_t>(wide) ==
                       std::bit_cast<std::uint32_t>(static_cast<float>(of_bits(bits))));
  }
}
#endif

BOOST_AUTO_TEST_CASE(overflow_is_infinity_and_nan_stays_nan) {
  BOOST_TEST(rounded(65504.0f) == 0x7bffu);
  BOOST_TEST(rounded(std::nextafterf(65520.0f, 0.0f)) == 0x7bffu);  // the largest that stays finite
  BOOST_TEST(rounded(65520.0f) == 0x7c00u);
  BOOST_TEST(rounded(-65520.0f) == 0xfc00u);
  BOOST_TEST(rounded(3.4e38f) == 0x7c00u);
  BOOST_TEST(rounded(-kInfinity) == 0xfc00u);
  // Payloads in the lowest bits alone, and in all.
  for (const std::uint32_t bits : {0x7f800001u, 0x7f801fffu, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    BOOST_TEST((rounded(float_of(bits)) & 0x7e00u) == 0x7e00u);  // quiet
    BOOST_TEST((rounded(float_of(bits)) >> 15) == bits >> 31);
    BOOST_TEST(std::isnan(static_cast<float>(float16(float_of(bits)))));
  }
}

BOOST_AUTO_TEST_CASE(it_is_plain_data_and_known_at_compile_time) {
  static_assert(sizeof(float16) == 2 && std::is_trivial_v<float16>);
  static_assert(float16(1.0f).bits == 0x3c00 && float16(-2.0f).bits == 0xc000 && float16(0x1p-24f).bits == 1);
  static_assert(float16(0x1p-25f).bits == 0 && float16(0x1.8p-24f).bits == 2);  // ties
  static_assert(static_cast<float>(float16(0x1.ffcp15f)) == 65504.0f);
  BOOST_TEST((float16(1.0f) == float16(1.0f + 0x1p-11f)));
  BOOST_TEST(!(float16(0.0f) == float16(-0.0f)));  // of bits
}

BOOST_AUTO_TEST_SUITE_END()
