// ZeroPointInt8: unsigned 8-bit codes with a scale and a zero point per row or for the whole matrix.
#include "tenon/weights/int8.h"

#include <tuple>

#include "encoding.h"

BOOST_AUTO_TEST_SUITE(weights_int8)

using namespace tenon;
using namespace tenon::test;

using ByTensor = ZeroPointInt8Of<PerTensor>;
using Granularities = std::tuple<PerRow, PerTensor>;

static_assert(std::is_same_v<ZeroPointInt8, ZeroPointInt8Of<PerRow>>);
static_assert(WeightPolicy<ZeroPointInt8> && EncodesBlocks<ZeroPointInt8> && !EncodesWithRange<ZeroPointInt8>);
static_assert(WeightPolicy<ByTensor> && EncodesWithRange<ByTensor> && !EncodesBlocks<ByTensor>);
static_assert(HasPanels<ZeroPointInt8::View> && HasPanels<ByTensor::View> &&
              std::is_trivially_copyable_v<ByTensor::View>);
static_assert(WeightCode<Int8Code<PerRow>> && WeightCode<Int8Code<PerTensor>> &&
              Int8Code<PerRow>::name != Int8Code<PerTensor>::name);

namespace {

double step_of(const ValueRange& range) { return (static_cast<double>(range.largest) - range.least) / 255; }
ValueRange range_of(std::span<const float> row) {
  ValueRange range;
  range.add(row);
  return range;
}

// Rounding to the nearest code loses half a step. Rounding the zero point moves all codes by up to half a step. A
// weight at an end may then need a code of up to 255.5 or down to -0.5, and the end is at most half a step away. Float
// arithmetic on numbers of up to 255 adds 2^-14 of a step. Rows with a subnormal step are zeros.
double row_bound(std::span<const float> row, double weight) {
  const double step = step_of(range_of(row));
  return step < 0x1p-126 ? std::fabs(weight) : step * (0.5 + 0x1p-14);
}

std::uint8_t code_of(const CodeBlock& block, int row, int col) {
  return static_cast<std::uint8_t>(block.codes[static_cast<std::size_t>(row) * static_cast<std::size_t>(block.cols) +
                                               static_cast<std::size_t>(col)]);
}

}  // namespace

BOOST_AUTO_TEST_CASE(blocks_make_the_whole_and_views_read_the_code) { check_packing<ZeroPointInt8>(126); }

// The zero point of a whole matrix is a fraction. Subtracting 128 rounds it once more, by at most 2^-18.
BOOST_AUTO_TEST_CASE(blocks_with_the_range_of_the_whole_make_the_whole) {
  check_packing<ByTensor>(126, [](float at, float value, const CodeBlock& codes) {
    return std::fabs(at - value) <= codes.scales[0] * 0x1p-18f + std::fabs(value) * 0x1p-22f;
  });
}

BOOST_AUTO_TEST_CASE(a_byte_a_weight_a_scale_and_a_zero_point) {
  for_odd_weights(0, [](const Weights& w) {
    const std::size_t rows = panels_of(w.shape.rows) * 16, codes = lines(rows * static_cast<std::size_t>(w.shape.cols));
    BOOST_TEST(ZeroPointInt8::bytes(w.shape) == codes + 2 * rows * 4);
    BOOST_TEST(ByTensor::bytes(w.shape) == codes + 2 * 64);
  });
}

BOOST_AUTO_TEST_CASE(weights_of_a_row_are_within_half_a_step) {
  const double worst = worst_error<ZeroPointInt8>(126, row_bound);
  BOOST_TEST((worst > 0.99 && worst <= 1), worst);
  // Counter-checks: truncation loses a whole step; one scale for all rows loses more than a step of small rows.
  Weights w = random_weights({16, 100}, Content::bell, 1);
  for (int c = 0; c < 100; ++c) w.values[static_cast<std::size_t>(c)] *= 0.01f;
  const CodeBlock block = coded<ZeroPointInt8>(w);
  const auto cut = [&](int r, int c) {
    const float scale = block.scales[static_cast<std::size_t>(r)];
    return std::floor(w.at(r, c) / scale) * scale;
  };
  BOOST_TEST(worst_error(w, cut, row_bound) > 1.5);
  const auto packed = encoded<ByTensor>(w);
  const auto view = ByTensor::view(w.shape, packed);
  BOOST_TEST(worst_error(
                 w, [&](int r, int c) { return view.at(r, c); }, row_bound) > 1.5);
}

// Uniform errors of at most half a step have the deviation step / sqrt(12) and no bias.
BOOST_AUTO_TEST_CASE(errors_of_a_row_are_evenly_spread) {
  const Weights w = random_weights({16, 4000}, Content::uniform, 7);
  const CodeBlock block = coded<ZeroPointInt8>(w);
  double squares = 0, sum = 0;
  for (int r = 0; r < 16; ++r) {
    for (int c = 0; c < 4000; ++c) {
      const double error =
          (static_cast<double>(Int8Code<PerRow>::value(block, r, c)) - w.at(r, c)) / step_of(range_of(w.row(r)));
      squares += error * error;
      sum += error;
    }
  }
  BOOST_TEST(std::sqrt(12 * squares / 64000) == 1.0, boost::test_tools::tolerance(0.01));
  BOOST_TEST(std::fabs(sum / 64000) < 0.005);  // 4 standard deviations of the mean of 64,000
}

