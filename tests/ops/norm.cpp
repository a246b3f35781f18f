// layer_norm and rms_norm: sums run in 16 strips whatever the batch, the threads or the instruction set. And clamp.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>

#include "helpers.h"
#include "tenon/ops/cpu/norm.h"
#include "tenon/ops/reference.h"

BOOST_AUTO_TEST_SUITE(ops_norm)

using namespace tenon;
using namespace tenon::test;

namespace {

constexpr float kEpsilon = 1e-5f;

struct Problem {
  int width;
  Matrix x, gain, bias;
  explicit Problem(int n, float offset = 0)
      : width(n), x(random_matrix(kMostRows, n, 1, n + 3)), gain(random_matrix(1, n, 2)), bias(random_matrix(1, n, 3)) {
    for (int r = 0; r < kMostRows; ++r) {
      for (int c = 0; c < n; ++c) x.row(r)[c] += offset;
    }
  }
  Matrix output(int rows) const { return Matrix(rows, width, width + 5); }
};

struct LayerNorm {
  using Args = LayerNormArgs;
  static Args args(const Problem& p, MatrixView<const float> x, const Matrix& y) {
    return {.x = x, .gain = p.gain.row(0), .bias = p.bias.row(0), .epsilon = kEpsilon, .y = y.view()};
  }
  static Args args(const Problem& p, int first, int rows, const Matrix& y) { return args(p, p.x.view(first, rows), y); }
  static void run(Cpu& device, const Args& a) { layer_norm(device, a); }
  static void refer(const Args& a) { reference::layer_norm(a); }
};

struct RmsNorm {
  using Args = RmsNormArgs;
  static Args args(const Problem& p, MatrixView<const float> x, const Matrix& y) {
    return {.x = x, .gain = p.gain.row(0), .epsilon = kEpsilon, .y = y.view()};
  }
  static Args args(const Problem& p, int first, int rows, const Matrix& y) { return args(p, p.x.view(first, rows), y); }
  static void run(Cpu& device, const Args& a) { rms_norm(device, a); }
  static void refer(const Args& a) { reference::rms_norm(a); }
};

using Norms = std::tuple<LayerNorm, RmsNorm>;

// A change that a check must detect.
struct Change {
  Isa isa;
  float epsilon = 1;
  const float* gain = nullptr;  // [width]
  void operator()(auto& args) const {
    args.epsilon *= epsilon;
    if (gain) args.gain = gain;
  }
};

// Each row alone, in plain C++.
template <class Norm>
Matrix alone(const Problem& p) {
  Cpu device({.threads = 1, .isa = Isa::portable});
  Matrix all(kMostRows, p.width, p.width);
  for (int r = 0; r < kMostRows; ++r) {
    Matrix y = p.output(1);
    Norm::run(device, Norm::args(p, r, 1, y));
    std::memcpy(all.row(r), y.row(0), static_cast<std::size_t>(p.width) * sizeof(float));
  }
  return all;
}

template <class Norm, class Op>
int first_variant_batch(const Problem& p, const Matrix& truth, Op&& op) {
  for (const int rows : kRows) {
    const int first = rows * 7 % (kMostRows - rows + 1);
    Matrix y = p.output(rows);
    op(Norm::args(p, first, rows, y));
    if (first_difference(y.view(), truth.view(first, rows)) >= 0 || !gaps_untouched(y)) return rows;
  }
  return 0;
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(rows_are_the_same_in_any_batch_on_any_threads_and_instructions, Norm, Norms) {
  for (const int width : kWidths) {
    const Problem p(width);
    const Matrix truth = alone<Norm>(p);
    for_each_cpu([&](Cpu& device) {
      const int bad = first_variant_batch<Norm>(p, truth, [&](const auto& args) { Norm::run(device, args); });
      BOOST_TEST(bad == 0, name_of(device) << ": width " << width << " differs in a batch of " << bad);
    });
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(in_place_is_the_same, Norm, Norms) {
  for (const int width : kWidths) {
    const Problem p(width);
    const Matrix truth = alone<Norm>(p);
    for_each_cpu([&](Cpu& device) {
      Matrix x = p.x;
      Norm::run(device, Norm::args(p, x.view(), x));
      BOOST_TEST(first_difference(x.view(), truth.view()) == -1);
      BOOST_TEST(gaps_untouched(x));
    });
  }
}

// The inverse test. vLLM's RMSNorm took another block size from 256 rows on, and answers changed (vllm#48271).
BOOST_AUTO_TEST_CASE(a_norm_whose_strips_follow_the_batch_is_caught) {
  const Problem p(77);
  const Matrix truth = alone<LayerNorm>(p);
  // Explicit fused steps: no compiler flag can make this another sum.
  const auto with_strips = [](const LayerNormArgs& args, int strips) {
    const int n = args.x.cols;
    const auto sum_of = [&](auto&& add) {
      float strip[32] = {};
      for (int c = 0; c < n; ++c) strip[c % strips] = add(strip[c % strips], c);
      for (int width = strips / 2; width > 0; width /= 2) {
        for (int i = 0; i < width; ++i) strip[i] += strip[i + width];
      }
      return strip[0] / static_cast<float>(n);
    };
    for (int r = 0; r < args.x.rows; ++r) {
      const float* x = args.x.row(r);
      const float mean = sum_of([&](float sum, int c) { return sum + x[c]; });
      const float variance = sum_of([&](float sum, int c) { return std::fma(x[c] - mean, x[c] - mean, sum); });
      const float inverse = 1.0f / std::sqrt(variance + args.epsilon);
      for (int c = 0; c < n; ++c) args.y.row(r)[c] = std::fma((x[c] - mean) * inverse, args.gain[c], args.bias[c]);
    }
  };
  BOOST_TEST(first_variant_batch<LayerNorm>(p, truth, [&](const LayerNormArgs& args) { with_strips(args, 16); }) == 0);
  BOOST_TEST(first_variant_batch<LayerNorm>(p, truth, [&](const LayerNormArgs& args) { with_strips(args, 8); }) > 0);
  BOOST_TEST(first_variant_batch<LayerNorm>(
                 p, truth, [&](const LayerNormArgs& args) { with_strips(args, args.x.rows < 64 ? 16 : 32); }) == 64);
}

// Tolerance: the sums are 16 strips of n / 16 additions and a tree of 4. A mean is off by at most (n / 16 + 5) u of the
// mean magnitude, and the quotient carries that over: (n / 16 + 16) u of the normalised magnitude, u = 2^-24.
BOOST_AUTO_TEST_CASE_TEMPLATE(agrees_with_the_reference, Norm, Norms) {
  for (const int width : kWidths) {
    for (const float offset : {0.0f, 3.0f}) {
      const Problem p(width, offset);
      Matrix expected = p.output(kMostRows);
      Norm::refer(Norm::args(p, 0, kMostRows, expected));
      const auto within = [&](auto&& change) {
        Cpu device({.threads = 1, .isa = change.isa});
        Matrix y = p.output(kMostRows);
        auto args = Norm::args(p, 0, kMostRows, y);
        change(args);
        Norm::run(device, args);
        // A row of one value, or of equal values, has no deviation: x - mean is rounding noise over sqrt(epsilon).
        const double noise = 0x1p-24 * (width / 16.0 + 16) * (1 + std::fabs(double{offset})) /
                             (width == 1 ? std::sqrt(double{kEpsilon}) : 0.2);
        for (int r = 0; r < kMostRows; ++r) {
          for (int c = 0; c < width; ++c) {
            const double e = expected.row(r)[c];
            if (!(std::fabs(y.row(r)[c] - e) <= noise + 0x1p-22 * std::fabs(e))) return false;
          }
        }
        return true;
      };
      for (const Isa isa : isas()) {
        BOOST_TEST(within(Change{isa}), to_string(isa) << ", width " << width);
        // The inverse test: an epsilon 1000 times as large, or a gain off by a thousandth, is detected.
        if (width == 1) continue;
        BOOST_TEST(!within(Change{isa, 1000}));
        Matrix gain = p.gain;
        for (int c = 0; c < width; ++c) gain.row(0)[c] *= 1.001f;
        BOOST_TEST(!within(Change{isa, 1, gain.row(0)}));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_row_without_deviation_is_the_bias) {
  for (const int width : kWidths) {
    const Problem p(width);
    Matrix x(5, width, width, 0.5f);
    for_each_cpu(
        [&](Cpu& device) {
          Matrix y = p.output(5);
          layer_norm(device, LayerNorm::args(p, x.view(), y));
          for (int r = 0; r < 5; ++r) BOOST_TEST(same_bits(y.row(r), p.bias.row(0), width));
        },
        1);
  }
}

// Powers of two are exact throughout: rows of +-2^k whose mean square is 4^k are +-gain, and zeros stay zeros.
BOOST_AUTO_TEST_CASE(a_row_of_one_magnitude_is_the_gain) {
  for (const int width : {1, 4, 16, 64, 128}) {
    const Problem p(width);
    Matrix x(5, width, width), y = p.output(5);
    for (int r = 0; r < 5; ++r) {
      for (int c = 0; c < width; ++c) x.row(r)[c] = r == 4 ? 0.0f : std::ldexp(c % 3 ? 1.0f : -1.0f, 3 * r);
    }
    for_each_cpu(
        [&](Cpu& device) {
          rms_norm(device, {.x = x.view(), .gain = p.gain.row(0), .epsilon = 0x1p-60f, .y = y.view()});
          for (int r = 0; r < 5; ++r) {
            for (int c = 0; c < width; ++c)
              BOOST_TEST(y.row(r)[c] == (r == 4 ? 0.0f : c % 3 ? p.gain.row(0)[c] : -p.gain.row(0)[c]));
          }
        },
        1);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_neighbour_of_nan_changes_nothing, Norm, Norms) {
  const Problem p(77);
  const Matrix truth = alone<Norm>(p);
  Problem hostile(77);
  for (int r = 1; r < kMostRows; r += 2) hostile.x.row(r)[r % 77] = std::numeric_limits<float>::quiet_NaN();
  for_each_cpu([&](Cpu& device) {
    Matrix y = p.output(kMostRows);
    Norm::run(device, Norm::args(hostile, 0, kMostRows, y));
    for (int r = 0; r < kMostRows; r += 2) BOOST_TEST(same_bits(y.row(r), truth.row(r), 77));
    BOOST_TEST(std::isnan(y.row(1)[0]));
  });
}

BOOST_AUTO_TEST_CASE(a_clamped_row_stays_within_its_bound) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), most = std::numeric_limits<float>::infinity();
  for_each_cpu([&](Cpu& device) {
    Matrix x(kMostRows, 7, 12);
    for (int r = 0; r < kMostRows; ++r)
      std::ranges::copy(std::array{-most, -2.5f, -1.0f, 0.5f, 2.5f, most, nan}, x.row(r));
    clamp(device, {x.view(), 2.0f});
    for (int r = 0; r < kMostRows; ++r) {
      const std::array expected{-2.0f, -2.0f, -1.0f, 0.5f, 2.0f, 2.0f};
      BOOST_TEST(std::equal(expected.begin(), expected.end(), x.row(r)));
      BOOST_TEST(std::isnan(x.row(r)[6]));
    }
    BOOST_TEST(gaps_untouched(x));
  });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(zero_rows_write_nothing, Norm, Norms) {
  const Problem p(16);
  Cpu device({.threads = 2});
  Matrix y = p.output(1);
  Norm::run(device, Norm::args(p, 0, 0, y));
  BOOST_TEST(y.row(0)[0] == kGap);
}

BOOST_AUTO_TEST_SUITE_END()
