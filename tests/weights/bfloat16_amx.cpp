// BFloat16Amx: the codes of BFloat16 in the layout of BFloat16Dot, for AMX tiles.
#include "tenon/weights/bfloat16_amx.h"

#include "encoding.h"

BOOST_AUTO_TEST_SUITE(weights_bfloat16_amx)

using namespace tenon;
using namespace tenon::test;

using P = BFloat16Amx;
static_assert(WeightPolicy<P> && EncodesBlocks<P> && HasPanels<P::View> && std::is_trivially_copyable_v<P::View>);
static_assert(std::is_same_v<P::Code, BFloat16::Code>, "one file for both");

BOOST_AUTO_TEST_CASE(bytes_and_values_are_those_of_bfloat16_dot) {
  for_odd_weights(127, [](const Weights& w) {
    const auto packed = encoded<P>(w), other = encoded<BFloat16Dot>(w);
    BOOST_TEST_REQUIRE(
        (std::vector<std::byte>(packed.begin(), packed.end()) == std::vector<std::byte>(other.begin(), other.end())));
    const auto view = P::view(w.shape, packed);
    const auto dot = BFloat16Dot::view(w.shape, other);
    BOOST_TEST((view.panels().rows == w.shape.rows && view.panels().cols == w.shape.cols));
    for (int r = 0; r < w.shape.rows; ++r) {
      for (int c = 0; c < w.shape.cols; ++c) BOOST_TEST_REQUIRE(same_bits(view.at(r, c), dot.at(r, c)), name_of(w));
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()
