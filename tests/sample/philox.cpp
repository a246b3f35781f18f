#include "tenon/sample/philox.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <set>

BOOST_AUTO_TEST_SUITE(sample_philox)

using tenon::PhiloxCounter;
using tenon::PhiloxKey;

// The three lines "philox4x32 10" of tests/kat_vectors of Random123.
BOOST_AUTO_TEST_CASE(known_answers_of_random123) {
  const auto check = [](PhiloxCounter counter, PhiloxKey key, PhiloxCounter expected) {
    BOOST_TEST(tenon::philox4x32_10(counter, key) == expected, boost::test_tools::per_element());
  };
  check({0, 0, 0, 0}, {0, 0}, {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
  check({0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}, {0xffffffffu, 0xffffffffu},
        {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
  check({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u},
        {0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u});
}

BOOST_AUTO_TEST_CASE(uniform_is_a_multiple_of_two_to_the_minus_24_below_one) {
  static_assert(tenon::uniform(0, 0) == 0x6627e8p-24f);  // the first 24 bits of the first known answer
  for (int position = 0; position < 10000; ++position) {
    const float u = tenon::uniform(42, position);
    BOOST_REQUIRE(u >= 0 && u < 1);
    BOOST_REQUIRE(u * 0x1p24f == static_cast<float>(static_cast<int>(u * 0x1p24f)));
  }
}

// All 64 bits of the seed and the position matter, and neither stands for the other.
BOOST_AUTO_TEST_CASE(every_argument_counts) {
  const std::set<float> draws = {tenon::uniform(1, 2),          tenon::uniform(2, 1),
                                 tenon::uniform(1, 3),          tenon::uniform(3, 2),
                                 tenon::uniform(1ull << 32, 2), tenon::uniform((1ull << 32) + 1, 2),
                                 tenon::uniform(1ull << 63, 2)};
  BOOST_TEST(draws.size() == 7u);
}

BOOST_AUTO_TEST_CASE(mean_and_spread_over_seeds_and_positions) {
  double sum = 0, squares = 0;
  int n = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed)
    for (int position = 0; position < 500; ++position, ++n) {
      const double u = static_cast<double>(tenon::uniform(seed, position));
      sum += u;
      squares += u * u;
    }
  // Standard errors of 20,000 draws: 0.0020 and 0.0021; four of them.
  BOOST_TEST(std::abs(sum / n - 1.0 / 2) < 0.008);
  BOOST_TEST(std::abs(squares / n - 1.0 / 3) < 0.0084);
}

BOOST_AUTO_TEST_SUITE_END()
