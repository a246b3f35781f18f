// Float16: weights as binary16, rounded to nearest, in panels of sixteen rows.
#include "tenon/weights/float16.h"

#include "encoding.h"

BOOST_AUTO_TEST_SUITE(weights_float16)

using namespace tenon;
using namespace tenon::test;

static_assert(WeightPolicy<Float16> && EncodesBlocks<Float16> && !EncodesWithRange<Float16>);
static_assert(HasPanels<Float16::View> && std::is_trivially_copyable_v<Float16::View> && WeightCode<Float16Code>);
static_assert(Float16Code::bits == 16 && !Float16Code::has_scales && Float16Code::dtype == DType::f16);

namespace {

// 11 significant bits: the error is at most half a unit in the last place, 2^-11 of the weight. Below 2^-14 it is half
// a step of 2^-24.
double bound(std::span<const float>, double weight) { return std::max(std::fabs(weight) * 0x1p-11, 0x1p-25); }

}  // namespace

BOOST_AUTO_TEST_CASE(blocks_make_the_whole_and_views_read_the_code) { check_packing<Float16>(15); }

BOOST_AUTO_TEST_CASE(two_bytes_a_weight_in_panels_of_sixteen_rows) {
  for_odd_weights(0, [](const Weights& w) {
    BOOST_TEST(Float16::bytes(w.shape) ==
               lines(panels_of(w.shape.rows) * 16 * static_cast<std::size_t>(w.shape.cols) * 2));
  });
}

BOOST_AUTO_TEST_CASE(weights_are_the_nearest) {
  const double worst = worst_error<Float16>(15, bound);
  BOOST_TEST((worst > 0.95 && worst <= 1), worst);
  // Counter-checks: truncation loses up to twice as much; flushing subnormals loses them entirely.
  const Weights w = random_weights({16, 100}, Content::wild, 1, 15);
  const auto read = [&](int r, int c) { return static_cast<float>(float16(w.at(r, c))); };
  const auto cut = [&](int r, int c) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(w.at(r, c)) & 0xffffe000u);
  };
  const auto flushed = [&](int r, int c) { return std::fabs(w.at(r, c)) < 0x1p-14f ? 0.0f : read(r, c); };
  BOOST_TEST(worst_error(w, read, bound) <= 1);
  BOOST_TEST(worst_error(w, cut, bound) > 1.5);
  BOOST_TEST(worst_error(w, flushed, bound) > 100);
}

BOOST_AUTO_TEST_CASE(panels_and_files_have_known_bytes) {
  const Weights w{{2, 2}, {1.0f, -2.0f, 0x1.002p0f, 0x1p-24f}};
  const CodeBlock block = coded<Float16>(w);
  const std::array<std::uint16_t, 4> expected = {0x3c00, 0xc000, 0x3c00, 0x0001};
  BOOST_TEST_REQUIRE(block.codes.size() == sizeof expected);
  BOOST_TEST(std::memcmp(block.codes.data(), expected.data(), sizeof expected) == 0);
  BOOST_TEST((block.rows == 2 && block.cols == 2 && block.scales.empty() && block.zero_points.empty()));
  const auto packed = encoded<Float16>(w);
  const auto view = Float16::view(w.shape, packed);
  for (int i = 0; i < 4; ++i)
    BOOST_TEST(view.panels().panel(0)[i % 2 * 16 + i / 2].bits == expected[static_cast<std::size_t>(i)]);
  BOOST_TEST((view.panels().scales == nullptr && view.panels().zero_points == nullptr));
  BOOST_TEST(padding_is_zero(view));
}

BOOST_AUTO_TEST_CASE(weights_of_65520_or_more_are_refused) {
  BOOST_TEST(!refuses<Float16>({65504.0f, -std::nextafterf(65520.0f, 0.0f)}));
  BOOST_TEST(refuses<Float16>({65520.0f}));
  BOOST_TEST(refuses<Float16>({0.0f, -65520.0f, 1.0f}));
  BOOST_TEST(refuses<Float16>({3.4e38f}));
}

BOOST_AUTO_TEST_SUITE_END()
