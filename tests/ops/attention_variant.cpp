// Attention variants: hooks of a user's own on scores and masks, in the order that ops/attention.h states, to the same
// bits in any chunks, on every instruction set and number of threads.
#include <boost/test/unit_test.hpp>

#include <atomic>

#include "attention_problem.h"

BOOST_AUTO_TEST_SUITE(ops_attention_variant)

using namespace tenon;
using namespace tenon::test;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Each for both algorithms.
template <bool kDirect>
struct Algorithm {
  static constexpr bool materialises_scores = kDirect;
};

template <bool kDirect>
struct Unchanged : Algorithm<kDirect> {
  float score(int, int, int, float s) const { return s; }
};

// A soft cap, as in Gemma 2 (Riviere et al., 2024).
template <bool kDirect>
struct Capped : Algorithm<kDirect> {
  float cap = 1.5f;
  float score(int, int, int, float s) const { return cap * std::tanh(s / cap); }
  std::array<float, 1> values() const { return {cap}; }
};

// ALiBi by hand: the slopes of with_slopes() below.
template <bool kDirect>
struct Sloped : Algorithm<kDirect> {
  static float slope(int head) { return std::ldexp(1.5f, -6 - head); }
  float score(int query, int key, int head, float s) const {
    return std::fma(slope(head), static_cast<float>(key - query), s);
  }
};

// A window by hand.
template <bool kDirect, int kWindow>
struct Windowed : Algorithm<kDirect> {
  bool mask(int query, int key) const { return key > query - kWindow; }
};

// Sparse attention (Child et al., 2019), with a score that depends on all that it is given.
template <bool kDirect>
struct Strided : Algorithm<kDirect> {
  float score(int query, int key, int head, float s) const {
    return std::fma(s, 0.75f, static_cast<float>((query * 7 + key * 3 + head) % 11) * 0.125f);
  }
  bool mask(int query, int key) const { return query - key < 5 || key % 7 == 2 || (key >= 64 && key < 128); }
};

// The same, sixteen positions at a time.
template <bool kDirect>
struct StridedTiles : Strided<kDirect> {
  void scores(int query, int first_key, int head, std::span<float, kTilePositions> s) const {
    for (int i = 0; i < kTilePositions; ++i) {
      float& score = s[static_cast<std::size_t>(i)];
      score = Strided<kDirect>::score(query, first_key + i, head, score);
    }
  }
};

// Hides whole strides and splits, and everything from some rows.
template <bool kDirect>
struct Blind : Algorithm<kDirect> {
  static bool sees_nothing(int query) { return query % 5 == 3; }
  bool mask(int query, int key) const { return !sees_nothing(query) && (key < 3 || key >= 290 || query < 200); }
};

// The same by a score that hides.
template <bool kDirect>
struct BlindScores : Algorithm<kDirect> {
  float score(int query, int key, int, float s) const { return Blind<kDirect>{}.mask(query, key) ? s : -kInfinity; }
};

template <template <bool> class Variant, class E>
using Both = std::tuple<Over<Variant<false>, E>, Over<Variant<true>, E>>;
template <class... Tuples>
using Joined = decltype(std::tuple_cat(std::declval<Tuples>()...));
using VariantCases =
    Joined<Both<Capped, float>, Both<Strided, float>, Both<StridedTiles, float>, Both<Blind, float>,
           Both<Strided, bfloat16>, Both<Strided, std::int8_t>, Both<Blind, std::int8_t>, Both<Capped, float16>>;
using Algorithms = std::tuple<std::false_type, std::true_type>;
template <bool kDirect>
using TagOf = std::conditional_t<kDirect, DirectAttention, FlashAttention>;

static_assert(AttentionVariant<Capped<false>> && ScoresTiles<StridedTiles<true>> && !AttentionVariant<FlashAttention>);

template <class E>
AttentionProblem<E> with_slopes(AttentionProblem<E> p) {
  for (int h = 0; h < p.heads; ++h) p.slopes.push_back(Sloped<false>::slope(h));
  return p;
}

