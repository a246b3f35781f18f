// Int8ExactOf: a format unchanged, plus an int8_act8 copy with the errors and lengths of the copy's rows.
#include "tenon/weights/int8_exact.h"

#include "encoding.h"
#include "tenon/weights/bfloat16.h"

BOOST_AUTO_TEST_SUITE(weights_int8_exact)

using namespace tenon;
using namespace tenon::test;

namespace {

using Int8 = Int8ExactOf<ZeroPointInt8>;
static_assert(HasInt8Approximation<Int8Exact::View> && !HasInt8Approximation<Float32::View>);
static_assert(std::is_same_v<Int8::Code, ZeroPointInt8::Code>, "one file for both");

// Checks blocks against the whole, the view's values against Base's, and the copy's rows against their errors.
template <class Base>
void check(int top) {
  using P = Int8ExactOf<Base>;
  const auto check_one = [&](const Weights& w) {
    const auto whole = encoded<P>(w), base_alone = encoded<Base>(w);
    for (const int block : {16, 32})
      BOOST_TEST_REQUIRE((encoded<P>(w, block) == whole), name_of(w) << " in blocks of " << block);
    const auto view = P::view(w.shape, whole);
    const auto base = Base::view(w.shape, base_alone);
    const typename P::Approximation::View copy{view.approximation().panels};
    for (int r = 0; r < w.shape.rows; ++r) {
      double furthest = 0, squares = 0;
      for (int c = 0; c < w.shape.cols; ++c) {
        const auto value = static_cast<double>(view.at(r, c)), rough = static_cast<double>(copy.at(r, c));
        BOOST_TEST_REQUIRE(same_bits(view.at(r, c), base.at(r, c)), name_of(w));
        furthest = std::max(furthest, std::fabs(value - rough));
        squares += rough * rough;
      }
      // The error is tight up to float precision and the rounding term, whose largest weight is at most 512 scales.
      const double error = static_cast<double>(view.approximation().errors[r]),
                   length = static_cast<double>(view.approximation().lengths[r]);
      const double scale = static_cast<double>(view.approximation().panels.scales[r]);
      const double roundings = 1.01 * (2 * w.shape.cols + 64) * 0x1p-24 * (512 * scale + furthest);
      BOOST_TEST_REQUIRE((error >= furthest && error <= 1.001 * furthest + roundings + 0x1p-125), name_of(w)
                                                                                                      << ", row " << r);
      BOOST_TEST_REQUIRE((length >= std::sqrt(squares) && length <= 1.001 * std::sqrt(squares) + 0x1p-125),
                         name_of(w) << ", row " << r);
    }
  };
  for_odd_weights(top, check_one);
  for_random_weights(top, check_one);
}

}  // namespace

BOOST_AUTO_TEST_CASE(blocks_make_the_whole_and_the_copy_is_as_far_off_as_it_says) {
  check<Float32>(126);
  check<BFloat16>(126);
  check<ZeroPointInt8>(126);
}

BOOST_AUTO_TEST_CASE(codes_of_a_file_make_what_encoding_makes) {
  const Weights w = random_weights({37, 70}, Content::bell, 5);
  std::vector<std::byte> packed(Int8::bytes(w.shape), std::byte{0});
  Int8::pack(w.shape, 0, coded<ZeroPointInt8>(w), packed);
  BOOST_TEST((packed == encoded<Int8>(w)));
}

// The copy adds one byte per weight and four numbers per row.
BOOST_AUTO_TEST_CASE(a_byte_more_a_weight) {
  BOOST_TEST(Int8Exact::bytes({64, 64}) == Float32::bytes({64, 64}) + ZeroPointInt8Act8::bytes({64, 64}) + 2 * 64 * 4);
}

BOOST_AUTO_TEST_CASE(a_weight_that_is_no_number_has_no_bound) {
  Weights w = random_weights({3, 20}, Content::bell, 5);
  w.values[25] = std::numeric_limits<float>::quiet_NaN();
  const auto packed = encoded<Int8Exact>(w);
  const auto view = Int8Exact::view(w.shape, packed);
  BOOST_TEST(view.approximation().errors[1] == std::numeric_limits<float>::infinity());
  BOOST_TEST(view.approximation().errors[0] < 1);
}

BOOST_AUTO_TEST_SUITE_END()
