#include <tenon/core/classifier_head.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <vector>

#include "tenon/core/error.h"

BOOST_AUTO_TEST_SUITE(core_classifier_head)

using namespace tenon;

// Eight partial sums in double, whatever the width.
BOOST_AUTO_TEST_CASE(logits_are_sums_in_a_fixed_order) {
  for (const int width : {1, 7, 8, 9, 64, 333}) {
    std::vector<float> weights, row;
    for (int i = 0; i < 3 * width; ++i) weights.push_back(std::sin(0.7f * static_cast<float>(i)));
    for (int i = 0; i < width; ++i) row.push_back(std::cos(1.3f * static_cast<float>(i)));
    const ClassifierHead head(weights, width);
    BOOST_TEST(head.labels() == 3);
    const std::vector<float> logits = head.logits(row);
    for (int label = 0; label < 3; ++label) {
      double sums[8] = {}, total = 0;
      for (int i = 0; i < width; ++i)
        sums[i % 8] += static_cast<double>(weights[static_cast<std::size_t>(label * width + i)]) *
                       static_cast<double>(row[static_cast<std::size_t>(i)]);
      for (const double sum : sums) total += sum;
      BOOST_TEST(logits[static_cast<std::size_t>(label)] == static_cast<float>(total));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_dot_product_is_exact_where_its_sum_is) {
  BOOST_TEST(dot(std::vector<float>{1, 2, 3}, std::vector<float>{4, 5, 6}) == 32);
  BOOST_TEST(dot({}, {}) == 0);
}

BOOST_AUTO_TEST_CASE(sizes_must_fit) {
  BOOST_CHECK_THROW(ClassifierHead({1, 2, 3}, 2), Error);
  BOOST_CHECK_THROW(ClassifierHead({}, 2), Error);
  BOOST_CHECK_THROW(ClassifierHead({1, 2}, 2).logits(std::vector<float>{1}), Error);
}

BOOST_AUTO_TEST_CASE(the_lowest_of_equal_logits_wins) {
  BOOST_TEST(best_label(std::vector<float>{1, 3, 3, 2}) == 1);
  BOOST_TEST(best_label(std::vector<float>{-1}) == 0);
}

BOOST_AUTO_TEST_CASE(normalizes_to_length_one) {
  std::vector<float> vector{3, 4};
  normalize(vector);
  BOOST_TEST(vector == (std::vector<float>{0.6f, 0.8f}));
  std::vector<float> zeros(5, 0.0f),
      huge{std::ldexp(3.0f, 120), std::ldexp(4.0f, 120)};  // the square of the second is beyond float32
  normalize(zeros);
  normalize(huge);
  BOOST_TEST(zeros == std::vector<float>(5, 0.0f));
  BOOST_TEST(huge == (std::vector<float>{0.6f, 0.8f}));
}

BOOST_AUTO_TEST_SUITE_END()
