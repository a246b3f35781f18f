// Float8: eight-bit floats with one scale per row, which maps the row's largest magnitude to the format's largest.
#include "tenon/weights/float8.h"

#include <tuple>

#include "encoding.h"

BOOST_AUTO_TEST_SUITE(weights_float8)

using namespace tenon;
using namespace tenon::test;

using Formats = std::tuple<E4M3, E5M2>;

static_assert(WeightPolicy<Float8<E4M3>> && EncodesBlocks<Float8<E5M2>> && !EncodesWithRange<Float8<E4M3>>);
static_assert(HasPanels<Float8<E4M3>::View> && std::is_trivially_copyable_v<Float8<E5M2>::View>);
static_assert(WeightCode<Float8Code<E4M3>> && WeightCode<Float8Code<E5M2>> &&
              Float8Code<E4M3>::dtype != Float8Code<E5M2>::dtype);
static_assert(Float8Code<E4M3>::bits == 8 && Float8Code<E4M3>::has_scales && !Float8Code<E4M3>::has_zero_points);

namespace {

float largest_of(std::span<const float> row) {
  float largest = 0;
  for (const float x : row) largest = std::max(largest, std::fabs(x));
  return largest;
}

// 4 and 3 significant bits: half a unit in the last place is at most 2^-4 and 2^-3 of the weight. Near zero it is half
// a step of subnormals, 2^-10 and 2^-17 times the scale. Dividing by the scale and multiplying with it round once each,
// 2^-24. A scale below 2^-126 is off by up to 2^-150, which the largest weight multiplies by 448 or 57344.
template <class Format>
double bound(std::span<const float> row, double weight) {
  constexpr bool e4m3 = std::is_same_v<Format, E4M3>;
  const double scale = static_cast<double>(largest_of(row)) / (e4m3 ? 448 : 57344);
  // A scale that would be subnormal is 0, and the row reads as zeros.
  if (static_cast<float>(scale) < std::numeric_limits<float>::min()) return std::max(std::fabs(weight), 0x1p-149);
  const double rounding = std::max(std::fabs(weight) * (e4m3 ? 0x1p-4 : 0x1p-3), scale * (e4m3 ? 0x1p-10 : 0x1p-17));
  return rounding + std::fabs(weight) * 0x1p-22 + (scale < 0x1p-125 ? (e4m3 ? 450 : 57346) * 0x1p-150 : 0);
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(blocks_make_the_whole_and_views_read_the_code, Format, Formats) {
  check_packing<Float8<Format>>(127);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_byte_a_weight_and_a_scale_a_row, Format, Formats) {
  for_odd_weights(0, [](const Weights& w) {
    const std::size_t rows = panels_of(w.shape.rows) * 16;
    BOOST_TEST(Float8<Format>::bytes(w.shape) == lines(rows * static_cast<std::size_t>(w.shape.cols)) + rows * 4);
  });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(weights_are_the_nearest, Format, Formats) {
  const double worst = worst_error<Float8<Format>>(127, bound<Format>);
  BOOST_TEST((worst > 0.95 && worst <= 1), worst);
  // Counter-check: the code next to the nearest one.
  const Weights w = random_weights({16, 100}, Content::bell, 1);
  const auto beside = [&](int r, int c) {
    const float scale = largest_of(w.row(r)) / Format::largest;
    float8<Format> code(w.at(r, c) / scale);
    code.bits ^= 1;
    return static_cast<float>(code) * scale;
  };
  BOOST_TEST(worst_error(w, beside, bound<Format>) > 1.5);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(the_largest_of_a_row_becomes_the_largest_code, Format, Formats) {
  for_random_weights(127, [](const Weights& w) {
    const CodeBlock block = coded<Float8<Format>>(w);
    for (int r = 0; r < w.shape.rows; ++r) {
      const float largest = largest_of(w.row(r)), scale = block.scales[static_cast<std::size_t>(r)];
      BOOST_TEST_REQUIRE(scale == largest / Format::largest);
      if (scale < 0x1p-126f) continue;
      for (int c = 0; c < w.shape.cols; ++c) {
        const auto code = Float8Code<Format>::element(&block.codes[static_cast<std::size_t>(r * w.shape.cols + c)]);
        BOOST_TEST_REQUIRE(finite(code));
        if (std::fabs(w.at(r, c)) == largest)
          BOOST_TEST_REQUIRE(static_cast<float>(code) == std::copysign(Format::largest, w.at(r, c)));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(zeros_stay_zeros, Format, Formats) {
  const Weights w{{3, 2}, {0, 0, 5, 0, -0.0f, 0x1p-149f}};
  const auto packed = encoded<Float8<Format>>(w);
  const auto view = Float8<Format>::view(w.shape, packed);
  for (const auto& [r, c] : {std::pair(0, 0), {0, 1}, {1, 1}, {2, 0}, {2, 1}}) BOOST_TEST(view.at(r, c) == 0);
  BOOST_TEST(view.at(1, 0) == 5.0f);
  BOOST_TEST(padding_is_zero(view));
}

BOOST_AUTO_TEST_CASE(panels_and_files_have_known_bytes) {
  const Weights w{{2, 3}, {896.0f, -2.0f, 0.0f, -224.0f, 0.5f, 1.0f}};  // scales 2 and 0.5
  const CodeBlock block = coded<Float8<E4M3>>(w);
  const std::array<std::uint8_t, 6> expected = {0x7e, 0xb8, 0x00, 0xfe, 0x38, 0x40};
  BOOST_TEST_REQUIRE(block.codes.size() == 6u);
  BOOST_TEST(std::memcmp(block.codes.data(), expected.data(), 6) == 0);
  BOOST_TEST((block.scales == std::vector<float>{2.0f, 0.5f} && block.zero_points.empty()));
  const auto packed = encoded<Float8<E4M3>>(w);
  const auto panels = Float8<E4M3>::view(w.shape, packed).panels();
  for (int r = 0; r < 2; ++r) {
    for (int c = 0; c < 3; ++c)
      BOOST_TEST(int{panels.panel(0)[c * 16 + r].bits} == int{expected[static_cast<std::size_t>(3 * r + c)]});
  }
  BOOST_TEST((panels.scales[0] == 2.0f && panels.scales[1] == 0.5f && panels.scale_stride == 16 &&
              panels.zero_points == nullptr));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(every_finite_weight_is_taken, Format, Formats) {
  constexpr float most = std::numeric_limits<float>::max();
  const Weights w{{1, 3}, {most, -most, 1.0f}};
  const auto packed = encoded<Float8<Format>>(w);
  const auto view = Float8<Format>::view(w.shape, packed);
  for (int c = 0; c < 2; ++c) BOOST_TEST(std::fabs(view.at(0, c) / w.at(0, c) - 1) <= 0x1p-22f);
  BOOST_TEST(view.at(0, 2) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
