#include "tenon/model/alibi.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <utility>

BOOST_AUTO_TEST_SUITE(model_alibi)

using namespace tenon;

// Expected values: build_alibi_tensor of transformers 4.57.6.
BOOST_AUTO_TEST_CASE(slopes_are_those_of_the_paper) {
  BOOST_TEST(alibi_slopes(4) == (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f}));
  BOOST_TEST(alibi_slopes(1) == std::vector<float>{0.00390625f});
}

BOOST_AUTO_TEST_CASE(other_counts_take_every_second_one_of_twice_as_many) {
  BOOST_TEST(alibi_slopes(6) == (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f, 0.5f, 0.125f}));
  // BLOOM-176B: the 64 slopes of 64 heads, then every second slope of 128.
  const auto slopes = alibi_slopes(112);
  BOOST_REQUIRE(slopes.size() == 112u);
  for (const auto& [head, expected] :
       {std::pair{0, 0.9170040488f}, {63, 0.003906251397f}, {64, 0.9576032758f}, {111, 0.01631676964f}}) {
    BOOST_TEST(std::abs(slopes[static_cast<std::size_t>(head)] / expected - 1) < 1e-6f,
               head);  // torch's pow in float32
  }
}

BOOST_AUTO_TEST_SUITE_END()