template <class Policy, class E>
Matrix oracle_of(const AttentionProblem<E>& p) {
  return at_once(p, [](const auto& args) { reference::attention(args, Policy{}); });
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(rows_are_the_same_in_any_company_and_chunks, Case, VariantCases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  for (const auto& p : {AttentionProblem<E>(2, 280, 4, 2, 20), AttentionProblem<E>(1, 140, 3, 1, 64)}) {
    const Matrix truth = truth_of<Policy>(p);
    for_each_cpu(
        [&](Cpu& device) {
          const auto op = op_on<Policy>(device);
          BOOST_TEST_CONTEXT(name_of(device) << ", head_dim " << p.head_dim) {
            BOOST_TEST(first_difference(at_once(p, op).view(), truth.view()) == -1);
            for (const int most : {7, 150}) {
              BOOST_TEST(first_difference(in_chunks(p, most, static_cast<std::uint64_t>(most), op).view(),
                                          truth.view()) == -1);
            }
          }
        },
        p.head_dim == 20 ? 3 : 1);
  }
}

// The order of operations: the model's slopes and window come after the variant's score.
BOOST_AUTO_TEST_CASE_TEMPLATE(results_are_those_of_the_formula, Case, VariantCases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  for (const int window : {0, 70}) {
    auto p = with_slopes(AttentionProblem<E>(1, 300, 4, 2, 20));
    p.window = window;
    const Matrix oracle = oracle_of<Policy>(p);
    for_each_cpu(
        [&](Cpu& device) {
          BOOST_TEST(largest_difference(at_once(p, op_on<Policy>(device)), oracle) < 2e-5, name_of(device));
        },
        1);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_variant_that_changes_nothing_has_the_bits_of_its_algorithm, Direct, Algorithms) {
  for (const int window : {0, 40}) {
    auto p = with_slopes(AttentionProblem<float>(1, 330, 4, 2, 20));
    p.window = window;
    const Matrix truth = truth_of<TagOf<Direct::value>>(p);
    for_each_cpu([&](Cpu& device) {
      BOOST_TEST(first_difference(at_once(p, op_on<Unchanged<Direct::value>>(device)).view(), truth.view()) == -1);
    });
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(alibi_as_a_variant_has_the_bits_of_slopes, Direct, Algorithms) {
  const AttentionProblem<float> p(1, 330, 4, 2, 20);
  const Matrix truth = truth_of<TagOf<Direct::value>>(with_slopes(p));
  for_each_cpu([&](Cpu& device) {
    BOOST_TEST(first_difference(at_once(p, op_on<Sloped<Direct::value>>(device)).view(), truth.view()) == -1);
  });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_window_as_a_variant_has_the_bits_of_a_window, Direct, Algorithms) {
  const AttentionProblem<std::int8_t> p(1, 600, 2, 1, 20);
  const auto check = [&]<int kWindow>(std::integral_constant<int, kWindow>) {
    auto windowed = p;
    windowed.window = kWindow;
    const Matrix truth = truth_of<TagOf<Direct::value>>(windowed);
    for_each_cpu(
        [&](Cpu& device) {
          const auto op = op_on<Windowed<Direct::value, kWindow>>(device);
          BOOST_TEST(first_difference(at_once(p, op).view(), truth.view()) == -1, "window " << kWindow);
        },
        1);
  };
  check(std::integral_constant<int, 1>{});
  check(std::integral_constant<int, 17>{});
  check(std::integral_constant<int, 64>{});
  check(std::integral_constant<int, 257>{});
}

BOOST_AUTO_TEST_CASE_TEMPLATE(tiles_of_scores_have_the_bits_of_single_ones, Direct, Algorithms) {
  const AttentionProblem<float> p(1, 200, 2, 1, 20);
  const Matrix truth = truth_of<Strided<Direct::value>>(p);
  for_each_cpu([&](Cpu& device) {
    BOOST_TEST(first_difference(at_once(p, op_on<StridedTiles<Direct::value>>(device)).view(), truth.view()) == -1);
  });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_score_of_minus_infinity_hides_as_a_mask_does, Direct, Algorithms) {
  const AttentionProblem<float> p(1, 330, 2, 1, 20);
  const Matrix truth = truth_of<Blind<Direct::value>>(p);
  for_each_cpu([&](Cpu& device) {
    BOOST_TEST(first_difference(at_once(p, op_on<BlindScores<Direct::value>>(device)).view(), truth.view()) == -1);
  });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_row_that_sees_nothing_gets_zeros, Direct, Algorithms) {
  const AttentionProblem<float> p(1, 330, 2, 1, 20);
  for_each_cpu(
      [&](Cpu& device) {
        const Matrix out = at_once(p, op_on<Blind<Direct::value>>(device));
        for (int r = 0; r < p.length; ++r) {
          for (int c = 0; c < out.cols; ++c) {
            BOOST_REQUIRE(std::isfinite(out.row(r)[c]));
            BOOST_REQUIRE((out.row(r)[c] == 0) == Blind<false>::sees_nothing(r));
          }
        }
      },
      1);
}

// Nothing of a hidden position is read into a sum: 0 x NaN would be NaN.
BOOST_AUTO_TEST_CASE_TEMPLATE(what_a_mask_hides_may_be_nan, Direct, Algorithms) {
  const AttentionProblem<float> p(1, 330, 2, 1, 20);
  auto hostile = p;
  const int bad = 100;  // seen up to row 199, hidden from later ones
  hostile.keys.row(bad)[3] = kNaN;
  hostile.values.row(bad)[3] = kNaN;
  for_each_cpu(
      [&](Cpu& device) {
        const auto op = op_on<Blind<Direct::value>>(device);
        const Matrix truth = at_once(p, op), out = at_once(hostile, op);
        BOOST_TEST(first_difference(out.view(200, 130), truth.view(200, 130)) == -1);
        for (int r = bad; r < 200; ++r) BOOST_TEST(std::isnan(out.row(r)[3]) == !Blind<false>::sees_nothing(r));
      },
      1);
}

namespace {

// Notes what it is asked. Hooks run on several threads.
template <bool kDirect>
struct Watching : Algorithm<kDirect> {
  static inline std::atomic<int> calls = 0, wrong = 0;
  static constexpr int kWindow = 40, kHeads = 4;

  static void note(bool right) {
    ++calls;
    wrong += !right;
  }
  static bool seen(int query, int key) { return key >= 0 && key <= query && key > query - kWindow && query < 100; }
  bool mask(int query, int key) const {
    note(seen(query, key));
    return key % 2 == 0;
  }
  float score(int query, int key, int head, float s) const {
    note(seen(query, key) && key % 2 == 0 && head >= 0 && head < kHeads && std::isfinite(s));
    return s;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(hooks_are_asked_for_what_rows_see_and_for_nothing_else, Direct, Algorithms) {
  using Policy = Watching<Direct::value>;
  AttentionProblem<float> p(1, 100, Policy::kHeads, 2, 20);
  p.window = Policy::kWindow;
  for_each_cpu(
      [&](Cpu& device) {
        at_once(p, op_on<Policy>(device));
        in_chunks(p, 20, 1, op_on<Policy>(device));
      },
      2);
  BOOST_TEST(Policy::calls.load() > 10000);
  BOOST_TEST(Policy::wrong.load() == 0);
}

BOOST_AUTO_TEST_SUITE_END()
