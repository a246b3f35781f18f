// mixture: a row's bits depend on its own row, not on the rows that share its experts; ties go to the lower id.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <set>

#include "mixture_problem.h"
#include "tenon/ops/cpu/mixture.h"

BOOST_AUTO_TEST_SUITE(ops_mixture)

using namespace tenon;
using namespace tenon::test;

namespace {

struct Problem : MixtureProblem<Float32> {
  using MixtureProblem::MixtureProblem;
  Problem(MixtureProblem&& p) : MixtureProblem(std::move(p)) {}

  std::vector<float> choice_bias;  // [experts]; empty: none
  float scale = 1, epsilon = 0;

  // The rows first .. first + rows - 1, added to their start.
  Matrix run(Cpu& device, int first, int rows) const {
    const int pairs = rows * chosen;
    Matrix y(rows, hidden, hidden + 5), px(pairs, hidden, hidden), out(pairs, hidden, hidden + 1),
        both(pairs, 2 * inner, 2 * inner);
    for (int r = 0; r < rows; ++r)
      std::memcpy(y.row(r), start.row(first + r), static_cast<std::size_t>(hidden) * sizeof(float));
    ExpertMemory memory{px.view(), out.view(), both.view(), {}, {}};
    mixture(device, MixtureArgs<View>{x.view(first, rows), router.row(0), router_bias.row(0), parts, nullptr, chosen,
                                      kind, gate, &memory, y.view(), choice_bias.empty() ? nullptr : choice_bias.data(),
                                      scale, epsilon});
    BOOST_TEST(gaps_untouched(y));
    return y;
  }

