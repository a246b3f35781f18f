#include "tenon/core/finite.h"

#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

BOOST_AUTO_TEST_SUITE(core_finite)

using namespace tenon;

BOOST_AUTO_TEST_CASE(one_odd_element_anywhere_is_found) {
  using limits = std::numeric_limits<float>;
  for (std::size_t n : {0u, 1u, 63u, 64u, 65u, 200u}) {
    std::vector<float> values(n, limits::max());
    if (n > 1) values[1] = -limits::max(), values[0] = limits::denorm_min();
    BOOST_TEST(all_finite(values));
    for (std::size_t i = 0; i < n; ++i) {
      for (const float odd : {limits::infinity(), -limits::infinity(), limits::quiet_NaN(), -limits::quiet_NaN(),
                              std::bit_cast<float>(0x7f800001u), std::bit_cast<float>(0xffffffffu)}) {
        const float kept = values[i];
        values[i] = odd;
        BOOST_TEST_REQUIRE(!all_finite(values));
        values[i] = kept;
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_bound_is_never_below_what_it_bounds) {
  using limits = std::numeric_limits<float>;
  for (const double bound : {0.0, 0x1p-160, 0.4 * 0x1p-149, 0x1p-126, 1.0, 1.0 + 0x1p-30, 3e38}) {
    BOOST_TEST(static_cast<double>(float_above(bound)) >= bound);
    BOOST_TEST(static_cast<double>(float_above(bound)) <= bound * 1.0001 + 0x1p-125);
  }
  for (const double bound : {static_cast<double>(limits::max()) * (1 + 0x1p-30), 1e300,
                             std::numeric_limits<double>::infinity(), std::nan("")}) {
    BOOST_TEST(float_above(bound) == limits::infinity());
  }
}

BOOST_AUTO_TEST_SUITE_END()
