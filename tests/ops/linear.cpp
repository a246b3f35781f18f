// linear and head: a row has the same bits in any batch, on any number of threads, with any instruction set.
#include <boost/test/unit_test.hpp>

#include <cmath>

#include "linear_problem.h"
#include "tenon/ops/cpu/head.h"
#include "tenon/ops/reference.h"

BOOST_AUTO_TEST_SUITE(ops_linear)

using namespace tenon;
using namespace tenon::test;

namespace {

struct Products : Problem {
  Packed<Float32> panels;
  Packed<ColumnMajor> columns;

  Products(int inputs, int outputs) : Problem(inputs, outputs), panels(weight), columns(weight) {}
};

Matrix alone(const Products& p, const Epilogue& e) { return alone(p, p.panels.view(), e); }

}  // namespace

BOOST_AUTO_TEST_CASE(rows_are_the_same_in_any_batch_on_any_threads_and_instructions) {
  int number = 0;
  for (const int in : kWidths) {
    for (const int out : kOutputs) {
      if (in == 768 && out != 5 && out != 131) continue;  // plain C++ is slow
      const Products p(in, out);
      // Two shapes take every epilogue, on four threads. The others take one epilogue each in turn; every fifth of them
      // runs on four threads, the rest on two.
      const bool all = (in == 64 && out == 48) || (in == 17 && out == 31);
      const int threads = all || number % 5 == 0 ? 4 : 2;
      for (int i = 0; i < (all ? static_cast<int>(std::size(kEpilogues)) : 1); ++i) {
        const Epilogue& e = kEpilogues[(number + i) % static_cast<int>(std::size(kEpilogues))];
        const Matrix truth = alone(p, e);
        for_each_cpu(
            [&](Cpu& device) {
              const int bad =
                  first_variant_batch(p, p.panels.view(), e, truth, [&](const auto& args) { linear(device, args); });
              BOOST_TEST(bad == 0, name_of(device) << ": " << in << " -> " << out << " differs in a batch of " << bad);
            },
            threads);
      }
      ++number;
    }
  }
}

// Packed formats compare with a definition in plain code, float32 with a product that has no epilogue.
BOOST_AUTO_TEST_CASE(the_epilogue_is_in_the_order_that_the_op_defines) {
  for (const int out : {5, 16, 48, 131}) {
    const Products p(77, out);
    const Matrix sums = alone(p, kEpilogues[0]);
    for (const Epilogue& e : kEpilogues)
      BOOST_TEST(first_difference(alone(p, e).view(), p.finished(sums, e).view()) == -1, out << " outputs");
  }
}

BOOST_AUTO_TEST_CASE(a_format_that_has_only_at_gives_the_bits_of_panels) {
  int number = 0;
  for (const int in : {1, 15, 77, 768}) {
    for (const int out : kOutputs) {
      if (in == 768 && out != 48) continue;
      const Products p(in, out);
      const int threads = in == 77 ? 4 : 2;
      const Epilogue& e = kEpilogues[number++ % static_cast<int>(std::size(kEpilogues))];
      const Matrix truth = alone(p, e);
      for_each_cpu(
          [&](Cpu& device) {
            const int bad =
                first_variant_batch(p, p.columns.view(), e, truth, [&](const auto& args) { linear(device, args); });
            BOOST_TEST(bad == 0, name_of(device) << ": " << in << " -> " << out << " differs in a batch of " << bad);
          },
          threads);
    }
  }
}

// The inverse test: the same comparison detects kernels whose order of summation depends on the batch.
BOOST_AUTO_TEST_CASE(a_kernel_that_splits_k_by_the_batch_is_caught) {
  const Products p(77, 31);
  const Epilogue plain = kEpilogues[0];
  const Matrix truth = alone(p, plain);
  const auto sum = [](const auto& args, auto&& one) {
    for (int r = 0; r < args.x.rows; ++r) {
      for (int o = 0; o < args.y.cols; ++o) args.y.row(r)[o] = one(args, r, o);
    }
  };
  const auto chain = [](const auto& args, int r, int o, int begin, int end) {
    float y = 0;
    for (int k = begin; k < end; ++k) y = std::fma(args.weight.at(o, k), args.x.row(r)[k], y);
    return y;
  };
  const auto halves = [&](const auto& args, int r, int o) {
    return chain(args, r, o, 0, args.x.cols / 2) + chain(args, r, o, args.x.cols / 2, args.x.cols);
  };
  const auto whole = [&](const auto& args, int r, int o) { return chain(args, r, o, 0, args.x.cols); };
  const auto by_batch = [&](const auto& args, int r, int o) {
    return args.x.rows < 65 ? whole(args, r, o) : halves(args, r, o);
  };
  const auto by_place = [&](const auto& args, int r, int o) { return r < 24 ? whole(args, r, o) : halves(args, r, o); };
  const auto unfused = [&](const auto& args, int r, int o) {
    float y = 0;
    for (int k = 0; k < args.x.cols; ++k) {
      const volatile float product = args.weight.at(o, k) * args.x.row(r)[k];
      y += product;
    }
    return y;
  };
  const auto caught = [&](auto&& one) {
    return first_variant_batch(p, p.columns.view(), plain, truth, [&](const auto& args) { sum(args, one); });
  };
  BOOST_TEST(caught(whole) == 0);  // the definition itself passes
  BOOST_TEST(caught(halves) == 1);
  BOOST_TEST(caught(by_batch) == 65);
  BOOST_TEST(caught(by_place) == 25);
  BOOST_TEST(caught(unfused) == 1);
}

