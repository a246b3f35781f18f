#include "tenon/tokenizer/merges.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>
#include <vector>

#include "fixtures.h"

BOOST_AUTO_TEST_SUITE(tokenizer_merges)

namespace {

using tenon::TokenId;
using tenon::detail::MergeOrder;
using tenon::detail::MergeRules;
using Ids = std::vector<TokenId>;

Ids merged(const MergeRules& rules, const Ids& symbols) {
  tenon::detail::PieceMerger merger(rules);
  Ids out = {-7};  // earlier tokens stay
  for (const TokenId id : symbols) merger.add(id);
  merger.merge(out);
  BOOST_REQUIRE_EQUAL(out.front(), -7);
  out.erase(out.begin());
  return out;
}

// By definition: find the lowest rank, then merge its leftmost pair, or all its pairs from the left. Quadratic.
Ids naive(const MergeRules& rules, Ids symbols) {
  while (true) {
    std::uint32_t best = tenon::detail::kNoRank;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i)
      best = std::min(best, rules.rank_of(symbols[i], symbols[i + 1]));
    if (best == tenon::detail::kNoRank) return symbols;
    Ids next;
    bool done = false;
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      const bool here = !done && i + 1 < symbols.size() && rules.rank_of(symbols[i], symbols[i + 1]) == best;
      next.push_back(here ? rules.merged[best] : symbols[i]);
      i += here ? 1 : 0;
      done = done || (here && rules.order == MergeOrder::one_by_one);
    }
    symbols = std::move(next);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_pair_has_one_rule) {
  MergeRules rules;
  BOOST_TEST(rules.add(1, 2, 3));
  BOOST_TEST(!rules.add(1, 2, 4));
  BOOST_TEST(rules.add(2, 1, 4));
  BOOST_TEST(rules.rank_of(1, 2) == 0u);
  BOOST_TEST(rules.rank_of(2, 1) == 1u);
  BOOST_TEST(rules.rank_of(1, 1) == tenon::detail::kNoRank);
  BOOST_TEST(merged(rules, {}).empty());
  BOOST_TEST(merged(rules, {1}) == Ids{1});
  BOOST_TEST(merged(rules, {1, 2, 1}) == Ids({3, 1}));
}

// 1 and 2 make 12. An earlier rule makes 121 from 12 and 1. In the order one_by_one, the first 12 takes the following
// 1 before that 1 is merged with its 2.
BOOST_AUTO_TEST_CASE(the_orders_differ_where_a_rule_stands_before_those_of_its_parts) {
  MergeRules rules;
  rules.add(12, 1, 121);
  rules.add(1, 2, 12);
  rules.order = MergeOrder::rounds;
  BOOST_TEST(merged(rules, {1, 2, 1, 2}) == Ids({12, 12}));
  rules.order = MergeOrder::one_by_one;
  BOOST_TEST(merged(rules, {1, 2, 1, 2}) == Ids({121, 2}));
}

BOOST_AUTO_TEST_CASE(equals_the_naive_loop_on_random_rules) {
  std::mt19937 random(11);
  for (int round = 0; round < 400; ++round) {
    MergeRules rules;
    rules.order = round % 2 == 0 ? MergeOrder::rounds : MergeOrder::one_by_one;
    struct Rule {
      TokenId left, right, whole;
    };
    std::vector<Rule> made;  // over symbols 0 to 3 and the results of earlier rules
    for (TokenId next = 4; next < 34; ++next) {
      const auto part = [&] { return static_cast<TokenId>(fixtures::pick(random, static_cast<std::uint32_t>(next))); };
      made.push_back({part(), part(), next});
    }
    std::shuffle(made.begin(), made.end(), random);
    for (const Rule& rule : made) rules.add(rule.left, rule.right, rule.whole);
    for (int text = 0; text < 50; ++text) {
      Ids symbols;
      for (std::uint32_t i = fixtures::pick(random, 40); i > 0; --i)
        symbols.push_back(static_cast<TokenId>(fixtures::pick(random, 4)));
      BOOST_REQUIRE_EQUAL(nlohmann::json(merged(rules, symbols)), nlohmann::json(naive(rules, symbols)));
    }
  }
}

// Keys for which the identity hash uses one bucket, for any power of two and for libstdc++'s first primes.
BOOST_AUTO_TEST_CASE(pairs_that_a_file_chooses_are_spread) {
  const tenon::detail::PairHash hash, other;
  std::vector<int> bucket(1024);
  for (std::uint64_t key = 0; key < 1024 * 16; ++key) ++bucket[hash(key * 172933 * 1024) % 1024];
  BOOST_TEST(*std::max_element(bucket.begin(), bucket.end()) < 64);
  BOOST_TEST(hash(5) != other(5));  // another object, another seed
  MergeRules rules;
  for (TokenId id = 0; id < 2'000; ++id) BOOST_REQUIRE(rules.add(id, 172933, id));
  const MergeRules moved = std::move(rules);
  for (TokenId id = 0; id < 2'000; ++id) BOOST_REQUIRE_EQUAL(moved.rank_of(id, 172933), static_cast<std::uint32_t>(id));
}

// Quadratic work would take minutes.
BOOST_AUTO_TEST_CASE(long_pieces_end) {
  constexpr int n = 2'000'000;
  for (const MergeOrder order : {MergeOrder::rounds, MergeOrder::one_by_one}) {
    MergeRules rules;
    rules.order = order;
    for (TokenId id = 0; id < 16; ++id) rules.add(id, id, id + 1);  // 2^k symbols become one
    BOOST_TEST(merged(rules, Ids(n, 0)).size() == 33u);             // 2,000,000 = 30 x 65,536 + 33,920, of three bits
    MergeRules grow;
    grow.order = order;
    grow.add(0, 1, 2);
    grow.add(2, 1, 2);  // one symbol takes all that follow
    Ids symbols(n, 1);
    symbols[0] = 0;
    BOOST_TEST((merged(grow, symbols) == Ids{2}));
  }
}

BOOST_AUTO_TEST_SUITE_END()
