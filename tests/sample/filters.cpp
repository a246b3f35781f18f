#include "tenon/sample/filters.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "fixtures.h"

BOOST_AUTO_TEST_SUITE(sample_filters)

using tenon::Options;
using tenon::TokenId;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Kept {
  std::vector<TokenId> order;  // as drawn
  std::vector<TokenId> ids;    // ascending
};

Kept kept(std::span<const float> row, const Options& options) {
  tenon::RankedRow ranks;
  tenon::ScaledRow scaled;
  tenon::Filters filters;
  ranks.reset(row);
  scaled.reset(row, tenon::max_of(row), options.temperature);
  Kept result;
  for (const tenon::Weighted& w : filters.keep(scaled, ranks, options)) result.order.push_back(w.id);
  result.ids = result.order;
  std::sort(result.ids.begin(), result.ids.end());
  return result;
}

// ---- the filters written out in double precision, one after another, each with a softmax of its own
using Row = std::vector<double>;  // -inf: filtered

constexpr double kOut = -std::numeric_limits<double>::infinity();

Row softmax(const Row& row) {
  const double max = *std::max_element(row.begin(), row.end());
  Row p(row.size());
  double total = 0;
  for (std::size_t i = 0; i < row.size(); ++i) total += p[i] = std::exp(row[i] - max);
  for (double& x : p) x /= total;
  return p;
}

std::vector<std::size_t> by(const Row& key, bool descending) {
  std::vector<std::size_t> ids(key.size());
  std::iota(ids.begin(), ids.end(), std::size_t{0});
  std::stable_sort(ids.begin(), ids.end(),
                   [&](std::size_t a, std::size_t b) { return descending ? key[a] > key[b] : key[a] < key[b]; });
  return ids;
}

void naive_top_k(Row& row, int k) {
  const auto ids = by(row, true);
  for (std::size_t rank = static_cast<std::size_t>(k); rank < ids.size(); ++rank) row[ids[rank]] = kOut;
}

void naive_top_p(Row& row, double top_p) {
  const Row p = softmax(row);
  double before = 0;
  for (const std::size_t id : by(row, true)) {
    if (before >= top_p) row[id] = kOut;
    before += p[id];
  }
}

void naive_min_p(Row& row, double min_p) {
  const Row p = softmax(row);
  const double top = *std::max_element(p.begin(), p.end());
  for (std::size_t i = 0; i < row.size(); ++i)
    if (p[i] < min_p * top) row[i] = kOut;
}

void naive_typical(Row& row, double typical_p) {
  const Row p = softmax(row);
  double entropy = 0;
  for (const double x : p)
    if (x > 0) entropy -= x * std::log(x);
  Row distance(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) distance[i] = std::abs(-std::log(p[i]) - entropy);
  double before = 0;
  for (const std::size_t id : by(distance, false)) {
    if (before >= typical_p) row[id] = kOut;
    before += p[id];
  }
}

std::vector<TokenId> naive(std::span<const float> logits, const Options& o) {
  Row row(logits.begin(), logits.end());
  for (double& x : row) x /= static_cast<double>(o.temperature);
  if (o.top_k > 0 && static_cast<std::size_t>(o.top_k) < row.size()) naive_top_k(row, o.top_k);
  if (o.top_p < 1) naive_top_p(row, static_cast<double>(o.top_p));
  if (o.min_p > 0) naive_min_p(row, static_cast<double>(o.min_p));
  if (o.typical_p < 1) naive_typical(row, static_cast<double>(o.typical_p));
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < row.size(); ++i)
    if (row[i] != kOut) ids.push_back(static_cast<TokenId>(i));
  return ids;
}

