#include "tenon/sample/sampler.h"

#include <algorithm>
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(sample_sampler)

using tenon::Options;
using tenon::Pick;
using tenon::Sampler;
using tenon::TokenId;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Ask {
  std::vector<float> logits{};
  Options options{};
  std::vector<TokenId> prompt{}, generated{};
  int position = 0;
  std::vector<std::uint32_t> mask{};

  Pick of(Sampler& sampler) const {
    return sampler.sample({.logits = logits,
                           .prompt = prompt,
                           .generated = generated,
                           .options = options,
                           .position = position,
                           .mask = mask.empty() ? nullptr : mask.data()});
  }
  Pick alone() const {
    Sampler sampler;
    return of(sampler);
  }
};

bool same(const Pick& a, const Pick& b) {
  return a.token == b.token && a.logprob == b.logprob &&
         std::equal(a.top.begin(), a.top.end(), b.top.begin(), b.top.end(),
                    [](const auto& x, const auto& y) { return x.id == y.id && x.logprob == y.logprob; });
}

std::vector<float> random_row(std::size_t n, std::mt19937& bits, float scale) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> row(n);
  for (float& x : row) x = normal(bits);
  return row;
}

// Requests of many kinds and sizes, each with a history, half of them with a mask.
std::vector<Ask> mixture() {
  std::mt19937 bits(17);
  std::vector<Ask> all;
  for (int i = 0; i < 120; ++i) {
    Ask ask{.logits = random_row(3 + bits() % 3000, bits, 1 + static_cast<float>(i % 5))};
    const auto vocab = static_cast<unsigned>(ask.logits.size());
    for (auto j = bits() % 50; j > 0; --j) ask.prompt.push_back(static_cast<TokenId>(bits() % vocab));
    for (auto j = bits() % 50; j > 0; --j) ask.generated.push_back(static_cast<TokenId>(bits() % vocab));
    Options& o = ask.options;
    o.seed = bits();
    o.temperature = i % 4 == 0 ? 0 : 0.5f + static_cast<float>(i % 7) / 4;
    if (i % 3 == 1) o.top_k = 1 + static_cast<int>(bits() % 100);
    if (i % 5 == 1) o.top_p = 0.8f;
    if (i % 7 == 1) o.min_p = 0.02f;
    if (i % 11 == 1) o.typical_p = 0.7f;
    if (i % 2 == 1) o.repetition_penalty = 1.3f;
    if (i % 6 == 1) o.frequency_penalty = 0.4f, o.presence_penalty = 0.2f;
    if (i % 9 == 1) o.logit_bias = {{0, 3.0f}, {2, -kInf}};
    o.top_logprobs = i % 8 - 1;
    ask.position = i;
    if (i % 2 == 0)
      for (unsigned word = 0; word < (vocab + 31) / 32; ++word)
        ask.mask.push_back(static_cast<std::uint32_t>(bits()) | 1u);
    all.push_back(ask);
  }
  return all;
}

// Pearson's statistic of a number of draws against the softmax of the logits.
double chi_square(const std::vector<int>& counts, const std::vector<float>& logits) {
  double total = 0, draws = 0, statistic = 0;
  for (const float x : logits) total += std::exp(static_cast<double>(x));
  for (const int count : counts) draws += count;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = draws * std::exp(static_cast<double>(logits[i])) / total;
    statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return statistic;
}

constexpr double kChiSquare11 = 31.26;  // 11 degrees of freedom: exceeded by chance once in 1000

}  // namespace

BOOST_AUTO_TEST_CASE(greedy_takes_the_lowest_of_equals) {
  Ask ask{.logits = {1, 4, 2, 4, 4}};
  BOOST_TEST(ask.alone().token == 1);
  ask.options.logit_bias = {{1, -0.5f}};
  BOOST_TEST(ask.alone().token == 3);
}

BOOST_AUTO_TEST_CASE(greedy_does_not_look_at_filters_or_seed) {
  Ask ask{.logits = {1, 4, 2}};
  ask.options.top_k = 1;
  ask.options.top_p = 0.01f;
  ask.options.typical_p = 0.01f;
  ask.options.min_p = 1;
  for (ask.options.seed = 0; ask.options.seed < 20; ++ask.options.seed) BOOST_TEST(ask.alone().token == 1);
}