// Truncation towards the minimum: the value is never above the weight and never a whole step below it.
BOOST_AUTO_TEST_CASE(weights_of_a_matrix_are_within_a_step_below) {
  const auto check = [](const Weights& w) {
    const auto packed = encoded<ByTensor>(w);
    const auto view = ByTensor::view(w.shape, packed);
    const double step = step_of(w.range());
    if (step < 0x1p-126) return;
    for (int r = 0; r < w.shape.rows; ++r) {
      for (int c = 0; c < w.shape.cols; ++c) {
        const double below = (static_cast<double>(w.at(r, c)) - view.at(r, c)) / step;
        BOOST_TEST_REQUIRE((below > -0x1p-14 && below < 1 + 0x1p-14), name_of(w) << ": " << below << " steps");
      }
    }
  };
  for_odd_weights(126, check);
  for_random_weights(126, check);
}

// The ends of every range are the codes 0 and 255. The mean error between them is half a step.
BOOST_AUTO_TEST_CASE(a_range_uses_all_codes_of_a_matrix) {
  Random random(5);
  int low = 0, high = 0;
  for (int i = 0; i < 50'000; ++i) {
    // Magnitudes as far apart as possible, where arithmetic in double rounds, too.
    const float least = -std::ldexp(1 + std::fabs(random.uniform()), random.below(60) - 30),
                largest = std::ldexp(1 + std::fabs(random.uniform()), random.below(60) - 30);
    const CodeBlock block = coded<ByTensor>({{1, 2}, {least, largest}});
    low += code_of(block, 0, 0) == 0;
    high += code_of(block, 0, 1) == 255;
  }
  BOOST_TEST(low == 50'000);
  BOOST_TEST(high == 50'000);
}

// The example of the literature: five weights, in every shape and division into blocks.
BOOST_AUTO_TEST_CASE(the_published_five_weights_give_the_published_codes) {
  const std::vector<float> five = {3.14063f, 2.90192f, 0.57782f, -0.14590f, -1.29091f};
  const std::array<int, 5> expected = {255, 241, 107, 65, 0};
  const CodeBlock row = coded<ByTensor>({{1, 5}, five}), column = coded<ByTensor>({{5, 1}, five});
  for (int i = 0; i < 5; ++i) {
    BOOST_TEST(int{code_of(row, 0, i)} == expected[static_cast<std::size_t>(i)]);
    BOOST_TEST(int{code_of(column, i, 0)} == expected[static_cast<std::size_t>(i)]);
  }
  BOOST_TEST((row.scales.size() == 1 && row.zero_points.size() == 1 && column.scales.size() == 1));
  BOOST_TEST(row.scales[0] == 0.0173786f, boost::test_tools::tolerance(1e-5f));
  BOOST_TEST(-row.zero_points[0] * row.scales[0] == -1.29091f, boost::test_tools::tolerance(1e-6f));

  // Five rows in two blocks, each encoded with the range of all rows.
  const Weights rows{{5, 1}, five};
  CodeBlock block;
  for (const int first : {3, 0}) {
    const int count = first == 0 ? 3 : 2;
    Int8Code<PerTensor>::encode(1, rows.rows(first, count), rows.range(), block);
    for (int i = 0; i < count; ++i)
      BOOST_TEST(int{code_of(block, i, 0)} == expected[static_cast<std::size_t>(first + i)]);
    BOOST_TEST((block.scales == row.scales && block.zero_points == row.zero_points));
  }

  // Twenty rows of one column. Minimum and maximum are in different blocks, in either order.
  Weights w{{20, 1}, {}};
  for (int i = 0; i < 20; ++i)
    w.values.push_back(i == 2 ? five[4] : i == 18 ? five[0] : five[static_cast<std::size_t>(1 + i % 3)]);
  const auto packed = encoded<ByTensor>(w, 16);
  const auto panels = ByTensor::view(w.shape, packed).panels();
  for (int i = 0; i < 20; ++i) {
    const int code = i == 2 ? 0 : i == 18 ? 255 : expected[static_cast<std::size_t>(1 + i % 3)];
    BOOST_TEST(int{panels.panel(i / 16)[i % 16]} == code - 128);
  }
  BOOST_TEST(panels.scale_stride == 0);
  for (int i = 0; i < 16; ++i) {
    BOOST_TEST((panels.scales[i] == row.scales[0] && panels.zero_points[i] == row.zero_points[0] - 128));
  }
  // Counter-check: a block with its own range has other codes.
  CodeBlock own;
  Int8Code<PerTensor>::encode(1, w.rows(0, 16), range_of(w.rows(0, 16)), own);
  BOOST_TEST(code_of(own, 0, 0) != 241);
}

BOOST_AUTO_TEST_CASE(panels_and_files_of_rows_have_known_bytes) {
  // Steps of 1 and 0.5. The zero point of the first row is rounded from 100.2, so that its ends are 0 and 255.
  const Weights w{{2, 3}, {-100.2f, 0.0f, 154.8f, 0.25f, 127.5f, 0.75f}};
  const CodeBlock block = coded<ZeroPointInt8>(w);
  const std::array<int, 6> expected = {0, 100, 255, 0, 255, 2};  // 0.25 and 0.75 are ties, to even
  for (int i = 0; i < 6; ++i) BOOST_TEST(int{code_of(block, i / 3, i % 3)} == expected[static_cast<std::size_t>(i)]);
  BOOST_TEST((block.zero_points == std::vector<float>{100.0f, 0.0f}));
  BOOST_TEST((block.scales == std::vector<float>{(154.8f + 100.2f) / 255, 0.5f}));
  const auto packed = encoded<ZeroPointInt8>(w);
  const auto panels = ZeroPointInt8::view(w.shape, packed).panels();
  for (int i = 0; i < 6; ++i)
    BOOST_TEST(int{panels.panel(0)[i % 3 * 16 + i / 3]} == expected[static_cast<std::size_t>(i)] - 128);
  BOOST_TEST((panels.zero_points[0] == -28.0f && panels.zero_points[1] == -128.0f && panels.scale_stride == 16));
  BOOST_TEST(padding_is_zero(ZeroPointInt8::view(w.shape, packed)));
}

// Zero points of rows are integers, so a weight of exactly 0 reads as exactly 0.
BOOST_AUTO_TEST_CASE(a_weight_of_zero_stays_zero) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Weights w = random_weights({16, 33}, kContents[seed % kContents.size()], seed + 1, 126);
    for (int r = 0; r < 16; ++r) w.values[static_cast<std::size_t>(r * 33 + r)] = r % 2 ? 0.0f : -0.0f;
    const auto packed = encoded<ZeroPointInt8>(w);
    const auto view = ZeroPointInt8::view(w.shape, packed);
    for (int r = 0; r < 16; ++r) {
      BOOST_TEST_REQUIRE(view.at(r, r) == 0);
      BOOST_TEST_REQUIRE(view.panels().zero_points[r] == std::nearbyint(view.panels().zero_points[r]));
    }
  }
  // Counter-check: the fractional zero point of a whole matrix moves it.
  const CodeBlock block = coded<ByTensor>({{1, 3}, {-1.29f, 0.0f, 3.14f}});
  BOOST_TEST(Int8Code<PerTensor>::value(block, 0, 1) != 0);
}

