#define BOOST_TEST_MODULE model_alibi
#include "tenon/model/alibi.h"

#include <boost/test/unit_test.hpp>

using namespace tenon;

// transformers 4.57.6, build_alibi_tensor.
BOOST_AUTO_TEST_CASE(slopes_are_those_of_the_paper) {
  BOOST_TEST(alibi_slopes(4) == (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f}));
  BOOST_TEST(alibi_slopes(1) == std::vector<float>{0.00390625f});
}

BOOST_AUTO_TEST_CASE(other_counts_take_every_second_one_of_twice_as_many) {
  BOOST_TEST(alibi_slopes(6) == (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f, 0.5f, 0.125f}));
  BOOST_TEST(alibi_slopes(112).size() == 112u);
}