std::vector<Options> settings() {
  std::vector<Options> all;
  const auto add = [&](float temperature, int top_k, float top_p, float min_p, float typical_p) {
    Options o;
    o.temperature = temperature;
    o.top_k = top_k;
    o.top_p = top_p;
    o.min_p = min_p;
    o.typical_p = typical_p;
    all.push_back(o);
  };
  for (const float t : {0.6f, 1.0f, 1.9f}) {
    for (const int k : {1, 2, 7, 64, 65, 100000}) add(t, k, 1, 0, 1);
    for (const float p : {0.01f, 0.3f, 0.9f, 0.995f}) add(t, 0, p, 0, 1);
    for (const float m : {0.001f, 0.1f, 0.7f, 1.0f}) add(t, 0, 1, m, 1);
    for (const float y : {0.05f, 0.4f, 0.9f, 0.999f}) add(t, 0, 1, 0, y);
    add(t, 40, 0.8f, 0.02f, 0.7f);
    add(t, 0, 0.95f, 0.01f, 0.5f);
    add(t, 9, 1, 0, 0.6f);
    add(t, 30, 0.5f, 0, 1);
  }
  return all;
}

std::vector<float> random_row(std::size_t n, unsigned seed, float scale) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> row(n);
  for (float& x : row) x = normal(bits);
  return row;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_sets_of_the_definitions) {
  std::size_t compared = 0, cut = 0;
  for (const std::size_t n : {std::size_t{1}, std::size_t{2}, std::size_t{50}, std::size_t{1500}})
    for (const float scale : {0.3f, 2.0f, 6.0f}) {
      const std::vector<float> row = random_row(n, static_cast<unsigned>(n), scale);
      for (const Options& o : settings()) {
        const std::vector<TokenId> expected = naive(row, o);
        BOOST_TEST(kept(row, o).ids == expected, boost::test_tools::per_element());
        ++compared;
        cut += expected.size() < n && expected.size() > 1 ? 1u : 0u;
      }
    }
  BOOST_TEST(cut * 4 > compared);  // enough of the cases are neither everything nor one token
}

// A test of the test above: one filter left out, or two in another order, is seen.
BOOST_AUTO_TEST_CASE(another_set_is_noticed) {
  const std::vector<float> row = random_row(300, 1, 2);
  Options all;
  all.temperature = 1;
  all.top_k = 40;
  all.top_p = 0.8f;
  all.typical_p = 0.7f;
  Options without = all;
  without.typical_p = 1;
  BOOST_TEST(kept(row, all).ids != naive(row, without));
  Row swapped(row.begin(), row.end());
  naive_typical(swapped, 0.7);
  naive_top_k(swapped, 40);
  naive_top_p(swapped, 0.8);
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < swapped.size(); ++i)
    if (swapped[i] != kOut) ids.push_back(static_cast<TokenId>(i));
  BOOST_TEST(kept(row, all).ids != ids);
}

BOOST_AUTO_TEST_CASE(the_sets_of_transformers) {
  for (const fixtures::Kept& known : fixtures::kKept) {
    Options o;
    o.temperature = known.temperature;
    o.top_k = known.top_k;
    o.top_p = known.top_p;
    o.min_p = known.min_p;
    o.typical_p = known.typical_p;
    std::uint32_t bits = 0;
    for (const TokenId id : kept(fixtures::kRows[known.row], o).ids) bits |= 1u << id;
    BOOST_TEST(bits == known.kept);
  }
}

BOOST_AUTO_TEST_CASE(kept_tokens_come_likeliest_first_ties_by_id) {
  std::vector<float> row = random_row(900, 8, 3);
  for (float& x : row) x = std::round(x);
  for (const Options& o : settings()) {
    const Kept k = kept(row, o);
    for (std::size_t i = 1; i < k.order.size(); ++i) {
      const float before = row[static_cast<std::size_t>(k.order[i - 1])];
      const float here = row[static_cast<std::size_t>(k.order[i])];
      BOOST_REQUIRE((before > here || (before == here && k.order[i - 1] < k.order[i])));
    }
  }
}

