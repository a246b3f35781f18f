// ZeroPointInt8Act8: the codes of ZeroPointInt8, with four columns of a row adjacent.
#include "tenon/weights/int8_act8.h"

#include "encoding.h"

BOOST_AUTO_TEST_SUITE(weights_int8_act8)

using namespace tenon;
using namespace tenon::test;

using P = ZeroPointInt8Act8;
static_assert(WeightPolicy<P> && EncodesBlocks<P> && HasPanels<P::View> && std::is_trivially_copyable_v<P::View>);
static_assert(std::is_same_v<P::Code, ZeroPointInt8::Code>, "one file for both");

BOOST_AUTO_TEST_CASE(blocks_make_the_whole_and_views_read_the_code) { check_packing<P>(126); }

BOOST_AUTO_TEST_CASE(values_are_those_of_int8) {
  for_odd_weights(126, [](const Weights& w) {
    const auto packed = encoded<P>(w), other = encoded<ZeroPointInt8>(w);
    const auto view = P::view(w.shape, packed);
    const auto int8 = ZeroPointInt8::view(w.shape, other);
    for (int r = 0; r < w.shape.rows; ++r) {
      for (int c = 0; c < w.shape.cols; ++c) BOOST_TEST_REQUIRE(same_bits(view.at(r, c), int8.at(r, c)), name_of(w));
    }
    BOOST_TEST(padding_is_zero(view));
  });
}

BOOST_AUTO_TEST_CASE(four_bytes_a_quad_a_scale_and_a_zero_point) {
  for_odd_weights(0, [](const Weights& w) {
    const std::size_t rows = panels_of(w.shape.rows) * 16, quads = (static_cast<std::size_t>(w.shape.cols) + 3) / 4;
    BOOST_TEST(P::bytes(w.shape) == lines(rows * quads * 4) + 2 * lines(rows * 4));
  });
  BOOST_TEST(P::bytes({250'000, 50'000}) == std::size_t{250'000} * 50'000 + 2'000'000);
  BOOST_TEST(P::bytes({0, 5}) == 0);
}

BOOST_AUTO_TEST_CASE(quads_of_a_row_lie_side_by_side_and_zeros_behind) {
  const Weights w = random_weights({19, 7}, Content::bell, 3);
  const CodeBlock codes = coded<P>(w);
  const auto packed = encoded<P>(w);
  const Int8Quads quads = P::view(w.shape, packed).panels();
  BOOST_TEST(quads.quads() == 2);
  for (int r = 0; r < 32; ++r) {
    for (int c = 0; c < 8; ++c) {
      const bool there = r < 19 && c < 7;
      const int expected = there ? std::to_integer<int>(codes.codes[static_cast<std::size_t>(7 * r + c)]) : 0;
      BOOST_TEST_REQUIRE(int{quads.codes[((r / 16 * 2 + c / 4) * 16 + r % 16) * 4 + c % 4]} == expected);
    }
  }
  for (int r = 0; r < 19; ++r) {
    BOOST_TEST(quads.scales[r] == codes.scales[static_cast<std::size_t>(r)]);
    BOOST_TEST(static_cast<float>(quads.zero_points[r]) == codes.zero_points[static_cast<std::size_t>(r)]);
  }
}

BOOST_AUTO_TEST_CASE(zero_points_of_files_must_be_integers) {
  const auto said = [](float zero_point) -> std::string {
    CodeBlock block{1, 2, {std::byte{1}, std::byte{2}}, {0.5f}, {zero_point}};
    std::vector<std::byte> packed(P::bytes({1, 2}));
    try {
      P::pack({1, 2}, 0, block, packed);
    } catch (const Error& error) {
      BOOST_TEST((error.kind() == Error::Kind::unsupported));
      return error.what();
    }
    return "accepted";
  };
  for (const float fine : {0.0f, 1.0f, 127.0f, 255.0f}) BOOST_TEST(said(fine) == "accepted");
  for (const float bad :
       {0.5f, -1.0f, 256.0f, 1e30f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    BOOST_TEST(said(bad).find("use int8") != std::string::npos, said(bad));
  }
}

BOOST_AUTO_TEST_SUITE_END()
