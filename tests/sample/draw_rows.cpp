// Rows that a device has prepared give the token that the whole row gives, or say that they do not decide.
#include "tenon/sample/draw_rows.h"
#include "tenon/sample/sampler.h"

#include <boost/test/unit_test.hpp>
#include <random>

#include "../ops/draw_reference.h"

BOOST_AUTO_TEST_SUITE(sample_draw_rows)

using namespace tenon;

namespace {

struct Nothing {};

struct Ask {
  std::vector<float> logits;
  Options options;
  std::vector<TokenId> prompt, generated;
  int position = 7;
  std::vector<std::uint32_t> mask;

  SampleInput input() const {
    return {logits, prompt, generated, options, position, mask.empty() ? nullptr : mask.data()};
  }
};

// Options of every kind: greedy, drawn, filtered, penalised, biased, masked.
Ask ask(std::size_t vocab, unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal(0, seed % 3 == 0 ? 1.0f : 5.0f);
  const auto below = [&](unsigned n) { return static_cast<unsigned>(bits() % n); };
  Ask a;
  for (std::size_t i = 0; i < vocab; ++i)
    a.logits.push_back(below(20) ? normal(bits) : 0.5f * static_cast<float>(below(9)));  // ties
  Options& o = a.options;
  o.seed = seed;
  o.temperature = below(4) ? 0.3f * static_cast<float>(1 + below(6)) : 0.0f;
  constexpr int kRanks[] = {0, 0, 0, 1, 7, 256, 257, 100'000};
  o.top_k = kRanks[below(8)];
  if (below(3) == 0) o.top_p = 0.5f + 0.1f * static_cast<float>(below(6));
  if (below(4) == 0) o.min_p = 0.02f;
  if (below(6) == 0) o.typical_p = 0.7f;
  for (unsigned i = below(60); i > 0; --i)
    a.prompt.push_back(static_cast<TokenId>(below(static_cast<unsigned>(vocab) + 3)));
  for (unsigned i = below(40); i > 0; --i) a.generated.push_back(static_cast<TokenId>(below(30)));
  if (below(4) == 0) o.top_logprobs = static_cast<int>(below(280));
  if (below(2)) o.repetition_penalty = 1.3f;
  if (below(3) == 0) o.presence_penalty = 0.4f;
  if (below(3) == 0) o.frequency_penalty = -0.3f;
  constexpr float kBiases[] = {3.0f, -100.0f, std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity()};
  for (unsigned i = below(3) ? 0 : below(5); i > 0; --i)
    o.logit_bias.push_back({static_cast<TokenId>(below(static_cast<unsigned>(vocab))), kBiases[below(4)]});
  if (below(3) == 0) {
    const unsigned kind = below(3);
    for (std::size_t w = 0; w < (vocab + 31) / 32; ++w)
      a.mask.push_back(kind == 0 ? ~0u : kind == 1 ? static_cast<std::uint32_t>(bits()) : w == 1 ? 0x8010u : 0u);
  }
  return a;
}

constexpr std::size_t kMost = 256;

// The token by the best logits of the prepared row; empty where they do not decide, or the row was not added.
std::optional<Pick> from_best(const Ask& a, std::size_t vocab, double doubt = 1) {
  DrawRows rows;
  rows.reset(vocab);
  if (!rows.add(a.input(), kMost)) return {};
  const auto args = rows.args<Nothing>({}, {}, nullptr, nullptr, nullptr);
  const test::Drawn found = test::drawn(a.logits, args.draws[0], args);
  Sampler sampler;
  const auto token = sampler.best_of_row(a.input(), found.best, vocab, found.best.size() < kMost || vocab <= kMost,
                                         doubt * found.total);
  if (!token) return {};
  Pick pick;
  pick.token = *token;
  if (a.options.top_logprobs >= 0) Sampler::add_logprobs(a.input(), found.best, doubt * found.log_total, pick);
  return pick;
}

Pick from_row(const Ask& a) {
  Sampler sampler;
  return sampler.sample(a.input());
}

bool alike(const Pick& a, const Pick& b) {
  const auto equal = [](const TokenLogprob& x, const TokenLogprob& y) {
    return x.id == y.id && x.logprob == y.logprob;
  };
  return a.token == b.token && a.logprob == b.logprob && std::ranges::equal(a.top, b.top, equal);
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_best_decide_as_the_whole_row_does) {
  int decided = 0, with_logprobs = 0, all = 0;
  for (const std::size_t vocab : {40u, 256u, 257u, 3000u}) {
    for (unsigned seed = 0; seed < 1500; ++seed) {
      const Ask a = ask(vocab, seed);
      const auto pick = from_best(a, vocab);
      ++all;
      if (!pick) continue;
      ++decided;
      with_logprobs += a.options.top_logprobs >= 0;
      BOOST_TEST_REQUIRE(alike(*pick, from_row(a)), "vocabulary " << vocab << ", seed " << seed);
    }
  }
  BOOST_TEST(decided > all / 2, decided << " of " << all);
  BOOST_TEST(with_logprobs > 100);
  BOOST_TEST(decided < all, "some rows of 3,000 are flat, and ranks beyond 256 are asked for");
}

// The inverse test: a total that is wrong is noticed.
BOOST_AUTO_TEST_CASE(a_wrong_total_gives_other_tokens) {
  int different = 0, logprobs = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const Ask a = ask(257, seed);
    const auto pick = from_best(a, 257, 0.5);
    if (!pick) continue;
    const Pick right = from_row(a);
    different += pick->token != right.token;
    logprobs += pick->token == right.token && !alike(*pick, right);
  }
  BOOST_TEST(different > 10);
  BOOST_TEST(logprobs > 2);
}

BOOST_AUTO_TEST_CASE(options_that_need_the_whole_row_are_not_prepared) {
  DrawRows rows;
  rows.reset(300);
  Ask a = ask(300, 1);
  const auto refused = [&](auto&& change) {
    Ask other{a.logits, {}, {}, {}, 7, {}};
    other.options.temperature = 1;
    change(other.options);
    const bool added = rows.add(other.input(), kMost);
    BOOST_TEST(rows.size() == 0u);
    return !added;
  };
  BOOST_TEST(refused([](Options& o) { o.top_logprobs = 257; }));
  BOOST_TEST(refused([](Options& o) { o.top_logprobs = 2, o.presence_penalty = 1; }));
  BOOST_TEST(refused([](Options& o) { o.top_logprobs = 2, o.logit_bias = {{3, 1.0f}}; }));
  BOOST_TEST(refused([](Options& o) { o.typical_p = 0.5f; }));
  BOOST_TEST(refused([](Options& o) { o.top_k = 257; }));
  BOOST_TEST(refused([](Options& o) { o.logit_bias = {{3, 1.0f}, {4, 1.0f}, {3, 1.0f}}; }));
  BOOST_TEST(refused([](Options& o) { o.logit_bias = {{300, 1.0f}}; }));
  BOOST_TEST(refused([](Options& o) { o.logit_bias = {{-1, 1.0f}}; }));
}

BOOST_AUTO_TEST_CASE(nothing_allowed_and_not_finite_are_left_to_the_whole_row) {
  Ask a{std::vector<float>(70, 1.0f), {}, {}, {}, 7, std::vector<std::uint32_t>(3, 0u)};
  BOOST_TEST(!from_best(a, 70).has_value());
  a.mask.clear();
  a.logits[69] = std::numeric_limits<float>::infinity();
  BOOST_TEST(!from_best(a, 70).has_value());
}

BOOST_AUTO_TEST_CASE(a_row_with_a_processor_needs_all_logits) {
  Ask a;
  a.logits.assign(40, 1.0f);
  const AnyLogitsProcessor none, neutral = [](std::span<float>, std::span<const TokenId>, std::span<const TokenId>) {};
  DrawRows rows;
  rows.reset(40);
  SampleInput in = a.input();
  in.processor = &none;
  BOOST_TEST(rows.add(in, kMost));
  in.processor = &neutral;
  BOOST_TEST(!rows.add(in, kMost));
  BOOST_TEST(rows.size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
