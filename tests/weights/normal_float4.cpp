// NormalFloat4: four-bit codes of a table, with the largest magnitude of each 64 columns of a row in float32.
#include "tenon/weights/normal_float4.h"

#include "encoding.h"

BOOST_AUTO_TEST_SUITE(weights_normal_float4)

using namespace tenon;
using namespace tenon::test;

static_assert(WeightPolicy<NormalFloat4> && EncodesBlocks<NormalFloat4> && !EncodesWithRange<NormalFloat4>);
static_assert(HasPanels<NormalFloat4::View> && std::is_trivially_copyable_v<NormalFloat4::View>);
static_assert(WeightCode<NormalFloat4Code> && groups_of<NormalFloat4Code>(65) == 2);

BOOST_AUTO_TEST_CASE(blocks_make_the_whole_and_views_read_the_code) { check_packing<NormalFloat4>(127); }

BOOST_AUTO_TEST_CASE(four_bits_a_weight_and_four_bytes_a_group) {
  for_odd_weights(0, [](const Weights& w) {
    const std::size_t rows = panels_of(w.shape.rows) * 16, cols = static_cast<std::size_t>(w.shape.cols);
    BOOST_TEST(NormalFloat4::bytes(w.shape) ==
               lines(rows * ((cols + 7) / 8) * 4) + lines(rows * ((cols + 63) / 64) * 4));
  });
}

// Values of the table times a power of two are exact where a group has -1 or 1.
BOOST_AUTO_TEST_CASE(panels_and_files_have_known_bytes) {
  constexpr int cols = 75;
  const auto code = [](int r, int c) { return c % 64 == 0 ? 15 * (r % 2) : (5 * c + 3 * r) % 16; };
  Weights w{{3, cols}, {}};
  for (int i = 0; i < 3 * cols; ++i)
    w.values.push_back(std::ldexp(normal_float4(code(i / cols, i % cols)), i / cols - 3));
  const CodeBlock block = coded<NormalFloat4>(w);
  const auto packed = encoded<NormalFloat4>(w);
  const auto view = NormalFloat4::view(w.shape, packed);
  const NormalFloat4Panels panels = view.panels();
  BOOST_TEST((panels.words() == 10 && panels.groups() == 2));
  for (int i = 0; i < 3 * cols; ++i) {
    const int r = i / cols, c = i % cols, expected = code(r, c);
    BOOST_TEST_REQUIRE(NormalFloat4Code::code(block, static_cast<std::size_t>(i)) == expected);
    BOOST_TEST_REQUIRE((panels.codes[c / 8 * 16 + r] >> (c % 8 * 4) & 15u) == static_cast<unsigned>(expected));
    BOOST_TEST_REQUIRE(panels.scales[c / 64 * 16 + r] == std::ldexp(1.0f, r - 3));
    BOOST_TEST_REQUIRE(block.scales[static_cast<std::size_t>(2 * r + c / 64)] == std::ldexp(1.0f, r - 3));
    BOOST_TEST_REQUIRE(view.at(r, c) == w.at(r, c));
  }
}

BOOST_AUTO_TEST_CASE(codes_are_the_nearest) {
  for (int i = 0; i < 16; ++i) {
    const float value = kNormalFloat4.values[i];
    BOOST_TEST(nearest_normal_float4(value) == i);
    BOOST_TEST(nearest_normal_float4(-2.0f) == 0);
    BOOST_TEST(nearest_normal_float4(2.0f) == 15);
    if (i < 15) BOOST_TEST(kNormalFloat4.values[i + 1] > value);
  }
  for (int i = -4000; i <= 4000; ++i) {
    const float x = static_cast<float>(i) / 4000;
    const auto distance = [&](int code) { return std::fabs(static_cast<double>(normal_float4(code)) - x); };
    for (int code = 0; code < 16; ++code) BOOST_TEST_REQUIRE(distance(nearest_normal_float4(x)) <= distance(code));
  }
  // The borders of bitsandbytes' dQuantizeNF4 (csrc/kernels.cu), in float32.
  for (const float border : {0.03979014977812767f, 0.3893125355243683f, 0.6427869200706482f, 0.8614784181118011f,
                             0.5016634166240692f, 0.2035212516784668f, 0.2920137718319893f, 0.1202552504837513f,
                             -0.33967943489551544f, -0.13791173323988914f, -0.045525018125772476f,
                             -0.23460740596055984f, -0.6106329262256622f, -0.4599952697753906f, -0.8480964004993439f}) {
    const int below = nearest_normal_float4(std::nextafter(border, -2.0f)),
              above = nearest_normal_float4(std::nextafter(border, 2.0f));
    BOOST_TEST(above == below + 1, border);
  }
}

BOOST_AUTO_TEST_CASE(encoding_decoded_values_gives_the_codes_again) {
  const auto check = [](const Weights& w) {
    const CodeBlock block = coded<NormalFloat4>(w);
    Weights decoded{w.shape, {}};
    for (int r = 0; r < w.shape.rows; ++r)
      for (int c = 0; c < w.shape.cols; ++c) decoded.values.push_back(NormalFloat4Code::value(block, r, c));
    const CodeBlock again = coded<NormalFloat4>(decoded);
    BOOST_TEST((again.scales == block.scales));
    for (int r = 0; r < w.shape.rows; ++r)
      for (int c = 0; c < w.shape.cols; ++c) {
        const float scale =
            block.scales[static_cast<std::size_t>(r * groups_of<NormalFloat4Code>(w.shape.cols) + c / 64)];
        if (scale < 0x1p-100f) continue;  // products may be subnormal
        BOOST_TEST_REQUIRE(NormalFloat4Code::value(again, r, c) == NormalFloat4Code::value(block, r, c));
      }
  };
  for_odd_weights(127, check);
  for_random_weights(127, check);
}

// Half the widest gap of the table, 0.304 between -1 and -0.696, times the largest of the group.
BOOST_AUTO_TEST_CASE(errors_are_within_half_a_gap) {
  const double worst = worst_error<NormalFloat4>(127, [](std::span<const float> row, double) {
    double largest = 0;
    for (const double w : row) largest = std::max(largest, std::fabs(w));
    return 0.152 * largest;
  });
  BOOST_TEST(worst <= 1.0);
  BOOST_TEST(worst > 0.9);
}

BOOST_AUTO_TEST_SUITE_END()
