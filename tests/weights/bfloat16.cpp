// BFloat16: the upper halves of weights, rounded to nearest, in panels of sixteen rows.
#include "tenon/weights/bfloat16.h"

#include "encoding.h"

BOOST_AUTO_TEST_SUITE(weights_bfloat16)

using namespace tenon;
using namespace tenon::test;

static_assert(WeightPolicy<BFloat16> && EncodesBlocks<BFloat16> && !EncodesWithRange<BFloat16>);
static_assert(HasPanels<BFloat16::View> && std::is_trivially_copyable_v<BFloat16::View> && WeightCode<BFloat16Code>);
static_assert(BFloat16Code::bits == 16 && !BFloat16Code::has_scales && BFloat16Code::dtype == DType::bf16);

namespace {

// 8 significant bits: the error is at most half a unit in the last place, 2^-8 of the weight. For subnormals it is half
// a step of 2^-133.
double bound(std::span<const float>, double weight) { return std::max(std::fabs(weight) * 0x1p-8, 0x1p-134); }

}  // namespace

BOOST_AUTO_TEST_CASE(blocks_make_the_whole_and_views_read_the_code) { check_packing<BFloat16>(127); }

BOOST_AUTO_TEST_CASE(two_bytes_a_weight_in_panels_of_sixteen_rows) {
  for_odd_weights(0, [](const Weights& w) {
    BOOST_TEST(BFloat16::bytes(w.shape) ==
               lines(panels_of(w.shape.rows) * 16 * static_cast<std::size_t>(w.shape.cols) * 2));
  });
  BOOST_TEST(BFloat16::bytes({250'000, 50'000}) == std::size_t{250'000} * 50'000 * 2);
  BOOST_TEST(BFloat16::bytes({0, 5}) == 0);
}

BOOST_AUTO_TEST_CASE(weights_are_the_nearest) {
  const double worst = worst_error<BFloat16>(127, bound);
  BOOST_TEST((worst > 0.95 && worst <= 1), worst);
  // Counter-check: truncation loses up to twice as much.
  const Weights w = random_weights({16, 100}, Content::wild, 1, 127);
  const auto cut = [&](int r, int c) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(w.at(r, c)) & 0xffff0000u);
  };
  BOOST_TEST(worst_error(w, cut, bound) > 1.5);
}

BOOST_AUTO_TEST_CASE(panels_and_files_have_known_bytes) {
  const Weights w{{2, 2}, {1.0f, -2.0f, 0x1.01p0f, 0x1.03p0f}};  // the last two are ties
  const CodeBlock block = coded<BFloat16>(w);
  const std::array<std::uint16_t, 4> expected = {0x3f80, 0xc000, 0x3f80, 0x3f82};
  BOOST_TEST_REQUIRE(block.codes.size() == sizeof expected);
  BOOST_TEST(std::memcmp(block.codes.data(), expected.data(), sizeof expected) == 0);
  BOOST_TEST((block.rows == 2 && block.cols == 2 && block.scales.empty() && block.zero_points.empty()));
  const auto packed = encoded<BFloat16>(w);
  const auto view = BFloat16::view(w.shape, packed);
  for (int i = 0; i < 4; ++i)
    BOOST_TEST(view.panels().panel(0)[i % 2 * 16 + i / 2].bits == expected[static_cast<std::size_t>(i)]);
  BOOST_TEST((view.panels().scales == nullptr && view.panels().zero_points == nullptr));
  BOOST_TEST(padding_is_zero(view));
}

BOOST_AUTO_TEST_CASE(representable_values_keep_their_bits) {
  Weights w = random_weights({33, 65}, Content::wild, 3, 127);
  for (float& x : w.values) x = static_cast<float>(bfloat16(x));
  const auto packed = encoded<BFloat16>(w);
  const auto view = BFloat16::view(w.shape, packed);
  for (int r = 0; r < 33; ++r) {
    for (int c = 0; c < 65; ++c) BOOST_TEST_REQUIRE(same_bits(view.at(r, c), w.at(r, c)));
  }
}

BOOST_AUTO_TEST_CASE(values_that_overflow_are_refused) {
  BOOST_TEST(!refuses<BFloat16>({std::bit_cast<float>(0x7f7f7fffu), -std::bit_cast<float>(0x7f7f7fffu)}));
  BOOST_TEST(refuses<BFloat16>({std::bit_cast<float>(0x7f7f8000u)}));
  BOOST_TEST(refuses<BFloat16>({3.4e38f, 1.0f}));
  BOOST_TEST(refuses<BFloat16>({1.0f, -3.4e38f, 0.0f}));
}

BOOST_AUTO_TEST_SUITE_END()