BOOST_AUTO_TEST_CASE(rows_of_one_sign_and_of_one_value) {
  const auto read = [](const std::vector<float>& row) {
    const Weights w{{1, static_cast<int>(row.size())}, row};
    const CodeBlock block = coded<ZeroPointInt8>(w);
    std::vector<int> codes;
    for (int c = 0; c < w.shape.cols; ++c) codes.push_back(code_of(block, 0, c));
    codes.push_back(static_cast<int>(block.zero_points[0]));
    return codes;
  };
  BOOST_TEST((read({1.0f, 2.0f, 5.1f}) == std::vector{50, 100, 255, 0}));  // the range includes 0 as its minimum
  BOOST_TEST((read({-1.0f, -2.0f, -5.1f}) == std::vector{205, 155, 0, 255}));
  BOOST_TEST((read({3.0f, 3.0f}) == std::vector{255, 255, 0}));
  BOOST_TEST((read({-3.0f, -3.0f}) == std::vector{0, 0, 255}));
  BOOST_TEST((read({0.0f, -0.0f, 0.0f}) == std::vector{0, 0, 0, 0}));
  for (const float x : {1e-40f, 0x1p-149f, -3e-37f}) {  // the step would be subnormal
    const Weights w{{1, 2}, {x, 0}};
    const auto packed = encoded<ZeroPointInt8>(w);
    BOOST_TEST(ZeroPointInt8::view(w.shape, packed).at(0, 0) == 0);
    BOOST_TEST(Int8Code<PerRow>::value(coded<ZeroPointInt8>(w), 0, 0) == 0);
  }
  const Weights w{{1, 2}, {3e-36f, 0}};  // one that is just normal
  BOOST_TEST(Int8Code<PerRow>::value(coded<ZeroPointInt8>(w), 0, 0) == 3e-36f, boost::test_tools::tolerance(1e-6f));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_range_that_is_infinite_is_refused, Granularity, Granularities) {
  using P = ZeroPointInt8Of<Granularity>;
  constexpr float most = std::numeric_limits<float>::max();
  BOOST_TEST(!refuses<P>({most, 0.0f}));
  BOOST_TEST(!refuses<P>({most / 2, -most / 2}));
  BOOST_TEST(refuses<P>({most, -most}));
  BOOST_TEST(refuses<P>({3e38f, 1.0f, -1e38f}));
}

BOOST_AUTO_TEST_SUITE_END()
