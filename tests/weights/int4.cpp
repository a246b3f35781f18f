// GroupInt4: four-bit codes, eight columns per word, with a float16 scale per 32, 64 or 128 columns of a row, which a
// search chooses.
#include "tenon/weights/int4.h"

#include <tuple>

#include "encoding.h"

BOOST_AUTO_TEST_SUITE(weights_int4)

using namespace tenon;
using namespace tenon::test;

using Policies = std::tuple<GroupInt4Of<32>, GroupInt4Of<64>, GroupInt4Of<128>>;

static_assert(std::is_same_v<GroupInt4, GroupInt4Of<32>>);
static_assert(WeightPolicy<GroupInt4> && EncodesBlocks<GroupInt4> && !EncodesWithRange<GroupInt4>);
static_assert(HasPanels<GroupInt4::View> && std::is_trivially_copyable_v<GroupInt4::View>);
static_assert(WeightCode<Int4Code<32>> && WeightCode<Int4Code<64>> && WeightCode<Int4Code<128>> &&
              groups_of<Int4Code<64>>(65) == 2);

namespace {

// The sum of squared errors of a group that is read with this scale.
double error_with(std::span<const float> group, double scale) {
  double sum = 0;
  for (const double w : group) {
    const double code = scale == 0 ? 0 : std::clamp(std::nearbyint(w / scale), -8.0, 7.0);
    sum += (w - code * scale) * (w - code * scale);
  }
  return sum;
}

double norm(std::span<const float> group) {
  double sum = 0;
  for (const double w : group) sum += w * w;
  return std::sqrt(sum);
}

// The simple rule: the value of largest magnitude becomes -8.
double plain_error(std::span<const float> group) {
  float extreme = 0;
  for (const float w : group) extreme = std::fabs(w) > std::fabs(extreme) ? w : extreme;
  return error_with(group, static_cast<float>(float16(extreme / -8)));
}

// Calls body(weights of the group, squared error of the values read back, scale).
template <class P, class Body>
void for_groups(const Weights& w, Body&& body) {
  const CodeBlock block = coded<P>(w);
  for (int r = 0; r < w.shape.rows; ++r) {
    for (int first = 0; first < w.shape.cols; first += P::Code::group) {
      const int count = std::min(P::Code::group, w.shape.cols - first);
      double error = 0;
      for (int c = first; c < first + count; ++c) {
        const double e = static_cast<double>(P::Code::value(block, r, c)) - w.at(r, c);
        error += e * e;
      }
      const int groups = groups_of<typename P::Code>(w.shape.cols);
      body(w.row(r).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)), error,
           block.scales[static_cast<std::size_t>(r * groups + first / P::Code::group)]);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(blocks_make_the_whole_and_views_read_the_code, P, Policies) { check_packing<P>(18); }

BOOST_AUTO_TEST_CASE_TEMPLATE(four_bits_a_weight_and_two_bytes_a_group, P, Policies) {
  for_odd_weights(0, [](const Weights& w) {
    const std::size_t rows = panels_of(w.shape.rows) * 16, cols = static_cast<std::size_t>(w.shape.cols);
    BOOST_TEST(P::bytes(w.shape) ==
               lines(rows * ((cols + 7) / 8) * 4) + lines(rows * ((cols + P::Code::group - 1) / P::Code::group) * 2));
  });
}

// Integers from -8 to 7 times any power of two are exact, so their codes are known.
BOOST_AUTO_TEST_CASE_TEMPLATE(panels_and_files_have_known_bytes, P, Policies) {
  constexpr int group = P::Code::group, cols = group + 11;
  const auto code = [](int r, int c) { return c % group == 0 ? 0 : (5 * c + 3 * r) % 16; };  // -8 in every group
  Weights w{{3, cols}, {}};
  for (int i = 0; i < 3 * cols; ++i)
    w.values.push_back(std::ldexp(static_cast<float>(code(i / cols, i % cols) - 8), i / cols - 3));
  const CodeBlock block = coded<P>(w);
  const auto packed = encoded<P>(w);
  const auto view = P::view(w.shape, packed);
  const Int4Panels panels = view.panels();
  BOOST_TEST((panels.words() == (cols + 7) / 8 && panels.groups() == 2 && panels.group == group));
  BOOST_TEST(block.codes.size() == static_cast<std::size_t>(3 * cols + 1) / 2);
  for (int i = 0; i < 3 * cols; ++i) {
    const int r = i / cols, c = i % cols, expected = code(r, c);
    BOOST_TEST_REQUIRE((std::to_integer<int>(block.codes[static_cast<std::size_t>(i / 2)]) >> (i % 2 * 4) & 15) ==
                       expected);
    BOOST_TEST_REQUIRE((panels.codes[c / 8 * 16 + r] >> (c % 8 * 4) & 15u) == static_cast<unsigned>(expected));
    BOOST_TEST_REQUIRE(static_cast<float>(panels.scales[c / group * 16 + r]) == std::ldexp(1.0f, r - 3));
    BOOST_TEST_REQUIRE(block.scales[static_cast<std::size_t>(2 * r + c / group)] == std::ldexp(1.0f, r - 3));
    BOOST_TEST_REQUIRE(view.at(r, c) == w.at(r, c));
  }
  BOOST_TEST(padding_is_zero(view));
}

// Codes are the nearest ones for the scale, and the scale is a float16.
BOOST_AUTO_TEST_CASE_TEMPLATE(codes_are_the_nearest_for_their_scale, P, Policies) {
  int groups = 0;
  const auto check = [&](const Weights& w) {
    for_groups<P>(w, [&](std::span<const float> group, double error, float scale) {
      BOOST_TEST_REQUIRE(static_cast<float>(float16(scale)) == scale);
      // Dividing by the scale rounds. If two codes are equally near, either is right.
      BOOST_TEST_REQUIRE(error <= error_with(group, scale) * (1 + 0x1p-20) + norm(group) * norm(group) * 0x1p-44);
      ++groups;
    });
  };
  for_odd_weights(18, check);
  for_random_weights(18, check);
  BOOST_TEST(groups > 3000);
}

// The scale of the simple rule is one of the candidates, so the error can only shrink, except for the rounding of the
// scale to float16. That is 2^-11 of the value, twice, since the simple rule's scale is rounded, too. Below 2^-14 a
// float16 is off by up to 2^-25, times codes of up to 8.
BOOST_AUTO_TEST_CASE_TEMPLATE(no_group_is_worse_than_by_the_plain_rule, P, Policies) {
  const auto check = [](const Weights& w) {
    for_groups<P>(w, [&](std::span<const float> group, double error, float) {
      const double plain = std::sqrt(plain_error(group));
      const double rounding =
          0x1p-10 * (norm(group) + plain) + 16 * 0x1p-25 * std::sqrt(static_cast<double>(group.size()));
      BOOST_TEST_REQUIRE(std::sqrt(error) <= plain + rounding, std::sqrt(error) << " against " << plain);
    });
  };
  for_odd_weights(18, check);
  for_random_weights(18, check);
}

// Compares the search with a fine grid of all reasonable scales, not rounded to float16. The weights are bell-shaped,
// like those of models. Counter-check: the simple rule is much worse.
BOOST_AUTO_TEST_CASE_TEMPLATE(the_search_finds_nearly_the_best_scale, P, Policies) {
  double found = 0, plain = 0, best = 0, worst_share = 0, worst_plain_share = 0;
  for_groups<P>(random_weights({16, 1280}, Content::bell, 3), [&](std::span<const float> group, double error, float) {
    float largest = 0;
    for (const float w : group) largest = std::max(largest, std::fabs(w));
    double least = norm(group) * norm(group);
    for (double reach = 5; reach <= 16; reach += 0.05) {
      for (const double scale : {largest / reach, -largest / reach}) least = std::min(least, error_with(group, scale));
    }
    found += error;
    best += least;
    plain += plain_error(group);
    worst_share = std::max(worst_share, error / least);
    worst_plain_share = std::max(worst_plain_share, plain_error(group) / least);
  });
  BOOST_TEST_MESSAGE(P::Code::name << ": " << found / best << " and at worst " << worst_share
                                   << " of the best; by the plain rule " << plain / best << " and "
                                   << worst_plain_share);
  BOOST_TEST(found / best <= 1.03);
  BOOST_TEST(worst_share <= 1.25);
  BOOST_TEST(plain / best > 1.1);
  BOOST_TEST(worst_plain_share > 1.4);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(rows_of_zeros_of_one_value_and_of_one_sign, P, Policies) {
  constexpr int cols = P::Code::group + 5;
  for (const float x : {0.0f, -0.0f, 0x1p-149f, 1e-9f, 0.3f, -0.3f, 1234.5f, -60000.0f}) {
    const Weights w{{1, cols}, std::vector<float>(cols, x)};
    const auto packed = encoded<P>(w);
    const auto view = P::view(w.shape, packed);
    // A single value is a code times a rounded scale. The error is 2^-11 of the value, 2^-25 times codes of up to 8, or
    // half a step of the smallest scales.
    for (const int c : {0, cols - 1})
      BOOST_TEST(std::fabs(view.at(0, c) - x) <= std::max(std::fabs(x) * 0x1p-11f, 8 * 0x1p-25f),
                 x << " is " << view.at(0, c));
  }
  const Weights positive = random_weights({16, cols}, Content::positive, 1),
                negative = random_weights({16, cols}, Content::negative, 1);
  double squares[2] = {};
  for_groups<P>(positive, [&](auto, double error, float) { squares[0] += error; });
  for_groups<P>(negative, [&](auto, double error, float) { squares[1] += error; });
  BOOST_TEST(squares[0] == squares[1], boost::test_tools::tolerance(1e-9));  // scales may be negative
}

BOOST_AUTO_TEST_CASE(groups_are_on_their_own) {
  Weights w = random_weights({2, 96}, Content::bell, 5);
  const CodeBlock before = coded<GroupInt4>(w);
  for (int c = 32; c < 64; ++c) w.values[static_cast<std::size_t>(c)] *= 1000;
  const CodeBlock after = coded<GroupInt4>(w);
  for (int c = 0; c < 96; ++c) {
    BOOST_TEST(same_bits(Int4Code<32>::value(before, 0, c), Int4Code<32>::value(after, 0, c)) == (c < 32 || c >= 64));
    BOOST_TEST(same_bits(Int4Code<32>::value(before, 1, c), Int4Code<32>::value(after, 1, c)));
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(huge_weights_are_refused, P, Policies) {
  BOOST_TEST(!refuses<P>({390'000.0f, -1.0f}));
  BOOST_TEST(!refuses<P>({-390'000.0f}));
  BOOST_TEST(refuses<P>({1e6f, 1.0f}));
  BOOST_TEST(refuses<P>({1.0f, -721'000.0f}));
  BOOST_TEST(refuses<P>({3.4e38f}));
  // The message names a limit. A value at that limit is accepted.
  std::string said = refusal_of<P>({3.4e38f});
  said.erase(0, said.find("beyond ") + 7);
  said.erase(std::remove(said.begin(), said.end(), ','), said.end());
  const float limit = std::stof(said);
  for (const float share : {0.99f, 0.9f, 0.7f, 0.55f, 0.5f})
    BOOST_TEST(!refuses<P>({share * limit}), share * limit << " is refused");
}

BOOST_AUTO_TEST_SUITE_END()
