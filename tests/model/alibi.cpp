#include "tenon/model/alibi.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <tuple>
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

// The rule of build_alibi_tensor in transformers' FalconModel, by hand: products in bfloat16, ties to even.
BOOST_AUTO_TEST_CASE(rounded_biases_are_products_in_bfloat16) {
  const auto biases = rounded_alibi_biases(4, 300, 0.125f);
  BOOST_REQUIRE(biases.size() == 4u * 320);
  BOOST_TEST(biases[0] == 0.0f);
  BOOST_TEST(biases[3] == 0.125f * 0.75f);
  BOOST_TEST(biases[257] == 0.125f * 64.0f);         // 64.25 is between 64 and 64.5, the even one of which is 64
  BOOST_TEST(biases[259] == 0.125f * 65.0f);         // 64.75
  BOOST_TEST(biases[320 + 299] == 0.125f * 18.75f);  // 18.6875 is between 18.625 and 18.75
  // The result of that function for 32 heads (torch 2.15): the position is rounded, too.
  const auto many = rounded_alibi_biases(32, 2048, 1);
  for (const auto& [head, position, bias] : {std::tuple{0, 257, 215.0f},
                                             {1, 259, 184.0f},
                                             {5, 1001, 354.0f},
                                             {13, 2047, 181.0f},
                                             {31, 1999, 7.8125f},
                                             {20, 777, 20.375f}})
    BOOST_TEST(many[static_cast<std::size_t>(2048 * head + position)] == bias, head << ", " << position);
}

BOOST_AUTO_TEST_SUITE_END()
