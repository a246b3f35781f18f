// The inverse of the invariance tests: kernels that break the promise on purpose, each in a way that engines have been
// broken before, are reported as different by the same comparison. A test that cannot fail would prove nothing.
#define BOOST_TEST_MODULE engine_invariance_twin
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <functional>
#include <numeric>

#include "mixes.h"

namespace tenon::invariance {

// Attention of our own, found by its tag, whose order of summation a policy decides.
struct VariantAttention {
  static constexpr bool materialises_scores = false;

  // Whether a step of this number of rows and threads adds in the other order.
  static inline std::function<bool(int rows, int threads)> backwards;
  // Whether it multiplies values after the end of a text by zero, in place of not reading them.
  static inline bool reads_behind_the_end = false;
};

// One row and one head. It reads keys [head_dim, 16] and values [16, head_dim rounded up] of each tile of the cache.
template <class V>
void variant_row(const AttentionArgs<V>& args, const SequenceRows& part, int row, int head, bool backwards) {
  const int seen = part.start + row + 1, kv_head = head / (args.heads / args.kv_heads);
  const int width = (args.head_dim + kTilePositions - 1) / kTilePositions * kTilePositions;
  const auto tile = [&](int t) { return args.kv.tile(args.layer, part.slot, kv_head, t / kTilePositions); };
  const float* q = args.q.row(part.first_row + row) + head * args.head_dim;  // [head_dim]
  std::vector<float> weights(static_cast<std::size_t>(seen));
  float top = -std::numeric_limits<float>::infinity();
  for (int t = 0; t < seen; ++t) {
    float score = 0;
    for (int d = 0; d < args.head_dim; ++d) score += q[d] * tile(t).keys[d * kTilePositions + t % kTilePositions];
    weights[static_cast<std::size_t>(t)] = score * args.scale;
    top = std::max(top, weights[static_cast<std::size_t>(t)]);
  }
  for (float& w : weights) w = std::exp(w - top);
  const float sum = backwards ? std::accumulate(weights.rbegin(), weights.rend(), 0.0f)
                              : std::accumulate(weights.begin(), weights.end(), 0.0f);
  float* out = args.out.row(part.first_row + row) + head * args.head_dim;  // [head_dim]
  std::fill_n(out, args.head_dim, 0.0f);
  for (int t = 0; t < seen; ++t) {
    const float* v = tile(t).values + t % kTilePositions * width;  // [head_dim]
    for (int d = 0; d < args.head_dim; ++d) out[d] += weights[static_cast<std::size_t>(t)] / sum * v[d];
  }
  if (!VariantAttention::reads_behind_the_end || seen % kTilePositions == 0) return;
  const float* behind = tile(seen).values + seen % kTilePositions * width;  // [head_dim]
  for (int d = 0; d < args.head_dim; ++d) out[d] += 0.0f * behind[d];
}

template <class V>
requires std::same_as<typename V::Element, float>
void attention(Cpu& device, VariantAttention, const AttentionArgs<V>& args) {
  const bool backwards = VariantAttention::backwards(args.batch.rows, device.threads());
  for (int s = 0; s < args.batch.sequence_count; ++s) {
    const SequenceRows& part = args.batch.sequences[s];
    for (int row = 0; row < part.rows; ++row) {
      for (int head = 0; head < args.heads; ++head) variant_row(args, part, row, head, backwards);
    }
  }
}

}  // namespace tenon::invariance

using namespace tenon;
using namespace tenon::invariance;

