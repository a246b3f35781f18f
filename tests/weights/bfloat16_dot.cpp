// BFloat16Dot: the codes of BFloat16, with pairs of a row's columns adjacent.
#include "tenon/weights/bfloat16_dot.h"

#include "encoding.h"

BOOST_AUTO_TEST_SUITE(weights_bfloat16_dot)

using namespace tenon;
using namespace tenon::test;

using P = BFloat16Dot;
static_assert(WeightPolicy<P> && EncodesBlocks<P> && HasPanels<P::View> && std::is_trivially_copyable_v<P::View>);
static_assert(std::is_same_v<P::Code, BFloat16::Code>, "one file for both");

BOOST_AUTO_TEST_CASE(blocks_make_the_whole_and_views_read_the_code) { check_packing<P>(127); }

BOOST_AUTO_TEST_CASE(values_are_those_of_bfloat16) {
  for_odd_weights(127, [](const Weights& w) {
    const auto packed = encoded<P>(w), other = encoded<BFloat16>(w);
    const auto view = P::view(w.shape, packed);
    const auto bfloat16 = BFloat16::view(w.shape, other);
    for (int r = 0; r < w.shape.rows; ++r) {
      for (int c = 0; c < w.shape.cols; ++c)
        BOOST_TEST_REQUIRE(same_bits(view.at(r, c), bfloat16.at(r, c)), name_of(w));
    }
    BOOST_TEST(padding_is_zero(view));
  });
}

BOOST_AUTO_TEST_CASE(four_bytes_a_pair) {
  for_odd_weights(0, [](const Weights& w) {
    BOOST_TEST(P::bytes(w.shape) ==
               panels_of(w.shape.rows) * 16 * ((static_cast<std::size_t>(w.shape.cols) + 1) / 2) * 4);
  });
  BOOST_TEST(P::bytes({250'000, 50'001}) == std::size_t{250'000} * 25'001 * 4);
  BOOST_TEST(P::bytes({0, 5}) == 0);
}

BOOST_AUTO_TEST_CASE(pairs_of_a_row_lie_side_by_side_and_zeros_behind) {
  const Weights w = random_weights({19, 7}, Content::bell, 3);
  const auto packed = encoded<P>(w);
  const BFloat16Pairs pairs = P::view(w.shape, packed).panels();
  BOOST_TEST(pairs.pairs() == 4);
  for (int r = 0; r < 32; ++r) {
    for (int c = 0; c < 8; ++c) {
      const std::uint16_t expected = r < 19 && c < 7 ? bfloat16(w.at(r, c)).bits : std::uint16_t{0};
      BOOST_TEST_REQUIRE(pairs.codes[((r / 16 * 4 + c / 2) * 16 + r % 16) * 2 + c % 2].bits == expected);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
