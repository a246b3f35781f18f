// Our attentions obey the laws, and so does a variant; each law is broken by one that is made to break it.
#include "tenon/testing/attention_laws.h"

#include <boost/test/unit_test.hpp>

#include "obeys.h"

BOOST_AUTO_TEST_SUITE(testing_attention_laws)

using namespace tenon;
using test::breaks;
using test::obeys;
using testing::attention_laws;

namespace {

struct Sparse {
  static constexpr bool materialises_scores = false;
  float cap = 2;
  float score(int, int, int, float s) const { return cap * std::tanh(s / cap); }
  void scores(int, int, int, std::span<float, kTilePositions> s) const {
    for (float& x : s) x = score(0, 0, 0, x);
  }
  bool mask(int query, int key) const { return query - key < 20 || key % 5 == 0; }
  std::array<float, 1> values() const { return {cap}; }
};

// The same, but tiles of scores are capped elsewhere.
struct TwoCaps : Sparse {
  void scores(int, int, int, std::span<float, kTilePositions> s) const {
    for (float& x : s) x = 3 * std::tanh(x / 3);
  }
};

// ---- an attention of a user's own, wrong in one way each

enum class Wrong { nothing, place, order, behind, window, weights, gaps, threads };

template <Wrong kWrong>
struct Naive {
  static constexpr bool materialises_scores = true;
};

template <Wrong kWrong, class V>
void naive_row(const AttentionArgs<V>& args, int slot, int row, int head, int position, bool backwards) {
  const int n = args.head_dim, width = KvShape{.head_dim = n}.value_stride();
  const int kv_head = head / (args.heads / args.kv_heads);
  const bool windowed = args.window > 0 && kWrong != Wrong::window;
  const int first = windowed ? std::max(0, position - args.window + 1) : 0;
  const auto tile = [&](int t) { return args.kv.tile(args.layer, slot, kv_head, t / kTilePositions); };
  const float* q = args.q.row(row) + head * n;
  std::vector<float> weights;
  for (int t = first; t <= position; ++t) {
    float score = 0;
    for (int d = 0; d < n; ++d) score += q[d] * tile(t).keys[d * kTilePositions + t % kTilePositions];
    weights.push_back(std::exp(score * args.scale));
  }
  float sum = 0;
  if (backwards)
    for (auto w = weights.rbegin(); w != weights.rend(); ++w) sum += *w;
  else
    for (const float w : weights) sum += w;
  if (kWrong == Wrong::weights) sum += 1;
  float* out = args.out.row(row) + head * n;
  std::fill_n(out, n, 0.0f);
  for (int t = first; t <= position; ++t) {
    const float* v = tile(t).values + t % kTilePositions * width;
    for (int d = 0; d < n; ++d) out[d] += weights[static_cast<std::size_t>(t - first)] / sum * v[d];
  }
  if (kWrong == Wrong::behind && (position + 1) % kTilePositions != 0) {
    const float* v = tile(position).values + (position + 1) % kTilePositions * width;
    for (int d = 0; d < n; ++d) out[d] += 0.0f * v[d];
  }
  if (kWrong == Wrong::gaps && head + 1 == args.heads) out[n] = 0;
}

template <Wrong kWrong, class V>
void attention(Cpu& device, Naive<kWrong>, const AttentionArgs<V>& args) {
  const bool backwards =
      (kWrong == Wrong::order && args.batch.rows > 100) || (kWrong == Wrong::threads && device.threads() > 1);
  for (int s = 0; s < args.batch.sequence_count; ++s) {
    const SequenceRows& part = args.batch.sequences[s];
    for (int r = 0; r < part.rows; ++r) {
      for (int head = 0; head < args.heads; ++head) {
        naive_row<kWrong>(args, kWrong == Wrong::place ? s : part.slot, part.first_row + r, head, part.start + r,
                          backwards);
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(our_attentions_obey) {
  obeys(attention_laws(FlashAttention{}));
  obeys(attention_laws(DirectAttention{}));
  obeys(attention_laws<std::int8_t>(FlashAttention{}));
  obeys(attention_laws<std::int8_t>(DirectAttention{}));
  obeys(attention_laws<bfloat16>(FlashAttention{}));
}

BOOST_AUTO_TEST_CASE(a_variant_and_a_naive_attention_obey) {
  obeys(attention_laws(Sparse{}));
  obeys(attention_laws<std::int8_t>(Sparse{.cap = 4}));
  obeys(attention_laws(Naive<Wrong::nothing>{}));
  Cpu plain({.threads = 1, .isa = Isa::portable}), best({.threads = 2});
  obeys(attention_laws(Sparse{}, plain, best));
}

BOOST_AUTO_TEST_CASE(wrong_attentions_are_caught) {
  BOOST_TEST(breaks(attention_laws(Naive<Wrong::place>{}), "those of SequenceRows::slot"));
  BOOST_TEST(!breaks(attention_laws(Naive<Wrong::place>{}), "alone and beside others"));  // as only the slot is wrong
  BOOST_TEST(breaks(attention_laws(Naive<Wrong::order>{}), "alone and beside others"));
  BOOST_TEST(breaks(attention_laws(Naive<Wrong::behind>{}), "the weights of a row sum to 1"));
  BOOST_TEST(breaks(attention_laws(Naive<Wrong::window>{}), "asks for no tile that no row"));
  BOOST_TEST(breaks(attention_laws(Naive<Wrong::weights>{}), "the weights of a row sum to 1"));
  BOOST_TEST(breaks(attention_laws(Naive<Wrong::gaps>{}), "writes the rows of out"));
  BOOST_TEST(breaks(attention_laws(Naive<Wrong::threads>{}), "change no bit"));
  BOOST_TEST(breaks(attention_laws(TwoCaps{}), "scores() gives the bits of score()"));
}

BOOST_AUTO_TEST_SUITE_END()