namespace {

constexpr int kSmallest = 1;  // of the models: this attention is slow

std::unique_ptr<AnyEngine> make_variant(const Setup& s) {
  return s.cache == Keep::none ? make<VariantAttention, NoCache>(s) : make<VariantAttention, PagedKV>(s);
}

// Whether anything differs where a text is read in chunks of every size, and on every number of threads.
bool chunks_or_threads_differ() {
  Random random(1);
  const std::vector<Request> requests = {whole_request(random_text(random, kLongest), 2)};
  Setup setup{.shape = kSmallest};
  const auto alone = each_alone(setup, requests, make_variant);
  const auto differs = [&](int chunk, int threads) {
    setup.options.token_budget = chunk;
    setup.options.threads = threads;
    return compare(alone, run_all(*make_variant(setup), requests)).bits() > 0;
  };
  return std::any_of(kSizes.rbegin(), kSizes.rend(), [&](int chunk) { return differs(chunk, 1); }) || differs(65, 2) ||
         differs(65, 3) || differs(65, 4);
}

std::uint64_t mixes_caught(std::uint64_t count) {
  const Totals totals = run_mixes(kSmallest * kMixesOfOnePool, count, make_variant, /*quiet=*/true);
  return totals.mixes - totals.equal;
}

struct Fixture {
  Fixture() {
    VariantAttention::backwards = [](int, int) { return false; };
    VariantAttention::reads_behind_the_end = false;
  }
};

}  // namespace

// The kernel is slow and naive, but as long as one order is kept there is nothing to report: what the next tests catch
// is the variation alone.
BOOST_FIXTURE_TEST_CASE(one_order_is_as_good_as_another, Fixture) {
  BOOST_TEST(!chunks_or_threads_differ());
  BOOST_TEST(mixes_caught(20) == 0u);
  VariantAttention::backwards = [](int, int) { return true; };
  BOOST_TEST(!chunks_or_threads_differ());
}

BOOST_FIXTURE_TEST_CASE(an_order_that_depends_on_the_rows_of_a_step_is_caught, Fixture) {
  const std::vector<std::pair<const char*, bool (*)(int)>> rules = {
      {"one row is a case of its own", [](int rows) { return rows == 1; }},
      {"few rows take a path of their own", [](int rows) { return rows < 8; }},
      {"vLLM #48271: num_tokens < 256 ? 1024 : 256", [](int rows) { return rows < 256; }},
      {"llama.cpp #3014: one number at 16, another at 32", [](int rows) { return rows >= 32; }},
      {"a tile of six that is not full", [](int rows) { return rows % 6 == 1; }},
      {"exactly 129 rows", [](int rows) { return rows == 129; }},
      {"exactly 511 rows", [](int rows) { return rows == 511; }},
  };
  for (const auto& [what, rule] : rules) {
    VariantAttention::backwards = [rule = rule](int rows, int) { return rule(rows); };
    BOOST_TEST(chunks_or_threads_differ(), what << " was not caught");
  }
}

BOOST_FIXTURE_TEST_CASE(an_order_that_depends_on_the_threads_is_caught, Fixture) {
  VariantAttention::backwards = [](int, int threads) { return threads == 3; };
  BOOST_TEST(chunks_or_threads_differ());
}

// Nearly all random mixes catch an error that depends on every step.
BOOST_FIXTURE_TEST_CASE(random_mixes_catch_it_too, Fixture) {
  VariantAttention::backwards = [](int rows, int) { return rows == 1; };
  const std::uint64_t caught = mixes_caught(20);
  BOOST_TEST(caught >= 15u, caught << " of 20 mixes");
}

// Nothing but a neighbour that has failed lets this be seen: 0 x NaN is NaN.
BOOST_FIXTURE_TEST_CASE(random_mixes_catch_reading_behind_the_end, Fixture) {
  VariantAttention::reads_behind_the_end = true;
  BOOST_TEST(!chunks_or_threads_differ());
  BOOST_TEST(mixes_caught(60) > 0u);
}

// ---------------------------------------------------------------- the comparison

