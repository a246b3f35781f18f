// Attention that knows positions: windows, before which nothing is read, and ALiBi's slopes.
#include <boost/test/unit_test.hpp>

#include "attention_problem.h"

BOOST_AUTO_TEST_SUITE(ops_attention_positions)

using namespace tenon;
using namespace tenon::test;

namespace {

template <class E>
AttentionProblem<E> with(AttentionProblem<E> p, int window, bool sloped) {
  p.window = window;
  if (sloped) {
    for (int h = 0; h < p.heads; ++h)
      p.slopes.push_back(std::ldexp(1.5f, -6 - h));  // keys 300 positions away still have some weight
  }
  return p;
}

// Rows first .. first + rows - 1 of one sequence, as a text of their own.
template <class E>
AttentionProblem<E> part_of(const AttentionProblem<E>& p, int first, int rows) {
  auto part = p;
  part.length = rows;
  for (auto [to, from] : {std::pair{&part.q, &p.q}, {&part.keys, &p.keys}, {&part.values, &p.values}}) {
    *to = Matrix(rows, from->cols, from->stride);
    for (int r = 0; r < rows; ++r) copy_row(*from, first + r, *to, r);
  }
  return part;
}

// Whether rows first .. first + rows - 1 are finite.
bool all_finite(const Matrix& m, int first, int rows) {
  for (int r = first; r < first + rows; ++r) {
    for (int c = 0; c < m.cols; ++c) {
      if (!std::isfinite(m.row(r)[c])) return false;
    }
  }
  return true;
}

// Both sides of tiles, strides and splits, and lengths that are neither.
constexpr std::array kWindows = {1, 2, 15, 16, 17, 40, 63, 64, 65, 256, 257};

}  // namespace

