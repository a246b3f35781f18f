// GroupInt4Act8: the codes of GroupInt4, with two quads of columns in the halves of four bytes.
#include "tenon/weights/int4_act8.h"

#include <tuple>

#include "encoding.h"
#include "tenon/weights/int4.h"

BOOST_AUTO_TEST_SUITE(weights_int4_act8)

using namespace tenon;
using namespace tenon::test;

using Groups =
    std::tuple<std::integral_constant<int, 32>, std::integral_constant<int, 64>, std::integral_constant<int, 128>>;

static_assert(std::is_same_v<GroupInt4Act8, GroupInt4Act8Of<32>>);
static_assert(WeightPolicy<GroupInt4Act8> && EncodesBlocks<GroupInt4Act8> && HasPanels<GroupInt4Act8::View>);
static_assert(std::is_trivially_copyable_v<GroupInt4Act8::View>);
static_assert(std::is_same_v<GroupInt4Act8Of<64>::Code, GroupInt4Of<64>::Code>, "one file for both");

BOOST_AUTO_TEST_CASE_TEMPLATE(blocks_make_the_whole_and_views_read_the_code, G, Groups) {
  check_packing<GroupInt4Act8Of<G::value>>(18);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(values_are_those_of_int4, G, Groups) {
  for_odd_weights(18, [](const Weights& w) {
    const auto packed = encoded<GroupInt4Act8Of<G::value>>(w), other = encoded<GroupInt4Of<G::value>>(w);
    const auto view = GroupInt4Act8Of<G::value>::view(w.shape, packed);
    const auto int4 = GroupInt4Of<G::value>::view(w.shape, other);
    for (int r = 0; r < w.shape.rows; ++r) {
      for (int c = 0; c < w.shape.cols; ++c) BOOST_TEST_REQUIRE(same_bits(view.at(r, c), int4.at(r, c)), name_of(w));
    }
    BOOST_TEST(padding_is_zero(view));
  });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(four_bits_a_weight_and_two_bytes_a_group, G, Groups) {
  for_odd_weights(0, [](const Weights& w) {
    const std::size_t rows = panels_of(w.shape.rows) * 16, cols = static_cast<std::size_t>(w.shape.cols);
    BOOST_TEST(GroupInt4Act8Of<G::value>::bytes(w.shape) ==
               lines(rows * ((cols + 7) / 8) * 4) + lines(rows * ((cols + G::value - 1) / G::value) * 2));
  });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(eight_columns_are_two_quads_in_four_bytes, G, Groups) {
  using P = GroupInt4Act8Of<G::value>;
  const Weights w = random_weights({19, G::value + 13}, Content::bell, 3);
  const CodeBlock codes = coded<P>(w);
  const auto packed = encoded<P>(w);
  const Int4Quads quads = P::view(w.shape, packed).panels();
  BOOST_TEST((quads.words() == G::value / 8 + 2 && quads.groups() == 2 && quads.group == G::value));
  for (int r = 0; r < 32; ++r) {
    for (int c = 0; c < quads.words() * 8; ++c) {
      const int byte = quads.codes[((r / 16 * quads.words() + c / 8) * 16 + r % 16) * 4 + c % 4];
      const bool there = r < 19 && c < w.shape.cols;
      const int expected = there ? P::Code::code(codes, static_cast<std::size_t>(r * w.shape.cols + c)) : 0;
      BOOST_TEST_REQUIRE((c % 8 < 4 ? byte & 15 : byte >> 4) == expected);
    }
    for (int g = 0; g < 2 && r < 19; ++g) {
      BOOST_TEST(static_cast<float>(quads.scales[(r / 16 * 2 + g) * 16 + r % 16]) ==
                 codes.scales[static_cast<std::size_t>(2 * r + g)]);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