namespace {

Completion an_answer() {
  Completion c;
  c.ids = {1, 2};
  c.text = "ab";
  c.reason = FinishReason::length;
  c.logprobs = {-1.0f, -2.0f};
  c.top_logprobs = {{{1, -1.0f}}, {{2, -2.0f}, {3, -2.5f}}};
  c.logits_hash = 17;
  auto scores = std::make_shared<Scores>();
  scores->logits = {{0, {0.5f, 0.25f}}, {4, {1.0f, 0.0f}}};
  scores->nll_mean = 3.0;
  c.scores = scores;
  c.others.resize(1);
  static_cast<Choice&>(c.others[0]) = static_cast<const Choice&>(c);
  return c;
}

template <class Change>
std::uint64_t bits_after(Change&& change) {
  Completion changed = an_answer();
  Scores scores = *changed.scores;
  change(changed, scores);
  changed.scores = std::make_shared<Scores>(scores);
  return compare({an_answer()}, {changed}).bits();
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_comparison_counts_every_bit) {
  const auto flip = [](float& x) { x = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) ^ 1u); };
  BOOST_TEST(bits_after([](Completion&, Scores&) {}) == 0u);
  BOOST_TEST(bits_after([](Completion& c, Scores&) { c.ids[1] = 3; }) == 1u);
  BOOST_TEST(bits_after([](Completion& c, Scores&) { c.ids.pop_back(); }) == 32u);
  BOOST_TEST(bits_after([](Completion& c, Scores&) { c.text = "abc"; }) == 1u);
  BOOST_TEST(bits_after([](Completion& c, Scores&) { c.error = "e"; }) == 1u);
  BOOST_TEST(bits_after([](Completion& c, Scores&) { c.reason = FinishReason::stop; }) == 1u);
  BOOST_TEST(bits_after([&](Completion& c, Scores&) { flip(c.logprobs[0]); }) == 1u);
  BOOST_TEST(bits_after([&](Completion& c, Scores&) { flip(c.top_logprobs[1][1].logprob); }) == 1u);
  BOOST_TEST(bits_after([](Completion& c, Scores&) { c.top_logprobs.pop_back(); }) == 1u);
  BOOST_TEST(bits_after([](Completion& c, Scores&) { c.logits_hash = 16; }) == 1u);
  BOOST_TEST(bits_after([](Completion& c, Scores&) { c.logits_hash = {}; }) > 0u);
  BOOST_TEST(bits_after([&](Completion&, Scores& s) { flip(s.logits[1].second[0]); }) == 1u);
  BOOST_TEST(bits_after([](Completion&, Scores& s) { s.logits[1].second[1] = -0.0f; }) ==
             1u);  // -0 == 0, but not in bits
  BOOST_TEST(bits_after([](Completion&, Scores& s) { s.logits.pop_back(); }) == 1u);
  BOOST_TEST(bits_after([](Completion&, Scores& s) { s.nll_mean = std::nextafter(3.0, 4.0); }) == 1u);
  BOOST_TEST(bits_after([&](Completion& c, Scores&) { flip(c.others[0].logprobs[1]); }) == 1u);
  BOOST_TEST(bits_after([](Completion& c, Scores&) { c.others.clear(); }) == 1u);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Completion a = an_answer(), b = a;
  a.logprobs[0] = b.logprobs[0] = nan;
  BOOST_TEST(compare({a}, {b}).bits() == 0u);  // NaN != NaN, but its bits are equal
  BOOST_TEST(compare({a, a}, {a}).bits() > 0u);
}

// A cancelled answer may be short, and must be right as far as it goes.
BOOST_AUTO_TEST_CASE(the_comparison_takes_a_cancelled_answer_as_a_beginning) {
  const auto cancel = [](Completion& c) {
    c.reason = FinishReason::cancelled;
    c.ids.pop_back();
    c.logprobs.pop_back();
    c.top_logprobs.pop_back();
    c.logits_hash = 3;
  };
  BOOST_TEST(bits_after([&](Completion& c, Scores&) { cancel(c); }) == 0u);
  BOOST_TEST(bits_after([&](Completion& c, Scores&) { cancel(c), c.ids[0] = 0; }) == 1u);
  BOOST_TEST(bits_after([&](Completion& c, Scores&) { cancel(c), c.logprobs[0] = -1.5f; }) == 1u);
  BOOST_TEST(bits_after([&](Completion& c, Scores&) { cancel(c), c.ids = {1, 2, 3}; }) > 0u);  // more than there is
}