BOOST_AUTO_TEST_CASE(greedy_is_of_processed_logits_and_logprob_of_raw_ones) {
  Ask ask{.logits = {1, 2, 3}, .prompt = {2}};
  ask.options.repetition_penalty = 4;
  ask.options.top_logprobs = 2;
  const Pick pick = ask.alone();
  BOOST_TEST(pick.token == 1);
  BOOST_TEST(pick.logprob == static_cast<float>(tenon::log_softmax_at(ask.logits, 1)));
  BOOST_REQUIRE(pick.top.size() == 2u);
  BOOST_TEST(pick.top[0].id == 2);
  BOOST_TEST(pick.top[1].id == 1);
  BOOST_TEST(pick.top[1].logprob == pick.logprob);
  ask.options.top_logprobs = 0;
  BOOST_TEST(ask.alone().logprob == pick.logprob);
  BOOST_TEST(ask.alone().top.empty());
}

BOOST_AUTO_TEST_CASE(top_k_of_one_is_greedy) {
  std::mt19937 bits(5);
  for (int i = 0; i < 50; ++i) {
    Ask ask{.logits = random_row(200, bits, 2), .position = i};
    for (float& x : ask.logits) x = std::round(x);
    const TokenId greedy = ask.alone().token;
    ask.options.temperature = 1.5f;
    ask.options.top_k = 1;
    BOOST_TEST(ask.alone().token == greedy);
  }
}

// Draws at 20,000 positions, and over seeds and the seeds of choices, have the softmax's frequencies; and not those of
// one that is 15 % warmer, which is the proof that the test can fail.
BOOST_AUTO_TEST_CASE(draws_have_the_distribution) {
  const std::vector<float> logits = {0.2f, -1, 1.5f, 0, -0.3f, 0.9f, -2, 1.1f, 0.4f, -0.6f, 0.1f, 2};
  for (const float temperature : {1.0f, 0.7f}) {
    std::vector<float> right = logits, warmer = logits;
    for (float& x : right) x /= temperature;
    for (float& x : warmer) x /= 1.15f * temperature;
    for (int over = 0; over < 3; ++over) {
      Ask ask{.logits = logits};
      ask.options.temperature = temperature;
      ask.options.seed = 1234;
      Sampler sampler;
      std::vector<int> counts(logits.size());
      for (int i = 0; i < 20000; ++i) {
        if (over == 0) ask.position = i;
        if (over == 1) ask.options.seed = static_cast<std::uint64_t>(i);
        if (over == 2) ask.options.seed = tenon::choice_seed(1234, i);
        ++counts[static_cast<std::size_t>(ask.of(sampler).token)];
      }
      BOOST_TEST(chi_square(counts, right) < kChiSquare11);
      BOOST_TEST(chi_square(counts, warmer) > kChiSquare11);
    }
  }
}

// The walk written out: all tokens by (logit descending, id ascending), a running sum in that order, the first whose
// sum exceeds u times the total.
BOOST_AUTO_TEST_CASE(the_draw_is_the_written_walk) {
  std::mt19937 bits(23);
  Sampler sampler;
  for (int i = 0; i < 300; ++i) {
    Ask ask{.logits = random_row(2 + bits() % 2000, bits, 0.2f + static_cast<float>(i % 6)), .position = i};
    for (float& x : ask.logits) x = std::round(x * 8) / 8;  // ties
    ask.options.temperature = 0.4f + static_cast<float>(i % 9) / 5;
    ask.options.seed = bits();
    const float max = *std::max_element(ask.logits.begin(), ask.logits.end());
    std::vector<std::size_t> ids(ask.logits.size());
    std::iota(ids.begin(), ids.end(), std::size_t{0});
    std::stable_sort(ids.begin(), ids.end(),
                     [&](std::size_t a, std::size_t b) { return ask.logits[a] > ask.logits[b]; });
    const auto weight = [&](std::size_t id) {
      return static_cast<double>(tenon::exact::exp((ask.logits[id] - max) / ask.options.temperature));
    };
    double total = 0, mass = 0;
    for (const std::size_t id : ids) total += weight(id);
    const double target = static_cast<double>(tenon::uniform(ask.options.seed, i)) * total;
    std::size_t rank = 0;
    for (; rank < ids.size(); ++rank) {
      mass += weight(ids[rank]);
      if (mass > target) break;
    }
    BOOST_REQUIRE(ask.of(sampler).token == static_cast<TokenId>(ids[rank]));
  }
}

