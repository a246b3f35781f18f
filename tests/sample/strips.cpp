#include "tenon/sample/strips.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

BOOST_AUTO_TEST_SUITE(sample_strips)

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const std::vector<std::size_t> kLengths = {1, 2, 15, 16, 17, 63, 64, 65, 255, 256, 257, 300, 1000, 5023};

std::vector<float> random_row(std::size_t n, unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal(0, 4);
  std::vector<float> row(n);
  for (float& x : row) x = normal(bits);
  return row;
}

// The order that strips.h promises, written out.
double sum_in_strips(std::span<const float> x, float max, float temperature) {
  double lane[16] = {};
  for (std::size_t i = 0; i < x.size(); ++i)
    lane[i % 16] += static_cast<double>(tenon::exact::exp((x[i] - max) / temperature));
  for (int l = 0; l < 8; ++l) lane[l] += lane[l + 8];
  for (int l = 0; l < 4; ++l) lane[l] += lane[l + 4];
  return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

}  // namespace

BOOST_AUTO_TEST_CASE(sums_have_the_written_order_whatever_the_cpu) {
  for (const std::size_t n : kLengths) {
    const std::vector<float> x = random_row(n, static_cast<unsigned>(n));
    const float max = tenon::max_of(x);
    for (const float temperature : {1.0f, 0.3f, 2.5f}) {
      std::vector<float> terms(n), baseline(n);
      const double sum = tenon::exp_terms(x, max, temperature, terms.data());
      BOOST_TEST(sum == sum_in_strips(x, max, temperature));
      BOOST_TEST(sum == tenon::detail::sum_exp_body(x.data(), n, max, temperature, baseline.data()));
      BOOST_TEST(terms == baseline);
      for (std::size_t i = 0; i < n; ++i) BOOST_TEST(terms[i] == tenon::exact::exp((x[i] - max) / temperature));
    }
    BOOST_TEST(tenon::sum_exp(x, max) == sum_in_strips(x, max, 1));
    BOOST_TEST(max == tenon::detail::max_body(x.data(), n));
    BOOST_TEST(max == *std::max_element(x.begin(), x.end()));
  }
}

// A test of the test above: another order of the same terms gives other bits.
BOOST_AUTO_TEST_CASE(the_order_shows_in_the_bits) {
  const std::vector<float> x = random_row(5023, 3);
  const float max = tenon::max_of(x);
  double sequential = 0;
  for (const float v : x) sequential += static_cast<double>(tenon::exact::exp(v - max));
  BOOST_TEST(sequential != tenon::sum_exp(x, max));
  BOOST_TEST(sequential == tenon::sum_exp(x, max), boost::test_tools::tolerance(1e-13));
}

BOOST_AUTO_TEST_CASE(alignment_and_padding_change_nothing) {
  const std::vector<float> x = random_row(1003, 5);
  for (std::size_t shift = 0; shift < 17; ++shift) {
    std::vector<float> padded(x.size() + 64, kNan);  // what lies around the row must not be read
    for (std::size_t i = 0; i < x.size(); ++i) padded[shift + i] = x[i];
    const std::span<const float> row = std::span<const float>(padded).subspan(shift, x.size());
    BOOST_TEST(tenon::all_finite(row));
    BOOST_TEST(tenon::max_of(row) == tenon::max_of(x));
    BOOST_TEST(tenon::argmax(row) == tenon::argmax(x));
    BOOST_TEST(tenon::sum_exp(row, 9.0f) == tenon::sum_exp(x, 9.0f));
  }
}

BOOST_AUTO_TEST_CASE(one_bad_value_anywhere_is_found) {
  for (const std::size_t n : {std::size_t{1}, std::size_t{16}, std::size_t{37}})
    for (std::size_t i = 0; i < n; ++i)
      for (const float bad : {kNan, -kNan, kInf, -kInf}) {
        std::vector<float> x(n, std::numeric_limits<float>::max());
        BOOST_TEST(tenon::all_finite(x));
        x[i] = bad;
        BOOST_TEST(!tenon::all_finite(x));
      }
  BOOST_TEST(tenon::all_finite({}));
}

BOOST_AUTO_TEST_CASE(argmax_takes_the_lowest_of_equals) {
  for (const std::size_t n : {std::size_t{3}, std::size_t{16}, std::size_t{70}, std::size_t{200}})
    for (std::size_t first = 0; first < n; ++first) {
      std::vector<float> x(n, -1.0f);
      x[first] = 2.0f;
      x[n - 1] = 2.0f;
      BOOST_TEST(tenon::argmax(x) == static_cast<tenon::TokenId>(first));
    }
  BOOST_TEST(tenon::argmax(std::vector<float>{-0.0f, 0.0f}) == 0);
  BOOST_TEST(tenon::argmax(std::vector<float>{-kInf, -kInf}) == 0);
  BOOST_TEST(tenon::argmax({}) == -1);
}

BOOST_AUTO_TEST_CASE(first_above_is_strict) {
  for (const std::size_t n : kLengths) {
    std::vector<float> x(n, 1.0f);
    BOOST_TEST(tenon::first_above(x, 1.0f) == n);
    x[n / 2] = 1.5f;
    BOOST_TEST(tenon::first_above(x, 1.0f) == n / 2);
    BOOST_TEST(tenon::first_above(x, 1.0f, n / 2 + 1) == n);
    BOOST_TEST(tenon::detail::find_body<false>(x.data(), n, 0, 1.0f) == n / 2);
  }
}

BOOST_AUTO_TEST_SUITE_END()
