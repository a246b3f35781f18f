// Layouts of packed matrices: indices of their elements.
#include "tenon/core/panels.h"

#include <boost/test/unit_test.hpp>
#include <type_traits>

BOOST_AUTO_TEST_SUITE(core_panels)

using namespace tenon;

static_assert(std::is_trivially_copyable_v<CodePanels<bfloat16>> && std::is_trivially_copyable_v<Int4Panels>);
static_assert(std::is_trivially_copyable_v<Int8Quads> && std::is_trivially_copyable_v<Int4Quads> &&
              std::is_trivially_copyable_v<BFloat16Pairs>);

BOOST_AUTO_TEST_CASE(the_last_panel_is_begun_by_one_row) {
  static_assert(kPanelRows == 16);
  BOOST_TEST(panel_count(0) == 0u);
  BOOST_TEST(panel_count(1) == 1u);
  BOOST_TEST(panel_count(16) == 1u);
  BOOST_TEST(panel_count(17) == 2u);
  BOOST_TEST(panel_count(2'147'483'647) == 134'217'728u);
}

BOOST_AUTO_TEST_CASE(scales_are_of_rows_or_of_lanes) {
  CodePanels<std::int8_t> panels;
  BOOST_TEST(panels.scale_stride == 16);
  for (const int row : {0, 15, 16, 40, 2'000'000'000}) BOOST_TEST(panels.scale_at(row) == row);
  panels.scale_stride = 0;
  for (const int row : {0, 15, 16, 40}) BOOST_TEST(panels.scale_at(row) == row % 16);
}

BOOST_AUTO_TEST_CASE(words_quads_pairs_and_groups_may_be_begun) {
  const auto sizes = [](int cols, int group) {
    Int4Panels four;
    Int4Quads quads;
    four.cols = quads.cols = cols;
    four.group = quads.group = group;
    BOOST_TEST((four.words() == quads.words() && four.groups() == quads.groups()));
    return std::pair(four.words(), four.groups());
  };
  BOOST_TEST((sizes(1, 32) == std::pair(1, 1)));
  BOOST_TEST((sizes(8, 32) == std::pair(1, 1)));
  BOOST_TEST((sizes(9, 32) == std::pair(2, 1)));
  BOOST_TEST((sizes(64, 32) == std::pair(8, 2)));
  BOOST_TEST((sizes(65, 64) == std::pair(9, 2)));
  BOOST_TEST((sizes(257, 128) == std::pair(33, 3)));
  for (int cols = 1; cols <= 9; ++cols) {
    Int8Quads quads;
    BFloat16Pairs pairs;
    quads.cols = pairs.cols = cols;
    BOOST_TEST((quads.quads() - 1) * 4 < cols);
    BOOST_TEST(quads.quads() * 4 >= cols);
    BOOST_TEST((pairs.pairs() - 1) * 2 < cols);
    BOOST_TEST(pairs.pairs() * 2 >= cols);
  }
}

BOOST_AUTO_TEST_CASE(places_in_large_matrices_do_not_overflow) {
  CodePanels<std::int8_t> panels;
  panels.rows = 250'000;
  panels.cols = 50'000;
  BOOST_TEST((panels.panel(15'000) - panels.panel(0) == std::ptrdiff_t{15'000} * 50'000 * 16));
}

BOOST_AUTO_TEST_SUITE_END()