// With a window a cache may forget earlier positions, and does here: tiles are gone, and NaN shares tiles with visible
// positions.
BOOST_AUTO_TEST_CASE_TEMPLATE(rows_are_the_same_in_any_chunks_over_a_cache_that_forgets, Case, Cases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  for (const int window : kWindows) {
    auto p = with(AttentionProblem<E>(1, 330, 2, 1, 20), window, window % 2 == 0);
    const Matrix truth = truth_of<Policy>(p);
    BOOST_REQUIRE(all_finite(truth, 0, p.length));
    p.forgets = true;
    for_each_cpu(
        [&](Cpu& device) {
          const auto op = op_on<Policy>(device);
          BOOST_TEST_CONTEXT(name_of(device) << ", window " << window) {
            BOOST_TEST(first_difference(at_once(p, op).view(), truth.view()) == -1);
            for (const int most : {2, 20, 150}) {
              BOOST_TEST(first_difference(in_chunks(p, most, static_cast<std::uint64_t>(most), op).view(),
                                          truth.view()) == -1);
            }
          }
        },
        window == 17 ? 4 : 1);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(decoding_over_a_cache_that_forgets_is_the_same, Case, Cases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  for (const int window : {1, 17, 64, 100}) {
    auto p = with(AttentionProblem<E>(2, 200, 4, 2, 16), window, true);
    const Matrix truth = truth_of<Policy>(p);
    p.forgets = true;
    for_each_cpu(
        [&](Cpu& device) {
          BOOST_TEST(first_difference(alone(p, op_on<Policy>(device)).view(), truth.view()) == -1,
                     name_of(device) << ", window " << window);
        },
        2);
  }
}

// Every width of a head, and rows of several sequences in one step.
BOOST_AUTO_TEST_CASE_TEMPLATE(every_shape_is_the_same_in_any_company, Case, Cases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  for (const auto& plain : problems<E>(3, 70)) {
    for (const int window : {0, 5, 33}) {
      auto p = with(plain, window, true);
      const Matrix truth = truth_of<Policy>(p);
      p.forgets = true;
      for_each_cpu(
          [&](Cpu& device) {
            BOOST_TEST_CONTEXT(name_of(device) << ", head_dim " << p.head_dim << ", window " << window) {
              BOOST_TEST(first_difference(at_once(p, op_on<Policy>(device)).view(), truth.view()) == -1);
              BOOST_TEST(first_difference(in_chunks(p, 20, 1, op_on<Policy>(device)).view(), truth.view()) == -1);
            }
          },
          p.head_dim == 64 ? 4 : 1);
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_window_as_long_as_the_text_is_none, Case, Cases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  for (const bool sloped : {false, true}) {
    const AttentionProblem<E> p(1, 300, 2, 1, 20);
    const Matrix truth = truth_of<Policy>(with(p, 0, sloped));
    for_each_cpu(
        [&](Cpu& device) {
          for (const int window : {300, 301, 1 << 30}) {
            BOOST_TEST(first_difference(at_once(with(p, window, sloped), op_on<Policy>(device)).view(), truth.view()) ==
                       -1);
          }
          BOOST_TEST(first_difference(at_once(with(p, 299, sloped), op_on<Policy>(device)).view(), truth.view()) ==
                     299);  // the inverse test
        },
        1);
  }
}

// Splits lie at fixed positions: positions from a split's begin on are like a text that begins there, with any window
// or length. Slopes depend on distances, not on positions.
BOOST_AUTO_TEST_CASE_TEMPLATE(a_window_that_begins_a_split_is_a_text_of_its_own, Case, Cases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  for (const bool sloped : {false, true}) {
    const auto p = with(AttentionProblem<E>(1, 560, 2, 1, 20), 0, sloped);
    const Matrix text = truth_of<Policy>(part_of(p, 256, 304));
    for_each_cpu(
        [&](Cpu& device) {
          for (const int last : {0, 5, 15, 16, 63, 64, 100, 255, 256, 303}) {
            auto windowed = p;
            windowed.window = last + 1;
            auto kv = windowed.cache();
            Matrix out = windowed.output();
            step(windowed, kv, {{0, 0, 256 + last}}, out, [](const auto&) {});
            windowed.forgets = true;
            step(windowed, kv, {{0, 256 + last, 1}}, out, op_on<Policy>(device));
            BOOST_TEST(first_difference(out.view(256 + last, 1), text.view(last, 1)) == -1, name_of(device)
                                                                                                << ", row " << last);
          }
        },
        1);
  }
}

// A window of one position is its value: the softmax of one score is 1.
BOOST_AUTO_TEST_CASE_TEMPLATE(a_window_of_one_is_the_value, Policy, Policies) {
  const auto p = with(AttentionProblem<float>(1, 70, 2, 2, 20), 1, true);
  for_each_cpu(
      [&](Cpu& device) {
        BOOST_TEST(first_difference(at_once(p, op_on<Policy>(device)).view(), p.values.view()) == -1);
      },
      1);
}

// Rows whose window holds a key or value that is not finite see it; others do not.
BOOST_AUTO_TEST_CASE_TEMPLATE(nan_is_seen_within_its_window_only, Case, Cases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  for (const int window : {1, 20, 70}) {
    const auto p = with(AttentionProblem<E>(1, 200, 1, 1, 20), window, true);
    const Matrix truth = truth_of<Policy>(p);
    for (const int bad : {0, 16, 63, 64, 90}) {
      for (const auto wrong : {kNaN, std::numeric_limits<float>::infinity()}) {
        for (Matrix AttentionProblem<E>::*where : {&AttentionProblem<E>::keys, &AttentionProblem<E>::values}) {
          if (where == &AttentionProblem<E>::keys && std::isinf(wrong))
            continue;  // its score may be -infinity, which has no weight
          auto hostile = p;
          (hostile.*where).row(bad)[3] = wrong;
          const int end = std::min(p.length, bad + window);
          for_each_cpu(
              [&](Cpu& device) {
                const Matrix out = at_once(hostile, op_on<Policy>(device));
                BOOST_TEST(first_difference(out.view(0, bad), truth.view(0, bad)) == -1);
                BOOST_TEST(first_difference(out.view(end, p.length - end), truth.view(end, p.length - end)) == -1);
                for (int r = bad; r < end; ++r) BOOST_TEST(!std::isfinite(out.row(r)[3]));
              },
              1);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(slopes_of_zero_are_none, Case, Cases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  const AttentionProblem<E> p(1, 300, 3, 1, 20);
  auto flat = p;
  flat.slopes = {0.0f, 0.0f, 0x1p-20f};
  for_each_cpu(
      [&](Cpu& device) {
        const Matrix plain = at_once(p, op_on<Policy>(device)), sloped = at_once(flat, op_on<Policy>(device));
        for (int r = 0; r < p.length; ++r) BOOST_TEST(same_bits(plain.row(r), sloped.row(r), 2 * p.head_dim));
        BOOST_TEST(!same_bits(plain.row(299) + 2 * p.head_dim, sloped.row(299) + 2 * p.head_dim,
                              p.head_dim));  // the inverse test
      },
      1);
}

// slope * (t - position) is one more dimension in the chain of a score: the last, in which the key is t - position.
BOOST_AUTO_TEST_CASE_TEMPLATE(a_slope_is_one_dimension_more, Policy, Policies) {
  constexpr int length = 300, dim = 20;
  auto p = with(AttentionProblem<float>(1, length, 2, 2, dim), 0, true);
  p.scale = 0.25f;
  const Matrix sloped = truth_of<Policy>(p);
  for (const int row : {0, 15, 64, 200, 299}) {
    AttentionProblem<float> wider(1, length, 2, 2, dim + 1);
    wider.scale = p.scale;
    for (int r = 0; r < length; ++r) {
      for (int h = 0; h < 2; ++h) {
        for (auto [to, from] : {std::pair{&wider.q, &p.q}, {&wider.keys, &p.keys}, {&wider.values, &p.values}}) {
          std::memcpy(to->row(r) + h * (dim + 1), from->row(r) + h * dim, dim * sizeof(float));
        }
        wider.q.row(r)[h * (dim + 1) + dim] = p.slopes[static_cast<std::size_t>(h)] / p.scale;
        wider.keys.row(r)[h * (dim + 1) + dim] = static_cast<float>(r - row);
      }
    }
    for_each_cpu(
        [&](Cpu& device) {
          const Matrix out = at_once(wider, op_on<Policy>(device));
          for (int h = 0; h < 2; ++h)
            BOOST_TEST(same_bits(out.row(row) + h * (dim + 1), sloped.row(row) + h * dim, dim), name_of(device)
                                                                                                    << ", row " << row);
        },
        1);
  }
}

// Tolerance: as without slopes (attention.cpp), and one more rounding per score: slopes add at most 8, whose ulp is
// 1e-6.
BOOST_AUTO_TEST_CASE_TEMPLATE(agrees_with_the_reference, Case, Cases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  for (const auto& plain : problems<E>(1, 300)) {
    for (const auto& [window, sloped] : {std::pair{0, true}, {40, false}, {100, true}}) {
      const auto p = with(plain, window, sloped);
      const Matrix expected = at_once(p, [](const auto& args) { reference::attention(args); });
      const double tolerance = 2e-6 + 0x1p-24 * 8 * std::sqrt(p.head_dim);
      for (const Isa isa : isas()) {
        Cpu device({.threads = 2, .isa = isa});
        const auto difference = [&](auto&& change) {
          return largest_difference(at_once(p,
                                            [&](auto args) {
                                              change(args);
                                              attention(device, Policy{}, args);
                                            }),
                                    expected);
        };
        BOOST_TEST(difference([](auto&) {}) < tolerance);
        // The inverse tests: a window one position off, and slopes off by a hundredth, are detected.
        if (window > 0) BOOST_TEST(difference([](auto& args) { ++args.window; }) > tolerance);
        if (!sloped) continue;
        auto slopes = p.slopes;
        for (float& slope : slopes) slope *= 1.01f;
        BOOST_TEST(difference([&](auto& args) { args.slopes = slopes.data(); }) > tolerance);
      }
    }
  }
}

namespace {

// Biases of keys, and a sink for each head: one that takes nothing, one as large as a usual score, and larger ones.
template <class E>
AttentionProblem<E> with_biases_and_sinks(AttentionProblem<E> p, bool biased, bool sinks) {
  Random random(5);
  for (int i = 0; biased && i < p.heads * ((p.length + 63) / 64 * 64); ++i)
    p.key_biases.push_back(2 * random.uniform());
  for (int h = 0; sinks && h < p.heads; ++h) p.sinks.push_back(h == 0 ? -1000.0f : static_cast<float>(2 * h));
  return p;
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(rows_with_biases_and_sinks_are_the_same_in_any_chunks, Case, Cases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  const auto p = with_biases_and_sinks(AttentionProblem<E>(2, 330, 4, 2, 20), true, true);
  const Matrix truth = truth_of<Policy>(p);
  for_each_cpu([&](Cpu& device) {
    BOOST_TEST(first_difference(at_once(p, op_on<Policy>(device)).view(), truth.view()) == -1, name_of(device));
  });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(biases_and_sinks_agree_with_the_reference, Case, Cases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  for (const auto& plain : problems<E>(1, 300)) {
    for (const auto& [biased, sinks] : {std::pair{true, false}, {false, true}, {true, true}}) {
      const auto p = with_biases_and_sinks(plain, biased, sinks);
      const Matrix expected = at_once(p, [](const auto& args) { reference::attention(args); });
      const double tolerance = 4e-6 + 0x1p-24 * 8 * std::sqrt(p.head_dim);
      Cpu device({.threads = 2});
      const auto difference = [&](auto&& change) {
        return largest_difference(at_once(p,
                                          [&](auto args) {
                                            change(args);
                                            attention(device, Policy{}, args);
                                          }),
                                  expected);
      };
      BOOST_TEST(difference([](auto&) {}) < tolerance);
      // The inverse tests: without them the result is another.
      if (biased) BOOST_TEST(difference([](auto& args) { args.key_biases = nullptr; }) > tolerance);
      if (sinks && p.heads > 1) BOOST_TEST(difference([](auto& args) { args.sinks = nullptr; }) > tolerance);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