BOOST_AUTO_TEST_CASE(top_k_keeps_exactly_k_of_equals) {
  const std::vector<float> row = {1, 2, 2, 2, 0, 2};
  Options o;
  o.temperature = 1;
  o.top_k = 2;
  BOOST_TEST(kept(row, o).order == (std::vector<TokenId>{1, 2}), boost::test_tools::per_element());
  o.top_k = 5;
  BOOST_TEST(kept(row, o).order == (std::vector<TokenId>{1, 2, 3, 5, 0}), boost::test_tools::per_element());
}

// Four equal tokens: masses of 1/4 add up without rounding, and the border belongs to the token that reaches it.
BOOST_AUTO_TEST_CASE(borders) {
  const std::vector<float> row(4, 7.0f);
  Options o;
  o.temperature = 1;
  const auto count = [&] { return kept(row, o).ids.size(); };
  o.top_p = 0.5f;
  BOOST_TEST(count() == 2u);
  o.top_p = 0.500001f;
  BOOST_TEST(count() == 3u);
  o.top_p = 0.0001f;
  BOOST_TEST(count() == 1u);
  o.top_p = 1;
  o.min_p = 1;  // as likely as the likeliest is likely enough
  BOOST_TEST(count() == 4u);
  o.min_p = 0;
  o.typical_p = 0.1f;  // all are equally typical
  BOOST_TEST(count() == 4u);
}

// Later filters see the tokens that earlier ones left as a whole softmax: 0.5 and 0.25 become 2/3 and 1/3.
BOOST_AUTO_TEST_CASE(top_p_is_of_what_top_k_left) {
  const std::vector<float> row = {std::log(0.5f), std::log(0.25f), std::log(0.125f), std::log(0.125f)};
  Options o;
  o.temperature = 1;
  o.top_p = 0.6f;
  BOOST_TEST(kept(row, o).ids.size() == 2u);
  o.top_k = 2;
  BOOST_TEST(kept(row, o).ids.size() == 1u);
}

BOOST_AUTO_TEST_CASE(banned_tokens_never_pass) {
  std::vector<float> row = random_row(200, 4, 1);
  for (std::size_t i = 0; i < row.size(); i += 2) row[i] = -kInf;
  row[1] = -kInf;
  for (const Options& o : settings()) {
    const Kept k = kept(row, o);
    BOOST_TEST(!k.ids.empty());
    for (const TokenId id : k.ids) BOOST_REQUIRE(row[static_cast<std::size_t>(id)] != -kInf);
  }
}

BOOST_AUTO_TEST_CASE(extreme_temperatures) {
  const std::vector<float> row = {1, 3, 3, 2, -1e30f};
  for (const float temperature : {1e-45f, 1e-30f, 1e-3f}) {
    Options o;
    o.temperature = temperature;
    o.top_p = 0.9f;
    BOOST_TEST(kept(row, o).ids == (std::vector<TokenId>{1, 2}), boost::test_tools::per_element());
    o.top_p = 1;
    o.typical_p = 0.9f;
    const Kept k = kept(row, o);
    BOOST_TEST((std::find(k.ids.begin(), k.ids.end(), 1) != k.ids.end()));
  }
  Options o;
  o.temperature = 1e30f;
  o.top_p = 0.99f;
  BOOST_TEST(kept(row, o).ids.size() == 5u);
}

BOOST_AUTO_TEST_CASE(buffers_carry_nothing_over) {
  tenon::RankedRow ranks;
  tenon::ScaledRow scaled;
  tenon::Filters filters;
  for (const std::size_t n : {std::size_t{900}, std::size_t{30}, std::size_t{2000}, std::size_t{5}}) {
    const std::vector<float> row = random_row(n, 21, 2);
    for (const Options& o : settings()) {
      ranks.reset(row);
      scaled.reset(row, tenon::max_of(row), o.temperature);
      std::vector<TokenId> order;
      for (const tenon::Weighted& w : filters.keep(scaled, ranks, o)) order.push_back(w.id);
      BOOST_REQUIRE(order == kept(row, o).order);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