  Matrix alone() const {
    Cpu device({.threads = 1, .isa = Isa::portable});
    Matrix all(kMostRows, hidden, hidden);
    for (int r = 0; r < kMostRows; ++r) {
      const Matrix y = run(device, r, 1);
      std::memcpy(all.row(r), y.row(0), static_cast<std::size_t>(hidden) * sizeof(float));
    }
    return all;
  }
};

double dot(const float* a, const float* b, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

// The scores of a row: softmax over all, or sigmoids. chosen_softmax: the exponentials alone.
std::vector<double> scores_of(const Problem& p, int row) {
  std::vector<double> scores;
  double all = 0;
  for (int e = 0; e < p.experts; ++e) {
    const double logit = dot(p.x.row(row), p.router.row(e), p.hidden) + p.router_bias.row(0)[e];
    scores.push_back(p.kind >= RouterKind::sigmoid ? 1 / (1 + std::exp(-logit)) : std::exp(logit));
    all += scores.back();
  }
  if (p.kind == RouterKind::softmax || p.kind == RouterKind::normalised)
    for (double& score : scores) score /= all;
  return scores;
}

// The experts of a row by score plus bias, ties to the lower id, and their weights.
std::vector<std::pair<int, double>> choices(const Problem& p, int row) {
  const std::vector<double> scores = scores_of(p, row);
  std::vector<std::pair<double, int>> order;
  for (int e = 0; e < p.experts; ++e) {
    const auto at = static_cast<std::size_t>(e);
    order.push_back({-scores[at] - (p.choice_bias.empty() ? 0.0 : static_cast<double>(p.choice_bias[at])), e});
  }
  std::sort(order.begin(), order.end());
  const bool divides = p.kind != RouterKind::softmax && p.kind != RouterKind::sigmoid;
  double sum = divides ? 0 : 1;
  std::vector<std::pair<int, double>> out;
  for (int i = 0; i < p.chosen; ++i) {
    const int e = order[static_cast<std::size_t>(i)].second;
    out.push_back({e, scores[static_cast<std::size_t>(e)]});
    if (divides) sum += out.back().second;
  }
  if (p.kind == RouterKind::normalised) sum = std::max(sum, static_cast<double>(p.epsilon));
  if (p.kind == RouterKind::normalised_sigmoid) sum += static_cast<double>(p.epsilon);
  for (auto& [e, weight] : out) weight *= static_cast<double>(p.scale) / sum;
  return out;
}

// In double precision.
std::vector<double> expected_row(const Problem& p, int row) {
  std::vector<double> y(p.start.row(row), p.start.row(row) + p.hidden);
  for (const auto& [e, weight] : choices(p, row)) {
    const auto at = static_cast<std::size_t>(e);
    std::vector<float> inner;
    for (int i = 0; i < p.inner; ++i) {
      double g = dot(p.ups[at].row(i), p.x.row(row), p.hidden) + p.up_biases[at].row(0)[i];
      double u = dot(p.ups[at].row(p.inner + i), p.x.row(row), p.hidden) + p.up_biases[at].row(0)[p.inner + i];
      if (p.gate.limit > 0) {
        g = std::min(g, static_cast<double>(p.gate.limit));
        u = std::clamp(u, -static_cast<double>(p.gate.limit), static_cast<double>(p.gate.limit)) + 1;
      }
      inner.push_back(static_cast<float>(g / (1 + std::exp(-static_cast<double>(p.gate.steepness) * g)) * u));
    }
    for (int o = 0; o < p.hidden; ++o) {
      y[static_cast<std::size_t>(o)] +=
          weight * (dot(p.downs[at].row(o), inner.data(), p.inner) + p.down_biases[at].row(0)[o]);
    }
  }
  return y;
}

double largest_difference(const Problem& p, const Matrix& all) {
  double most = 0;
  for (int r = 0; r < all.rows; ++r) {
    const auto expected = expected_row(p, r);
    for (int c = 0; c < p.hidden; ++c)
      most = std::max(most, std::abs(all.row(r)[c] - expected[static_cast<std::size_t>(c)]));
  }
  return most;
}

std::vector<Problem> problems() {
  std::vector<Problem> all;
  for (auto& problem : mixture_problems()) all.emplace_back(std::move(problem));
  for (const RouterKind kind : {RouterKind::sigmoid, RouterKind::normalised_sigmoid, RouterKind::normalised}) {
    all.emplace_back(48, 40, 8, 3, kind);
    all.emplace_back(48, 40, 8, 3, kind);
    Problem& biased = all.back();
    for (int e = 0; e < biased.experts; ++e) biased.choice_bias.push_back(e % 3 == 0 ? 0.6f : -0.2f);
    biased.scale = 1.7f, biased.epsilon = kind == RouterKind::normalised ? 0.9f : 0.1f;
  }
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(rows_are_the_same_in_any_batch_on_any_threads_and_instructions) {
  for (const Problem& p : problems()) {
    const Matrix truth = p.alone();
    for_each_cpu(
        [&](Cpu& device) {
          for (const int rows : {1, 2, 3, 5, 8, 17, 64, 129}) {
            const int first = rows * 7 % (kMostRows - rows + 1);
            BOOST_TEST(first_difference(p.run(device, first, rows).view(), truth.view(first, rows)) == -1,
                       name_of(device) << ": " << rows << " rows of " << p.hidden);
          }
        },
        3);
  }
}

// Tolerance: sums of 48 to 77 products below 1 in float32, twice, then weights that add up to at most 1.
BOOST_AUTO_TEST_CASE(agrees_with_a_reference_in_double_precision) {
  for (Problem& p : problems()) {
    BOOST_TEST(largest_difference(p, p.alone()) < 1e-4);
    // The inverse tests: another weighting, choice, factor, gate and another number of experts are detected.
    Problem other = p;
    if (!p.choice_bias.empty()) {
      other.choice_bias.clear();
      BOOST_TEST(largest_difference(other, p.alone()) > 1e-3);
      other = p, other.scale = 1;
      BOOST_TEST(largest_difference(other, p.alone()) > 1e-3);
      other = p, other.epsilon = 0;
      BOOST_TEST((largest_difference(other, p.alone()) > 1e-3) == (p.kind != RouterKind::sigmoid));
      other = p;
    }
    other.kind = p.kind == RouterKind::softmax ? RouterKind::normalised : RouterKind::softmax;
    if (p.chosen < p.experts) BOOST_TEST(largest_difference(other, p.alone()) > 1e-3);
    other = p;
    other.gate.limit = p.gate.limit > 0 ? 0 : 0.5f;
    BOOST_TEST(largest_difference(other, p.alone()) > 1e-3);
    other = p;
    --other.chosen;
    if (p.chosen > 1) BOOST_TEST(largest_difference(other, p.alone()) > 1e-3);
  }
}

BOOST_AUTO_TEST_CASE(ties_go_to_the_lower_id) {
  Problem p(16, 16, 6, 2, RouterKind::normalised);
  for (int e = 0; e < p.experts; ++e) {
    p.router_bias.row(0)[e] = e % 2 == 1 ? 1.0f : 0.0f;  // experts 1, 3 and 5 tie
    std::fill_n(p.router.row(e), p.hidden, 0.0f);
  }
  Problem chosen = p;
  chosen.router_bias.row(0)[5] = 0;
  BOOST_TEST(same_bits(p.alone(), chosen.alone()));
  chosen.router_bias.row(0)[1] = 0, chosen.router_bias.row(0)[5] = 1;
  BOOST_TEST(!same_bits(p.alone(), chosen.alone()));
}

// A broken row may not break its neighbours, and stays broken itself.
BOOST_AUTO_TEST_CASE(a_row_that_is_not_finite_changes_no_other) {
  for (const float limit : {0.0f, 2.0f}) {
    Problem p(48, 40, 8, 3, RouterKind::normalised, {Activation::silu, limit});
    const Matrix truth = p.alone();
    p.x.row(3)[5] = std::numeric_limits<float>::quiet_NaN();
    Cpu device({.threads = 2});
    const Matrix y = p.run(device, 0, 9);
    for (int r = 0; r < 9; ++r) BOOST_TEST(same_bits(y.row(r), truth.row(r), p.hidden) == (r != 3));
    BOOST_TEST(std::isnan(y.row(3)[0]));
    // Nor does a bias that is not finite break the order of a choice.
    p.x.row(3)[5] = 0;
    p.choice_bias.assign(8, std::numeric_limits<float>::quiet_NaN());
    BOOST_TEST(std::isnan(p.run(device, 0, 9).row(3)[0]));
    // NaN passes a clamped gate.
    float gate[3] = {1, NAN, 2}, up[3] = {NAN, 1, 2};
    cpu::kernels_for(device.isa()).clamped_gate_row(gate, up, 3, 7, 1.702f, gate);
    BOOST_TEST((std::isnan(gate[0]) && std::isnan(gate[1]) && !std::isnan(gate[2])));
  }
}

BOOST_AUTO_TEST_CASE(gates_of_rows_are_sigmoids_of_products) {
  const int n = 77, width = 33;
  const Matrix x = random_matrix(kMostRows, n, 1, n + 3), weights = random_matrix(1, n, 2);
  const Matrix start = random_matrix(kMostRows, width, 3, width + 5);
  Cpu one({.threads = 1, .isa = Isa::portable});
  Matrix truth = start;
  for (int r = 0; r < kMostRows; ++r) gate_rows(one, {x.view(r, 1), weights.row(0), truth.view(r, 1)});
  for (int r = 0; r < kMostRows; ++r) {
    const double gate = 1 / (1 + std::exp(-dot(x.row(r), weights.row(0), n)));
    for (int c = 0; c < width; ++c) BOOST_TEST(std::abs(truth.row(r)[c] - gate * start.row(r)[c]) < 1e-5);
  }
  for_each_cpu(
      [&](Cpu& device) {
        for (const int rows : {1, 3, 8, kMostRows - 2}) {
          Matrix y = start;
          gate_rows(device, {x.view(2, rows), weights.row(0), y.view(2, rows)});
          BOOST_TEST(first_difference(y.view(2, rows), truth.view(2, rows)) == -1, name_of(device) << ": " << rows);
          BOOST_TEST(same_bits(y.row(1), start.row(1), width));
        }
      },
      3);
}

BOOST_AUTO_TEST_CASE(positions_are_added_to_each_row) {
  const int n = 77;
  const Matrix table = random_matrix(20, n, 1), x = random_matrix(9, n, 2, n + 3);
  std::vector<int> positions = {0, 19, 3, 3, 4, 5, 6, 7, 8};
  Cpu device({.threads = 2});
  Matrix y = x;
  BatchView batch{};
  batch.positions = positions.data();
  batch.rows = 9;
  add_positions(device, {batch, table.row(0), y.view()});
  for (int r = 0; r < 9; ++r) {
    for (int c = 0; c < n; ++c)
      BOOST_TEST(y.row(r)[c] == x.row(r)[c] + table.row(positions[static_cast<std::size_t>(r)])[c]);
  }
}

BOOST_AUTO_TEST_SUITE_END()
