#include "tenon/sample/ranking.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

BOOST_AUTO_TEST_SUITE(sample_ranking)

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// The definition: all that is above -inf, by (value descending, id ascending).
std::vector<tenon::TokenId> ranked(std::span<const float> row) {
  std::vector<tenon::TokenId> ids;
  for (std::size_t i = 0; i < row.size(); ++i)
    if (row[i] != -kInf) ids.push_back(static_cast<tenon::TokenId>(i));
  std::stable_sort(ids.begin(), ids.end(), [&](tenon::TokenId a, tenon::TokenId b) {
    return row[static_cast<std::size_t>(a)] > row[static_cast<std::size_t>(b)];
  });
  return ids;
}

std::vector<tenon::TokenId> walk(tenon::RankedRow& ranks) {
  std::vector<tenon::TokenId> ids;
  for (std::size_t rank = 0; ranks.has(rank); ++rank) ids.push_back(ranks.id(rank));
  return ids;
}

// Rows with many ties, with both zeros, with bans, ascending, descending, and of one value.
std::vector<std::vector<float>> rows() {
  std::vector<std::vector<float>> all = {{}, {1}, {-kInf}, {-0.0f, 0.0f, -0.0f, 1, -1}, {0.0f, -0.0f}};
  std::mt19937 bits(11);
  for (const std::size_t n : {std::size_t{40}, std::size_t{700}, std::size_t{9000}}) {
    std::vector<float> row(n);
    std::normal_distribution<float> normal(0, 3);
    for (float& x : row) x = normal(bits);
    all.push_back(row);
    for (float& x : row) x = std::round(x);
    all.push_back(row);
    for (float& x : row)
      if (bits() % 3 != 0) x = -kInf;
    all.push_back(row);
    std::iota(row.begin(), row.end(), -20.0f);
    all.push_back(row);
    std::reverse(row.begin(), row.end());
    all.push_back(row);
    std::fill(row.begin(), row.end(), 2.5f);
    all.push_back(row);
  }
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(keys_order_as_value_then_id) {
  const float values[] = {-kInf, -3e38f, -1.5f, -1e-40f, 0.0f, 1e-40f, 0.5f, 1.0f, 3e38f, kInf};
  for (std::size_t i = 0; i + 1 < std::size(values); ++i)
    BOOST_TEST(tenon::rank_key(values[i + 1], 7) < tenon::rank_key(values[i], 3));
  BOOST_TEST(tenon::rank_key(-0.0f, 1) < tenon::rank_key(0.0f, 2));
  BOOST_TEST(tenon::rank_key(0.0f, 1) < tenon::rank_key(-0.0f, 2));
  for (const float value : values) {
    BOOST_TEST(tenon::rank_value(tenon::rank_key(value, 50256)) == value);
    BOOST_TEST(tenon::rank_id(tenon::rank_key(value, 50256)) == 50256);
  }
}

BOOST_AUTO_TEST_CASE(the_lazy_walk_is_the_sorted_row) {
  tenon::RankedRow ranks;
  for (const std::vector<float>& row : rows()) {
    ranks.reset(row);
    BOOST_TEST(walk(ranks) == ranked(row), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(any_number_asked_for_gives_the_same_first_ranks) {
  tenon::RankedRow ranks;
  for (const std::vector<float>& row : rows()) {
    const std::vector<tenon::TokenId> all = ranked(row);
    for (const std::size_t count : {1u, 2u, 5u, 63u, 64u, 65u, 500u, 10000u}) {
      ranks.reset(row);
      ranks.sort_first(count);
      for (std::size_t rank = 0; rank < std::min<std::size_t>(count, all.size()); ++rank) {
        BOOST_REQUIRE(ranks.has(rank));
        BOOST_REQUIRE(ranks.id(rank) == all[rank]);
      }
      BOOST_TEST(walk(ranks) == all, boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
