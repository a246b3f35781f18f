// GroupInt8: signed 8-bit codes with a float16 scale per 32 columns of a row, as Q8_0 of GGUF has them.
#include "tenon/weights/group_int8.h"

#include "encoding.h"

BOOST_AUTO_TEST_SUITE(weights_group_int8)

using namespace tenon;
using namespace tenon::test;

static_assert(WeightPolicy<GroupInt8> && EncodesBlocks<GroupInt8> && !EncodesWithRange<GroupInt8>);
static_assert(HasPanels<GroupInt8::View> && std::is_trivially_copyable_v<GroupInt8::View>);
static_assert(WeightCode<GroupInt8Code> && groups_of<GroupInt8Code>(33) == 2);

BOOST_AUTO_TEST_CASE(blocks_make_the_whole_and_views_read_the_code) { check_packing<GroupInt8>(22); }

BOOST_AUTO_TEST_CASE(a_byte_a_weight_and_two_bytes_a_group) {
  for_odd_weights(0, [](const Weights& w) {
    const std::size_t rows = panels_of(w.shape.rows) * 16, cols = static_cast<std::size_t>(w.shape.cols);
    BOOST_TEST(GroupInt8::bytes(w.shape) == lines(rows * ((cols + 3) / 4) * 4) + lines(rows * ((cols + 31) / 32) * 2));
  });
}

// Integers from -127 to 127 times a power of two are exact where a group has one of the largest.
BOOST_AUTO_TEST_CASE(panels_and_files_have_known_bytes) {
  constexpr int cols = 43;
  const auto code = [](int r, int c) { return c % 32 == 0 ? -127 : (35 * c + 11 * r) % 255 - 127; };
  Weights w{{3, cols}, {}};
  for (int i = 0; i < 3 * cols; ++i)
    w.values.push_back(std::ldexp(static_cast<float>(code(i / cols, i % cols)), i / cols - 3));
  const CodeBlock block = coded<GroupInt8>(w);
  const auto packed = encoded<GroupInt8>(w);
  const auto view = GroupInt8::view(w.shape, packed);
  const GroupInt8Panels panels = view.panels();
  BOOST_TEST((panels.words() == 11 && panels.groups() == 2));
  BOOST_TEST(block.codes.size() == std::size_t{3 * cols});
  for (int i = 0; i < 3 * cols; ++i) {
    const int r = i / cols, c = i % cols, expected = code(r, c);
    BOOST_TEST_REQUIRE(static_cast<int>(static_cast<std::int8_t>(block.codes[static_cast<std::size_t>(i)])) ==
                       expected);
    BOOST_TEST_REQUIRE(static_cast<int>(panels.codes[c * 16 + r]) == expected);
    BOOST_TEST_REQUIRE(static_cast<float>(panels.scales[c / 32 * 16 + r]) == std::ldexp(1.0f, r - 3));
    BOOST_TEST_REQUIRE(block.scales[static_cast<std::size_t>(2 * r + c / 32)] == std::ldexp(1.0f, r - 3));
    BOOST_TEST_REQUIRE(view.at(r, c) == w.at(r, c));
  }
  BOOST_TEST(padding_is_zero(view));
}

// Half a step of largest / 127, and the rounding of the scale to float16: 2^-11 of the value, or 2^-25 times codes of
// up to 127 where the scale is below 2^-14. A hundredth more for the rounding of the quotients in float32.
BOOST_AUTO_TEST_CASE(errors_are_within_half_a_step) {
  const auto bound = [](std::span<const float> row, double weight) {
    double largest = 0;
    for (const double w : row) largest = std::max(largest, std::fabs(w));
    return 1.01 * (largest / 254 + std::fabs(weight) * 0x1p-11) + 127 * 0x1p-25;
  };
  const double worst = worst_error<GroupInt8>(22, bound);
  BOOST_TEST(worst <= 1.0);
  BOOST_TEST(worst > 0.5);  // the bound is near
}

BOOST_AUTO_TEST_CASE(encoding_decoded_values_gives_the_codes_again) {
  const auto check = [](const Weights& w) {
    const CodeBlock block = coded<GroupInt8>(w);
    Weights decoded{w.shape, {}};
    for (int r = 0; r < w.shape.rows; ++r)
      for (int c = 0; c < w.shape.cols; ++c) decoded.values.push_back(GroupInt8Code::value(block, r, c));
    // A scale that float16 holds with few bits moves the largest code off 127; such a group is another's.
    const CodeBlock again = coded<GroupInt8>(decoded);
    for (int r = 0; r < w.shape.rows; ++r)
      for (int c = 0; c < w.shape.cols; ++c) {
        const auto scale = block.scales[static_cast<std::size_t>(r * groups_of<GroupInt8Code>(w.shape.cols) + c / 32)];
        if (std::fabs(scale) < 0x1p-14f) continue;
        BOOST_TEST_REQUIRE(same_bits(GroupInt8Code::value(again, r, c), GroupInt8Code::value(block, r, c)));
      }
  };
  for_odd_weights(22, check);
  for_random_weights(22, check);
}

BOOST_AUTO_TEST_CASE(huge_weights_are_refused) {
  BOOST_TEST(!refuses<GroupInt8>({8'319'000.0f, -1.0f}));
  BOOST_TEST(refuses<GroupInt8>({8'400'000.0f}));
  BOOST_TEST(refuses<GroupInt8>({1.0f, -3.4e38f}));
}

BOOST_AUTO_TEST_SUITE_END()