// Tolerance: a chain of n fused multiply-adds errs by at most n u sum |w x|, u = 2^-24 (Higham, 2002, section 3.1).
// Bias, delta and residual add one rounding each. The activations have a slope of at most 1.13 and add a few ulps.
BOOST_AUTO_TEST_CASE(agrees_with_the_reference) {
  for (const int in : kWidths) {
    const Products p(in, 131);
    Matrix magnitude_x = p.x, magnitude_w = p.weight;
    for (int r = 0; r < kMostRows; ++r) {
      for (int k = 0; k < in; ++k) magnitude_x.row(r)[k] = std::fabs(p.x.row(r)[k]);
    }
    for (int o = 0; o < p.out; ++o) {
      for (int k = 0; k < in; ++k) magnitude_w.row(o)[k] = std::fabs(p.weight.row(o)[k]);
    }
    const Packed<Float32> magnitudes(magnitude_w);
    Matrix bound(kMostRows, p.out, p.out);
    reference::linear(
        LinearArgs<Float32::View>{.x = magnitude_x.view(), .weight = magnitudes.view(), .y = bound.view()});
    std::vector<Matrix> expected;
    for (const Epilogue& e : kEpilogues) {
      expected.push_back(p.output(kMostRows));
      reference::linear(p.args(p.columns.view(), e, 0, kMostRows, expected.back()));
    }
    // Whether all results of `op` are within the tolerance, for every epilogue.
    const auto within = [&](auto&& op) {
      for (std::size_t e = 0; e < std::size(kEpilogues); ++e) {
        Matrix y = p.output(kMostRows);
        op(p.args(p.panels.view(), kEpilogues[e], 0, kMostRows, y));
        for (int r = 0; r < kMostRows; ++r) {
          for (int o = 0; o < p.out; ++o) {
            const double tolerance = 0x1p-24 * (1.2 * (in + 4) * (bound.row(r)[o] + 3.0) + 8);
            if (!(std::fabs(double{y.row(r)[o]} - expected[e].row(r)[o]) <= tolerance)) return false;
          }
        }
      }
      return true;
    };
    for (const Isa isa : isas()) {
      Cpu device({.threads = 2, .isa = isa});
      BOOST_TEST(within([&](const auto& args) { linear(device, args); }), to_string(isa) << ", " << in << " inputs");
      // The inverse test: a missing last input, or a missing bias, is detected.
      BOOST_TEST(!within([&](auto args) {
        args.x.cols -= 1;
        if (args.x.cols > 0) linear(device, args);
      }));
      BOOST_TEST(!within([&](auto args) {
        args.bias = nullptr;
        linear(device, args);
      }));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_row_without_a_delta_keeps_its_minus_zero) {
  // One product too small for a float32: it rounds to -0.
  Matrix x(4, 1, 1, 0x1p-100f), w(16, 1, 1, -0x1p-100f), nothing(1, 16, 16, 0.0f);
  const Packed<Float32> weight(w);
  const float* const delta[] = {nullptr, nothing.row(0), nullptr, nothing.row(0)};
  for_each_cpu([&](Cpu& device) {
    for (int rows = 1; rows <= 4; ++rows) {
      Matrix y(rows, 16, 16);
      linear(device,
             LinearArgs<Float32::View>{.x = x.view(0, rows), .weight = weight.view(), .delta = delta, .y = y.view()});
      for (int r = 0; r < rows; ++r) {
        for (int o = 0; o < 16; ++o)
          BOOST_TEST((y.row(r)[o] == 0 && std::signbit(y.row(r)[o]) == (delta[r] == nullptr)));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_neighbour_of_nan_and_infinity_changes_nothing) {
  const Products p(77, 48);
  const Epilogue& e = kEpilogues[7];
  const Matrix truth = alone(p, e);
  Products hostile(77, 48);
  for (int r = 1; r < kMostRows; r += 2) {
    for (int k = 0; k < 77; ++k)
      hostile.x.row(r)[k] = k % 2 ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
    for (int o = 0; o < 48; ++o) hostile.deltas.row(r)[o] = std::numeric_limits<float>::quiet_NaN();
  }
  for_each_cpu([&](Cpu& device) {
    for (const int rows : kRows) {
      Matrix y = p.output(rows);
      linear(device, hostile.args(hostile.panels.view(), e, 0, rows, y));
      for (int r = 0; r < rows; r += 2) BOOST_REQUIRE(same_bits(y.row(r), truth.row(r), 48));
      for (int r = 1; r < rows; r += 2) BOOST_REQUIRE(std::isnan(y.row(r)[0]));
    }
  });
}

BOOST_AUTO_TEST_CASE(head_is_linear_without_an_epilogue) {
  const Products p(64, 131);
  for_each_cpu([&](Cpu& device) {
    for (const int rows : {1, 3, 8, 33}) {
      Matrix y = p.output(rows), logits = p.output(rows);
      linear(device, p.args(p.panels.view(), kEpilogues[0], 0, rows, y));
      head(device,
           HeadArgs<Float32::View>{.hidden = p.x.view(0, rows), .weight = p.panels.view(), .logits = logits.view()});
      BOOST_TEST(same_bits(y, logits));
    }
  });
}

BOOST_AUTO_TEST_CASE(zero_rows_write_nothing) {
  const Products p(16, 16);
  Cpu device({.threads = 2});
  Matrix y = p.output(1);
  linear(device, p.args(p.panels.view(), kEpilogues[1], 0, 0, y));
  linear(device, p.args(p.columns.view(), kEpilogues[1], 0, 0, y));
  BOOST_TEST(y.row(0)[0] == kGap);
}

BOOST_AUTO_TEST_SUITE_END()
