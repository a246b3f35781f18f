// Elements of caches: rounding of float32 to bfloat16, to int8 and to an element of a user's own.
#include "tenon/core/elements.h"

#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "own_elements.h"

BOOST_AUTO_TEST_SUITE(core_elements)

using namespace tenon;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }
std::uint16_t rounded(float x) { return bfloat16(x).bits; }

// The nearest of all bfloat16, by distance in float64, where infinity is one step beyond the largest.
std::uint16_t nearest(float x) {
  const auto value = [](std::uint32_t bits) {
    return bits == 0x7f80u ? 0x1p128 : static_cast<double>(float_of(bits << 16));
  };
  const std::uint32_t sign = (std::bit_cast<std::uint32_t>(x) >> 16) & 0x8000u;
  const std::uint32_t below = (std::bit_cast<std::uint32_t>(x) >> 16) & 0x7fffu, above = below + 1;
  const double magnitude = std::fabs(static_cast<double>(x));
  const double down = magnitude - value(below), up = value(above) - magnitude;
  const bool goes_up = down > up || (down == up && above % 2 == 0);
  return static_cast<std::uint16_t>(sign | (goes_up ? above : below));
}

struct Int8Row {
  std::vector<std::int8_t> elements;
  float scale;
  explicit Int8Row(const std::vector<float>& row) : elements(row.size(), 99) {
    scale = store_row(row.data(), static_cast<int>(row.size()), elements.data(), 1);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(every_bfloat16_is_widened_and_rounded_to_itself) {
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    bfloat16 stored{};
    stored.bits = static_cast<std::uint16_t>(bits);
    const auto wide = static_cast<float>(stored);
    BOOST_TEST_REQUIRE(std::bit_cast<std::uint32_t>(wide) == bits << 16);
    if (std::isnan(wide))
      BOOST_TEST_REQUIRE(rounded(wide) == (bits | 0x40u));  // quiet
    else
      BOOST_TEST_REQUIRE(rounded(wide) == bits);
  }
}

BOOST_AUTO_TEST_CASE(bfloat16_is_the_nearest_one_and_ties_are_even) {
  static_assert(bfloat16(1.0f).bits == 0x3f80);
  BOOST_TEST(rounded(float_of(0x3f808000)) == 0x3f80);  // ties: down to even, up to even
  BOOST_TEST(rounded(float_of(0x3f818000)) == 0x3f82);
  BOOST_TEST(rounded(float_of(0x3f807fff)) == 0x3f80);
  BOOST_TEST(rounded(float_of(0x3f808001)) == 0x3f81);
  BOOST_TEST(rounded(float_of(0xbf818000)) == 0xbf82);
  BOOST_TEST(rounded(float_of(0x3fffffff)) == 0x4000);  // into the next exponent
  BOOST_TEST(rounded(float_of(0x00008000)) == 0x0000);  // subnormals
  BOOST_TEST(rounded(float_of(0x00008001)) == 0x0001);
  BOOST_TEST(rounded(-0.0f) == 0x8000);
  // Every upper half with lower halves around the tie.
  for (std::uint32_t upper = 0; upper < 0x10000u; ++upper) {
    for (const std::uint32_t lower : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const float x = float_of(upper << 16 | lower);
      if (std::isfinite(x)) BOOST_TEST_REQUIRE(rounded(x) == nearest(x));
    }
  }
}

BOOST_AUTO_TEST_CASE(bfloat16_overflows_to_infinity_and_nan_stays_nan) {
  BOOST_TEST(rounded(std::numeric_limits<float>::max()) == 0x7f80);
  BOOST_TEST(rounded(-std::numeric_limits<float>::max()) == 0xff80);
  BOOST_TEST(rounded(float_of(0x7f7f7fff)) == 0x7f7f);  // the largest that stays finite
  BOOST_TEST(rounded(kInfinity) == 0x7f80);
  // A NaN whose payload is in the lower half alone, or whose rounding would carry into the sign.
  for (const std::uint32_t bits : {0x7f800001u, 0x7f808000u, 0x7fffffffu, 0xffffffffu, 0xff800001u}) {
    BOOST_TEST(std::isnan(static_cast<float>(bfloat16(float_of(bits)))));
    BOOST_TEST((std::uint32_t{rounded(float_of(bits))} >> 15) == (bits >> 31));
  }
}

BOOST_AUTO_TEST_CASE(the_largest_of_an_int8_row_becomes_127) {
  std::uint64_t state = 1;
  for (int i = 0; i < 100000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const float fraction = static_cast<float>(state >> 41) * 0x1p-23f;
    const float largest = std::ldexp(1.0f + fraction, static_cast<int>(state % 240) - 118);
    const Int8Row row({0.0f, i % 2 ? largest : -largest, largest / 3});
    BOOST_TEST_REQUIRE(row.scale == largest / 127.0f);
    BOOST_TEST_REQUIRE(int{row.elements[1]} == (i % 2 ? 127 : -127));
    BOOST_TEST_REQUIRE(int{row.elements[2]} == 42);
  }
}

BOOST_AUTO_TEST_CASE(int8_is_the_nearest_multiple_of_the_scale) {
  // 127 makes the scale 1.
  const Int8Row ties({127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 126.5f, -126.5f, 0.49999997f});
  BOOST_TEST(ties.scale == 1.0f);
  const std::array<int, 10> expected{127, 0, 2, 2, 0, -2, -2, 126, -126, 0};
  for (std::size_t i = 0; i < expected.size(); ++i) BOOST_TEST(int{ties.elements[i]} == expected[i]);

  // The error is at most half a scale, and about scale / sqrt(12) in the mean, like that of uniform errors. The inverse
  // test: truncation errs twice as much.
  std::uint64_t state = 2;
  double squares = 0, squares_cut = 0;
  constexpr int rows = 1000, n = 64;
  for (int r = 0; r < rows; ++r) {
    std::vector<float> row(n);
    for (float& x : row) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      x = static_cast<float>(static_cast<std::int32_t>(state >> 32)) * 0x1p-31f;
    }
    const Int8Row stored(row);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double error = static_cast<double>(row[i]) / stored.scale - stored.elements[i];
      BOOST_TEST_REQUIRE(std::fabs(error) <= 0.5 + 1e-5);  // x / scale is itself rounded, by at most 2^-18 near 127
      squares += error * error;
      const double cut = static_cast<double>(row[i]) / stored.scale - std::trunc(row[i] / stored.scale);
      squares_cut += cut * cut;
    }
  }
  const double mean = std::sqrt(12 * squares / (rows * n));
  BOOST_TEST((mean > 0.98 && mean < 1.02), mean);
  BOOST_TEST(std::sqrt(12 * squares_cut / (rows * n)) > 1.9);
}