BOOST_AUTO_TEST_CASE(filtered_draws_stay_in_the_set_and_cover_it) {
  Ask ask{.logits = {3, 2.5f, 2, 1.5f, 1, 0.5f}};
  ask.options.temperature = 1;
  ask.options.top_k = 3;
  std::vector<int> counts(6);
  Sampler sampler;
  for (ask.position = 0; ask.position < 1000; ++ask.position) ++counts[static_cast<std::size_t>(ask.of(sampler).token)];
  BOOST_TEST(std::min({counts[0], counts[1], counts[2]}) > 100);
  BOOST_TEST(counts[3] + counts[4] + counts[5] == 0);
}

// The promise: whatever rows were drawn before, in whatever order, a row's pick is the same.
BOOST_AUTO_TEST_CASE(neighbours_change_nothing) {
  std::vector<Ask> asks = mixture();
  std::vector<Pick> alone;
  for (const Ask& ask : asks) alone.push_back(ask.alone());
  std::vector<std::size_t> order(asks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937 bits(3);
  Sampler sampler;
  for (int round = 0; round < 5; ++round) {
    for (const std::size_t i : order) BOOST_REQUIRE(same(asks[i].of(sampler), alone[i]));
    std::shuffle(order.begin(), order.end(), bits);
  }
}

BOOST_AUTO_TEST_CASE(neighbours_that_fail_change_nothing) {
  Sampler sampler;
  for (Ask ask : mixture()) {
    const Pick alone = ask.alone();
    Ask broken = ask;
    broken.logits.back() = kInf;
    BOOST_CHECK_THROW(broken.of(sampler), tenon::Error);
    broken = ask;
    broken.options.logit_bias = {{0, 1.0f}, {static_cast<TokenId>(ask.logits.size()), 1.0f}};
    BOOST_CHECK_THROW(broken.of(sampler), tenon::Error);
    BOOST_REQUIRE(same(ask.of(sampler), alone));
  }
}

BOOST_AUTO_TEST_CASE(position_and_seed_move_the_draw) {
  Ask ask{.logits = std::vector<float>(1000, 0.0f)};
  ask.options.temperature = 1;
  const TokenId base = ask.alone().token;
  BOOST_TEST(ask.alone().token == base);
  Ask other = ask;
  other.position = 1;
  BOOST_TEST(other.alone().token != base);
  other = ask;
  other.options.seed = 1;
  BOOST_TEST(other.alone().token != base);
}

BOOST_AUTO_TEST_CASE(alignment_changes_nothing) {
  Sampler sampler;
  for (const Ask& ask : mixture()) {
    const Pick alone = ask.alone();
    for (std::size_t shift = 1; shift < 8; ++shift) {
      std::vector<float> padded(ask.logits.size() + 16, std::numeric_limits<float>::quiet_NaN());
      for (std::size_t i = 0; i < ask.logits.size(); ++i) padded[shift + i] = ask.logits[i];
      const Pick pick = sampler.sample({.logits = std::span<const float>(padded).subspan(shift, ask.logits.size()),
                                        .prompt = ask.prompt,
                                        .generated = ask.generated,
                                        .options = ask.options,
                                        .position = ask.position,
                                        .mask = ask.mask.empty() ? nullptr : ask.mask.data()});
      BOOST_REQUIRE(same(pick, alone));
    }
  }
}

BOOST_AUTO_TEST_CASE(masks_hold_for_every_way_of_sampling) {
  Sampler sampler;
  for (const Ask& ask : mixture()) {
    if (ask.mask.empty()) continue;
    const auto token = static_cast<unsigned>(ask.of(sampler).token);
    BOOST_REQUIRE(((ask.mask[token / 32] >> (token % 32)) & 1u) == 1u);
  }
  Ask one{.logits = std::vector<float>(100, 1.0f), .mask = {0, 0, 1u << 3, 0}};
  BOOST_TEST(one.alone().token == 67);
  one.options.temperature = 2;
  for (one.position = 0; one.position < 20; ++one.position) BOOST_TEST(one.alone().token == 67);
}

BOOST_AUTO_TEST_CASE(bias_forces_and_forbids) {
  Ask ask{.logits = {0, 1, 2, 3}};
  for (const float temperature : {0.0f, 1.0f, 5.0f}) {
    ask.options.temperature = temperature;
    for (ask.position = 0; ask.position < 30; ++ask.position) {
      ask.options.logit_bias = {{0, kInf}};
      BOOST_TEST(ask.alone().token == 0);
      ask.options.logit_bias = {{3, -kInf}, {2, -kInf}, {0, -kInf}};
      BOOST_TEST(ask.alone().token == 1);
      ask.options.logit_bias = {{3, -1000.0f}, {2, -1000.0f}};
      BOOST_TEST(ask.alone().token < 2);
    }
  }
}

BOOST_AUTO_TEST_CASE(logits_that_are_not_finite_end_the_request) {
  for (const float bad : {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()})
    for (const float temperature : {0.0f, 1.0f}) {
      Ask ask{.logits = std::vector<float>(40, 0.5f), .position = 9};
      ask.options.temperature = temperature;
      ask.logits[37] = bad;
      BOOST_CHECK_EXCEPTION(ask.alone(), tenon::Error, [](const tenon::Error& e) {
        return e.kind() == tenon::Error::Kind::internal && e.where() == "logits" &&
               std::string(e.what()).find("not finite") != std::string::npos;
      });
    }
  BOOST_CHECK_THROW(Ask{}.alone(), tenon::Error);
}

BOOST_AUTO_TEST_CASE(no_token_left_ends_the_request) {
  Ask masked{.logits = {1, 2, 3}, .mask = {0}};
  BOOST_CHECK_THROW(masked.alone(), tenon::Error);
  Ask biased{.logits = {1, 2}};
  biased.options.logit_bias = {{0, -kInf}, {1, -kInf}};
  BOOST_CHECK_THROW(biased.alone(), tenon::Error);
}

// Bits, on every machine and with every compiler.
BOOST_AUTO_TEST_CASE(known_answers) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto mix = [&](std::uint32_t bits) { hash = (hash ^ bits) * 0x100000001b3u; };
  std::vector<float> logits(777);
  for (int i = 0; i < 300; ++i) {
    for (std::size_t j = 0; j < logits.size(); ++j) {
      const auto bits =
          tenon::philox4x32_10({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(j), 0, 0}, {99, 0})[0];
      logits[j] = 8 * (static_cast<float>(bits >> 8) * 0x1p-24f) - 4;
    }
    Ask ask{.logits = logits, .generated = {5, 9, 5}, .position = i};
    Options& o = ask.options;
    o.seed = 7;
    o.temperature = i % 5 == 0 ? 0 : 0.3f + static_cast<float>(i % 4) / 4;
    o.top_k = i % 3 == 0 ? 50 : 0;
    o.top_p = i % 4 == 0 ? 0.9f : 1;
    o.min_p = i % 7 == 0 ? 0.05f : 0;
    o.typical_p = i % 6 == 0 ? 0.8f : 1;
    o.repetition_penalty = 1.1f;
    o.frequency_penalty = 0.3f;
    o.top_logprobs = 3;
    const Pick pick = ask.alone();
    mix(static_cast<std::uint32_t>(pick.token));
    mix(std::bit_cast<std::uint32_t>(pick.logprob));
    for (const auto& top : pick.top) mix(std::bit_cast<std::uint32_t>(top.logprob));
  }
  BOOST_TEST(hash == 5946267489432776329u);
}

BOOST_AUTO_TEST_SUITE_END()
