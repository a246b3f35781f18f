#include "tenon/checkpoint/dtype.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

BOOST_AUTO_TEST_SUITE(checkpoint_dtype)

using namespace tenon;

namespace {
constexpr std::size_t kAll = 65'536;

std::vector<std::uint16_t> all_patterns() {
  std::vector<std::uint16_t> bits(kAll);
  std::iota(bits.begin(), bits.end(), std::uint16_t{0});
  return bits;
}

// Value by the definition of IEEE 754: (-1)^sign 2^(exponent - bias) 1.mantissa. A NaN keeps its payload.
std::uint32_t by_definition(std::uint32_t bits, int exponent_bits, int mantissa_bits) {
  const std::uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const int exponent = static_cast<int>((bits >> mantissa_bits) & ((1u << exponent_bits) - 1));
  const bool negative = (bits >> (mantissa_bits + exponent_bits)) != 0;
  const int top = (1 << exponent_bits) - 1, bias = top / 2;
  if (exponent == top) return (negative ? 0xff800000u : 0x7f800000u) | mantissa << (23 - mantissa_bits);
  const double value = exponent == 0
                           ? std::ldexp(double(mantissa), 1 - bias - mantissa_bits)
                           : std::ldexp(double(mantissa + (1u << mantissa_bits)), exponent - bias - mantissa_bits);
  return std::bit_cast<std::uint32_t>(static_cast<float>(negative ? -value : value));
}
}  // namespace

BOOST_AUTO_TEST_CASE(every_f16_is_widened_exactly) {
  const auto bits = all_patterns();
  std::vector<float> out(kAll);
  floats_of_f16(bits.data(), out.data(), kAll);
  for (std::size_t i = 0; i < kAll; ++i) {
    const std::uint32_t expected = by_definition(bits[i], 5, 10);
    if (std::bit_cast<std::uint32_t>(out[i]) != expected ||
        std::bit_cast<std::uint32_t>(float_of_f16(bits[i])) != expected)
      BOOST_ERROR("f16 pattern " << i);
  }
  BOOST_TEST(out[0x3c00] == 1.0f);
  BOOST_TEST(out[0x0001] == std::ldexp(1.0f, -24));
  BOOST_TEST(out[0x7bff] == 65504.0f);
  BOOST_TEST(out[0xfc00] == -std::numeric_limits<float>::infinity());
  BOOST_TEST(std::signbit(out[0x8000]));
}

BOOST_AUTO_TEST_CASE(every_bf16_is_widened_exactly) {
  const auto bits = all_patterns();
  std::vector<float> out(kAll);
  floats_of_bf16(bits.data(), out.data(), kAll);
  for (std::size_t i = 0; i < kAll; ++i) {
    const std::uint32_t expected = by_definition(bits[i], 8, 7);
    if (std::bit_cast<std::uint32_t>(out[i]) != expected) BOOST_ERROR("bf16 pattern " << i);
  }
  BOOST_TEST(out[0x3f80] == 1.0f);
}

// The tail after the last whole strip, at every length and alignment. Nothing past the end is written.
BOOST_AUTO_TEST_CASE(lengths_that_are_no_whole_strip) {
  const auto bits = all_patterns();
  for (std::size_t offset : {0u, 1u, 3u, 0x3bf0u}) {
    for (std::size_t n = 0; n < 70; ++n) {
      std::vector<float> f16(n + 1, -7.0f), bf16(n + 1, -7.0f);
      floats_of_f16(bits.data() + offset, f16.data(), n);
      floats_of_bf16(bits.data() + offset, bf16.data(), n);
      for (std::size_t i = 0; i < n; ++i) {
        BOOST_TEST_REQUIRE(f16[i] == float_of_f16(bits[offset + i]));
        BOOST_TEST_REQUIRE(bf16[i] == float_of_bf16(bits[offset + i]));
      }
      BOOST_TEST_REQUIRE(f16[n] == -7.0f);
      BOOST_TEST_REQUIRE(bf16[n] == -7.0f);
    }
  }
}

BOOST_AUTO_TEST_CASE(names_and_sizes) {
  for (const auto& each : detail::kDTypes) {
    BOOST_TEST(dtype_name(each.type) == each.name);  // the table is in the order of the enumeration
    BOOST_TEST(dtype_bits(each.type) == each.bits);
    const auto named = dtype_of(each.name);
    BOOST_TEST((each.bits == 0 ? !named : named == each.type));  // no safetensors file has blocks or `quantised`
  }
  BOOST_TEST(!dtype_of("F99").has_value());
  BOOST_TEST(!dtype_of("").has_value());
  BOOST_TEST(!dtype_of("f32").has_value());
  BOOST_TEST(is_weight(DType::bf16));
  BOOST_TEST(!is_weight(DType::f64));
}

BOOST_AUTO_TEST_SUITE_END()
