#include "tenon/sample/logprobs.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <random>
#include <vector>

BOOST_AUTO_TEST_SUITE(sample_logprobs)

namespace {

std::vector<float> random_row(std::size_t n, unsigned seed, float scale) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> row(n);
  for (float& x : row) x = normal(bits);
  return row;
}

double naive_log_sum_exp(std::span<const float> row) {
  double sum = 0;
  for (const float x : row) sum += std::exp(static_cast<double>(x) - 20);
  return std::log(sum) + 20;
}

}  // namespace

BOOST_AUTO_TEST_CASE(log_sum_exp_agrees_with_double_arithmetic) {
  for (const std::size_t n : {std::size_t{1}, std::size_t{15}, std::size_t{512}, std::size_t{50257}})
    for (const float scale : {0.1f, 3.0f, 20.0f}) {
      const std::vector<float> row = random_row(n, static_cast<unsigned>(n), scale);
      BOOST_TEST(std::abs(tenon::log_sum_exp(row) - naive_log_sum_exp(row)) < 2e-7);
    }
}

BOOST_AUTO_TEST_CASE(far_from_zero_nothing_overflows) {
  const std::vector<float> high = {3e38f, 3e38f}, low = {-3e38f, -1e38f};
  BOOST_TEST(tenon::log_sum_exp(high) == static_cast<double>(3e38f));
  BOOST_TEST(tenon::log_sum_exp(low) == static_cast<double>(-1e38f));
  BOOST_TEST(tenon::log_softmax_at(low, 1) == 0.0);
}

// Equal logits leave log n, and nothing else rounds: exp(0) is 1, sums of ones are exact.
BOOST_AUTO_TEST_CASE(hand_computed) {
  const std::vector<float> even(8, -2.5f);
  BOOST_TEST(tenon::log_sum_exp(even) == -2.5 + tenon::exact::log(8));
  BOOST_TEST(tenon::log_softmax_at(even, 3) == -tenon::exact::log(8), boost::test_tools::tolerance(1e-15));
  const std::vector<float> row = {1, 2, 3};
  BOOST_TEST(tenon::log_softmax_at(row, 0) == -2.4076059644443806, boost::test_tools::tolerance(1e-7));
  BOOST_TEST(tenon::log_softmax_at(row, 2) == -0.4076059644443806, boost::test_tools::tolerance(1e-7));
}

BOOST_AUTO_TEST_CASE(probabilities_add_up_to_one) {
  const std::vector<float> row = random_row(3000, 2, 4);
  double sum = 0;
  for (tenon::TokenId id = 0; id < 3000; ++id) sum += std::exp(tenon::log_softmax_at(row, id, tenon::log_sum_exp(row)));
  BOOST_TEST(std::abs(sum - 1) < 1e-6);
}

BOOST_AUTO_TEST_CASE(top_is_likeliest_first_with_ties_by_id) {
  const std::vector<float> row = {1, 5, -1, 5, 3, 5, 3};
  const auto top = tenon::top_logprobs(row, 5);
  const std::vector<tenon::TokenId> expected = {1, 3, 5, 4, 6};
  BOOST_REQUIRE(top.size() == expected.size());
  for (std::size_t i = 0; i < top.size(); ++i) {
    BOOST_TEST(top[i].id == expected[i]);
    BOOST_TEST(top[i].logprob == static_cast<float>(tenon::log_softmax_at(row, expected[i])));
  }
  BOOST_TEST(tenon::top_logprobs(row, 0).empty());
  BOOST_TEST(tenon::top_logprobs(row, 100).size() == row.size());
}

// Bits, on every machine and with every compiler.
BOOST_AUTO_TEST_CASE(known_answer) {
  std::vector<float> row(1001);
  for (std::size_t i = 0; i < row.size(); ++i)
    row[i] = static_cast<float>(static_cast<int>(i * 7919 % 1009) - 500) * 0x1p-6f;
  BOOST_TEST(tenon::log_sum_exp(row) == 0x1.833326e5e54efp+3);
}

BOOST_AUTO_TEST_SUITE_END()