BOOST_AUTO_TEST_CASE(zeros_and_almost_zeros_read_back_as_zeros) {
  for (const float x : {0.0f, -0.0f, 1e-45f, 1e-40f, -1.4e-36f}) {
    const Int8Row row({x, 0.0f, -x});
    BOOST_TEST(row.scale == 0.0f);
    for (const std::int8_t element : row.elements) BOOST_TEST(int{element} == 0);
  }
  const Int8Row above({1.5e-36f, -1.5e-36f / 2});  // a scale that is just normal
  BOOST_TEST(above.scale > 0.0f);
  BOOST_TEST(int{above.elements[0]} == 127);
  BOOST_TEST(int{above.elements[1]} == -64);
  const Int8Row large({std::numeric_limits<float>::max(), 1.0f});
  BOOST_TEST(std::isfinite(large.scale));
  BOOST_TEST(int{large.elements[0]} == 127);
}

BOOST_AUTO_TEST_CASE(a_row_that_is_not_finite_has_a_scale_that_says_so) {
  for (const float x : {kInfinity, -kInfinity, float_of(0x7fc00000), float_of(0xffffffff), float_of(0x7f800001)}) {
    for (const Int8Row& row : {Int8Row({x, 1.0f}), Int8Row({1.0f, -2.0f, x}), Int8Row({0.0f, x, 0.0f})}) {
      BOOST_TEST(std::isnan(row.scale));
      for (const std::int8_t element : row.elements) BOOST_TEST(int{element} == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(rows_are_laid_out_by_their_stride) {
  const std::array<float, 3> row{1.0f, -2.0f, 127.0f};
  std::array<float, 9> floats{};
  std::array<bfloat16, 9> halves{};
  std::array<std::int8_t, 9> bytes{};
  BOOST_TEST(store_row(row.data(), 3, floats.data(), 4) == 1.0f);
  BOOST_TEST(store_row(row.data(), 3, halves.data(), 4) == 1.0f);
  BOOST_TEST(store_row(row.data(), 3, bytes.data(), 4) == 1.0f);
  for (std::size_t i = 0; i < 9; ++i) {
    const float expected = i % 4 == 0 ? row[i / 4] : 0.0f;
    BOOST_TEST(floats[i] == expected);
    BOOST_TEST(static_cast<float>(halves[i]) == expected);
    BOOST_TEST(static_cast<float>(bytes[i]) == expected);
  }
}

BOOST_AUTO_TEST_CASE(rows_of_an_own_element_go_through_its_encode_and_its_scale) {
  static_assert(KvElement<own::Whole> && !has_scales<own::Whole> && ScalesRows<own::Nibble> && has_scales<own::Nibble>);
  static_assert(has_scales<const own::Nibble> && has_scales<const std::int8_t> && !has_scales<const float>);
  static_assert(!KvElement<double> && !KvElement<int>);  // not by a conversion
  const std::vector<float> row = {1.5f, -14.0f, 6.9f};
  std::vector<own::Whole> whole(3 * 2);
  BOOST_TEST(store_row(row.data(), 3, whole.data(), 2) == 1.0f);
  for (std::size_t i = 0; i < 3; ++i) BOOST_TEST(whole[2 * i].decode() == row[i]);

  std::vector<own::Nibble> nibbles(3);
  const auto stored = [&](const std::vector<float>& of) {
    const float scale = store_row(of.data(), 3, nibbles.data(), 1);
    return std::pair(scale, std::vector<int>{nibbles[0].code, nibbles[1].code, nibbles[2].code});
  };
  BOOST_TEST((stored(row) == std::pair(2.0f, std::vector<int>{1, -7, 3})));
  BOOST_TEST((stored({0, 0, 0}) == std::pair(0.0f, std::vector<int>{0, 0, 0})));
  const auto [scale, codes] = stored({1, kInfinity, 2});  // reads back as NaN: 0 * NaN
  BOOST_TEST(std::isnan(scale));
  BOOST_TEST((codes == std::vector<int>{0, 0, 0}));
}

BOOST_AUTO_TEST_SUITE_END()
