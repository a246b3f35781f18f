// gather_rows: chosen rows come to the front, whole and in order, and nothing else moves.
#include <boost/test/unit_test.hpp>

#include "helpers.h"
#include "tenon/ops/cpu/gather_rows.h"
#include "tenon/ops/reference.h"

BOOST_AUTO_TEST_SUITE(ops_gather_rows)

using namespace tenon;
using namespace tenon::test;

BOOST_AUTO_TEST_CASE(chosen_rows_come_to_the_front) {
  const std::vector<std::vector<int>> choices = {
      {}, {0}, {8}, {0, 1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 3, 4, 5, 6, 7, 8}, {0, 4, 8}, {3, 4, 7}, {0, 1, 8}};
  for (const auto& rows : choices) {
    const Matrix x = random_matrix(9, 77, 1, 80), q = random_matrix(9, 20, 2, 21);
    Matrix x_here = x, q_here = q, x_there = x, q_there = q;
    Cpu device({.threads = 2});
    const int count = static_cast<int>(rows.size());
    gather_rows(device, {.rows = rows.data(), .count = count, .x = x_here.view(), .q = q_here.view()});
    reference::gather_rows({.rows = rows.data(), .count = count, .x = x_there.view(), .q = q_there.view()});
    BOOST_TEST(same_bits(x_here, x_there));
    BOOST_TEST(same_bits(q_here, q_there));
    for (int i = 0; i < 9; ++i) {
      const int from = i < count ? rows[static_cast<std::size_t>(i)] : i;
      BOOST_TEST(same_bits(x_here.row(i), x.row(from), 77));
      BOOST_TEST(same_bits(q_here.row(i), q.row(from), 20));
    }
    BOOST_TEST((gaps_untouched(x_here) && gaps_untouched(q_here)));
  }
}

BOOST_AUTO_TEST_SUITE_END()
