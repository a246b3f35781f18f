// gate: each element depends on its own two inputs, whatever the batch, the threads or the instruction set.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cmath>

#include "helpers.h"
#include "tenon/ops/cpu/gate.h"
#include "tenon/ops/reference.h"

BOOST_AUTO_TEST_SUITE(ops_gate)

using namespace tenon;
using namespace tenon::test;

namespace {

constexpr std::array kActivations = {Activation::none, Activation::gelu_new,   Activation::gelu, Activation::relu,
                                     Activation::silu, Activation::quick_gelu, Activation::relu2};

Matrix inputs(int n) { return random_matrix(kMostRows, 2 * n, 1, 2 * n + 3, 8.0f); }

// The same by linear's activation and one product.
Matrix expected_of(const Matrix& x, Activation activation) {
  const int n = x.cols / 2;
  Matrix y(x.rows, n, n);
  for (int r = 0; r < x.rows; ++r) {
    std::memcpy(y.row(r), x.row(r), static_cast<std::size_t>(n) * sizeof(float));
    cpu::kernels_for(Isa::portable).activate_row(y.row(r), n, activation);
    for (int i = 0; i < n; ++i) y.row(r)[i] *= x.row(r)[n + i];
  }
  return y;
}

}  // namespace

BOOST_AUTO_TEST_CASE(rows_are_the_same_in_any_batch_on_any_threads_and_instructions) {
  for (const int n : kWidths) {
    for (const Activation activation : {Activation::silu, Activation::gelu}) {
      const Matrix x = inputs(n), expected = expected_of(x, activation);
      for_each_cpu(
          [&](Cpu& device) {
            for (const int rows : kRows) {
              const int first = rows * 7 % (kMostRows - rows + 1);
              Matrix y(rows, n, n + 5);
              gate(device, {.x = x.view(first, rows), .activation = activation, .y = y.view()});
              BOOST_TEST(first_difference(y.view(), expected.view(first, rows)) == -1,
                         name_of(device) << ": " << rows << " rows of " << n);
              BOOST_TEST(gaps_untouched(y));
            }
          },
          n == 768 ? 1 : 4);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_gate_s_own_place_may_take_the_result) {
  for (const int n : kWidths) {
    for (const Activation activation : kActivations) {
      const Matrix x = inputs(n), expected = expected_of(x, activation);
      for_each_cpu(
          [&](Cpu& device) {
            Matrix both = x;
            const MatrixView<float> y{both.row(0), both.rows, n, both.stride};
            gate(device, {.x = both.view(), .activation = activation, .y = y});
            BOOST_TEST(first_difference(y, expected.view()) == -1, name_of(device) << ", width " << n);
            for (int r = 0; r < both.rows; ++r)
              BOOST_TEST(same_bits(both.row(r) + n, x.row(r) + n, n));  // up is unchanged
            BOOST_TEST(gaps_untouched(both));
          },
          2);
    }
  }
}

// Tolerance: the activation's own, at most 2.5 in 2^-24 of its argument (math.cpp; silu's is a share of itself, which
// is less; relu2 grows as its square), and the product's rounding.
BOOST_AUTO_TEST_CASE(agrees_with_the_reference) {
  const int n = 77;
  const Matrix x = inputs(n);
  for (const Activation activation : kActivations) {
    Matrix expected(kMostRows, n, n);
    reference::gate({.x = x.view(), .activation = activation, .y = expected.view()});
    const auto within = [&](Cpu& device, Activation other) {
      Matrix y(kMostRows, n, n);
      gate(device, {.x = x.view(), .activation = other, .y = y.view()});
      for (int r = 0; r < kMostRows; ++r) {
        for (int i = 0; i < n; ++i) {
          const double size = activation == Activation::relu2 ? std::max(1.0, std::fabs(double{x.row(r)[i]})) : 1;
          const double most = 0x1p-24 * 4 * size * std::fabs(double{x.row(r)[i]} * x.row(r)[n + i]);
          if (!(std::fabs(double{y.row(r)[i]} - expected.row(r)[i]) <= most)) return false;
        }
      }
      return true;
    };
    for_each_cpu(
        [&](Cpu& device) {
          for (const Activation other : kActivations) BOOST_TEST(within(device, other) == (other == activation));
        },
        1);
  }
}

BOOST_AUTO_TEST_CASE(nan_stays_where_it_is) {
  const int n = 20;
  const Matrix x = inputs(n), expected = expected_of(x, Activation::silu);
  Matrix hostile = x;
  hostile.row(1)[3] = hostile.row(2)[n + 4] = std::numeric_limits<float>::quiet_NaN();
  for_each_cpu(
      [&](Cpu& device) {
        Matrix y(kMostRows, n, n);
        gate(device, {.x = hostile.view(), .activation = Activation::silu, .y = y.view()});
        for (int r = 0; r < kMostRows; ++r) {
          for (int i = 0; i < n; ++i) {
            if ((r == 1 && i == 3) || (r == 2 && i == 4))
              BOOST_TEST(std::isnan(y.row(r)[i]));
            else
              BOOST_TEST(same_bits(y.row(r) + i, expected.row(r) + i, 1));
          }
        }
      },
      1);
}

BOOST_AUTO_TEST_CASE(zero_rows_write_nothing) {
  Cpu device({.threads = 2});
  const Matrix x = inputs(16);
  Matrix y(1, 16, 16);
  gate(device, {.x = x.view(0, 0), .activation = Activation::silu, .y = y.view()});
  BOOST_TEST(y.row(0)[0] == kGap);
}

BOOST_AUTO_TEST_SUITE_END()
