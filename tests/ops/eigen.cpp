// reference.h, the oracle of the ops, against the same formulas in Eigen's double precision, one expression each.
//
// Both sides sum in double. The reference rounds once to float32: u |y|, u = 2^-24. Two double sums of n terms differ
// by at most 2 n v sum |terms|, v = 2^-53 (Higham, 2002, section 3.1). Sums in float32 do not meet that bound: an
// inverse test beside each test shows it.
#define BOOST_TEST_MODULE ops_eigen
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <numbers>

#include "attention_problem.h"
#include "linear_problem.h"
#include "low_rank_problem.h"
#include "tenon/eigen.h"
#include "tenon/ops/reference.h"
#include "tenon/weights/int8.h"

BOOST_AUTO_TEST_SUITE(ops_eigen)

using namespace tenon;
using namespace tenon::test;

namespace {

using Doubles = EigenMatrix<double>;
constexpr double kU = 0x1p-24, kV = 0x1p-53;

Doubles doubles(const MatrixView<const float>& view) { return as_eigen(view).cast<double>(); }
Doubles doubles(const Matrix& m) { return doubles(MatrixView<const float>(m.view())); }

// Whether each element lies within its last rounding to float32 and `slack` of the expected value. NaN never does.
bool within(const Matrix& got, const Doubles& expected, const Doubles& slack) {
  const Doubles bound = kU * expected.cwiseAbs() + slack;
  return ((doubles(got) - expected).array().abs() <= bound.array() + 0x1p-149).all();  // 2^-149: the smallest float32
}

// ---------------------------------------------------------------- products
template <class View>
Doubles dense(const View& weight, int outputs, int inputs) {
  return Doubles::NullaryExpr(outputs, inputs, [&](Eigen::Index o, Eigen::Index k) {
    return static_cast<double>(weight.at(static_cast<int>(o), static_cast<int>(k)));
  });
}

double gelu_new(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
double relu(double x) { return x > 0 ? x : 0; }
double silu(double x) { return x / (1 + std::exp(-x)); }
double quick_gelu(double x) { return x / (1 + std::exp(-1.702 * x)); }
double relu2(double x) { return relu(x) * relu(x); }

Doubles activated(const Doubles& y, Activation activation) {
  switch (activation) {
    case Activation::none:
      return y;
    case Activation::gelu_new:
      return y.unaryExpr(&gelu_new);
    case Activation::gelu:
      return y.unaryExpr(&gelu);
    case Activation::relu:
      return y.unaryExpr(&relu);
    case Activation::silu:
      return y.unaryExpr(&silu);
    case Activation::quick_gelu:
      return y.unaryExpr(&quick_gelu);
    case Activation::relu2:
      return y.unaryExpr(&relu2);
  }
  return y;
}

struct Product {
  Problem problem;
  Doubles w, x;

  template <class View>
  Product(const Problem& p, const View& weight) : problem(p), w(dense(weight, p.out, p.in)), x(doubles(p.x)) {}

  // activation(x W^T + bias + delta) + residual, [rows, outputs]
  Doubles value(const Epilogue& e) const {
    Doubles y = x * w.transpose();
    for (int r = 0; r < kMostRows; ++r) {
      const ProductChange change = e.changes ? problem.changes[static_cast<std::size_t>(r)] : ProductChange{};
      if (e.delta && problem.delta[static_cast<std::size_t>(r)]) y.row(r) += doubles(problem.deltas).row(r);
      for (int o = 0; change.gain && o < problem.out; ++o) y(r, o) *= change.gain[o];
      for (int o = 0; change.bias && o < problem.out; ++o) y(r, o) += change.bias[o];
      if (!change.bias && e.bias) y.row(r) += doubles(problem.bias).row(0);
    }
    y = activated(y, e.activation);
    return e.residual == Residual::none ? y : Doubles(y + doubles(problem.residual));
  }
  // Two sums of problem.in + 3 terms of magnitude sum |w x| + 3. An activation has a slope of at most 1.13 and rounds
  // in ten operations, of which 1 + tanh and 1 + erf lose what the value has below 1.
  Doubles slack() const {
    const Doubles magnitude = (x.cwiseAbs() * w.cwiseAbs().transpose()).array() + 3;
    return 2 * 1.13 * kV * (problem.in + 3 + 10) * magnitude;
  }
};

const Epilogue kMoreEpilogues[] = {{true, false, Activation::relu, Residual::none},
                                   {true, true, Activation::silu, Residual::other},
                                   {true, false, Activation::quick_gelu, Residual::none},
                                   {false, false, Activation::relu2, Residual::other}};

template <class P>
void check_products(int inputs, int outputs) {
  const Problem p(inputs, outputs);
  const Packed<P> packed(p.weight);
  const Product product(p, packed.view());
  const Doubles slack = product.slack();
  std::vector<Epilogue> epilogues(std::begin(kEpilogues), std::end(kEpilogues));
  epilogues.insert(epilogues.end(), std::begin(kMoreEpilogues), std::end(kMoreEpilogues));
  for (const Epilogue& e : epilogues) {
    Matrix y = p.output(kMostRows);
    reference::linear(p.args(packed.view(), e, 0, kMostRows, y));
    BOOST_TEST(within(y, product.value(e), slack),
               inputs << " -> " << outputs << ", activation " << static_cast<int>(e.activation));
    BOOST_TEST(gaps_untouched(y));
  }
  // Twins: one input missing, a bias missing, the other form of gelu, sums in float32.
  const Epilogue plain = kEpilogues[0], bias = kEpilogues[1], tanh_form = kEpilogues[3];
  Matrix y = p.output(kMostRows);
  auto args = p.args(packed.view(), plain, 0, kMostRows, y);
  args.x.cols -= 1;
  reference::linear(args);
  BOOST_TEST(!within(y, product.value(plain), slack));
  reference::linear(p.args(packed.view(), plain, 0, kMostRows, y));
  BOOST_TEST(!within(y, product.value(bias), slack));
  reference::linear(p.args(packed.view(), tanh_form, 0, kMostRows, y));
  BOOST_TEST(!within(y, product.value(kEpilogues[4]), slack));
  Cpu device({.threads = 1});
  linear(device, p.args(packed.view(), plain, 0, kMostRows, y));
  if (inputs > 4) BOOST_TEST(!within(y, product.value(plain), slack));
}

}  // namespace

BOOST_AUTO_TEST_CASE(products) {
  for (const int inputs : kWidths) {
    check_products<Float32>(inputs, 31);
    check_products<ZeroPointInt8>(inputs, 48);
  }
}

// ---------------------------------------------------------------- norms
namespace {

constexpr float kEpsilon = 1e-5f;

// Each row becomes (x - mean) / deviation * gain + bias. The mean is off by at most n v of the mean magnitude, and the
// quotient carries that over: (3 n + 8) v (|x| + mean |x|) / deviation * |gain|. The bias adds one rounding. On both
// sides.
struct Normed {
  Doubles value, slack;

  Normed(const Doubles& x, const Doubles& gain, const Doubles& bias, bool centred, double epsilon) {
    const Eigen::Index n = x.cols();
    const Eigen::ArrayXd mean = centred ? Eigen::ArrayXd(x.rowwise().mean()) : Eigen::ArrayXd::Zero(x.rows());
    const Eigen::ArrayXXd away = x.array().colwise() - mean;
    const Eigen::ArrayXd deviation = (away.square().rowwise().mean() + epsilon).sqrt();
    value = ((away.colwise() / deviation).rowwise() * gain.array().row(0)).rowwise() + bias.array().row(0);
    const Eigen::ArrayXXd magnitude = x.array().abs().colwise() + x.array().abs().rowwise().mean();
    slack = 2 * kV * static_cast<double>(3 * n + 8) *
            (((magnitude.colwise() / deviation).rowwise() * gain.array().row(0).abs()).rowwise() +
             bias.array().row(0).abs());
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(norms) {
  for (const int width : kWidths) {
    Matrix x = random_matrix(kMostRows, width, 1, width + 3);
    const Matrix gain = random_matrix(1, width, 2), bias = random_matrix(1, width, 3);
    as_eigen(x.view()).row(5).array() += 100.0f;  // a mean far above the deviation
    Matrix layer(kMostRows, width, width + 5), rms(kMostRows, width, width + 5);
    const auto run = [&](float epsilon) {
      reference::layer_norm(
          {.x = x.view(), .gain = gain.row(0), .bias = bias.row(0), .epsilon = epsilon, .y = layer.view()});
      reference::rms_norm({.x = x.view(), .gain = gain.row(0), .epsilon = epsilon, .y = rms.view()});
    };
    const Doubles nothing = Doubles::Zero(1, width);
    const Normed centred(doubles(x), doubles(gain), doubles(bias), true, double{kEpsilon}),
        uncentred(doubles(x), doubles(gain), nothing, false, double{kEpsilon});
    run(kEpsilon);
    BOOST_TEST(within(layer, centred.value, centred.slack), "width " << width);
    BOOST_TEST(within(rms, uncentred.value, uncentred.slack), "width " << width);
    BOOST_TEST((gaps_untouched(layer) && gaps_untouched(rms)));
    if (width == 1) continue;
    // Twins: an epsilon half as large again, n - 1 for n in the variance, float32 sums.
    BOOST_TEST(!within(rms, centred.value, centred.slack));
    run(1.5f * kEpsilon);
    BOOST_TEST(!within(layer, centred.value, centred.slack));
    BOOST_TEST(!within(rms, uncentred.value, uncentred.slack));
    const double bessel = width / (width - 1.0);
    const Normed sample(doubles(x) / std::sqrt(bessel), doubles(gain), doubles(bias), true, double{kEpsilon});
    run(kEpsilon);
    BOOST_TEST(!within(layer, sample.value, sample.slack));
    Cpu device({.threads = 1});
    layer_norm(device, LayerNormArgs{x.view(), gain.row(0), bias.row(0), kEpsilon, layer.view()});
    BOOST_TEST(!within(layer, centred.value, centred.slack));
  }
}

// ---------------------------------------------------------------- attention
namespace {

using StoredAs = std::tuple<float, bfloat16, float16>;

// softmax(scale q k^T + slope (t - position)) v, one sequence and head at a time, as whole matrices.
template <class E>
struct Attended {
  Doubles value, slack;

  Attended(const AttentionProblem<E>& p, int window, double slope_sign = 1) {
    const int n = p.length, d = p.head_dim;
    const auto stored = [](float x) { return static_cast<double>(static_cast<float>(static_cast<E>(x))); };
    value = slack = Doubles::Zero(p.sequences * n, p.heads * d);
    for (int s = 0; s < p.sequences; ++s) {
      for (int h = 0; h < p.heads; ++h) {
        const int shared = h / (p.heads / p.kv_heads);
        const Doubles q = doubles(p.q).block(s * n, h * d, n, d);
        const Doubles k = as_eigen(p.keys.view()).block(s * n, shared * d, n, d).unaryExpr(stored);
        const Doubles v = as_eigen(p.values.view()).block(s * n, shared * d, n, d).unaryExpr(stored);
        Doubles scores = double{p.scale} * q * k.transpose();  // [rows, keys]
        for (int r = 0; r < n; ++r) {
          for (int t = 0; t < n; ++t) {
            if (!p.slopes.empty()) scores(r, t) += slope_sign * p.slopes[static_cast<std::size_t>(h)] * (t - r);
            if (t > r || (window > 0 && t <= r - window)) scores(r, t) = -std::numeric_limits<double>::infinity();
          }
        }
        const Eigen::ArrayXd largest = scores.rowwise().maxCoeff();
        Eigen::ArrayXXd weights = (scores.array().colwise() - largest).exp();
        weights.colwise() /= Eigen::ArrayXd(weights.rowwise().sum());
        value.block(s * n, h * d, n, d) = weights.matrix() * v;
        // A score is off by (d + 4) v sum |q k| and the slope's share, a weight by twice that, relatively. The sums
        // over keys add n + 8 roundings. On both sides.
        const double off = (d + 4) * (double{p.scale} * (q.cwiseAbs() * k.cwiseAbs().transpose()).maxCoeff() + n);
        slack.block(s * n, h * d, n, d).setConstant(2 * kV * (2 * off + n + 8) * v.cwiseAbs().maxCoeff());
      }
    }
  }
};

template <class E>
void check_attention(AttentionProblem<E> p) {
  const auto refer = [](const auto& args) { reference::attention(args); };
  Matrix got = at_once(p, refer);
  const Attended<E> expected(p, p.window);
  BOOST_TEST(within(got, expected.value, expected.slack), "head_dim " << p.head_dim << ", window " << p.window);
  // Twins: a window one position shorter, slopes of the other sign, a scale off by 2^-20, float32.
  const Attended<E> narrower(p, (p.window > 0 ? p.window : p.length) - 1);
  BOOST_TEST(!within(got, narrower.value, narrower.slack));
  if (!p.slopes.empty()) {
    const Attended<E> mirrored(p, p.window, -1);
    BOOST_TEST(!within(got, mirrored.value, mirrored.slack));
  }
  AttentionProblem<E> sharper = p;
  sharper.scale *= 1 + 0x1p-20f;
  BOOST_TEST(!within(at_once(sharper, refer), expected.value, expected.slack));
  Cpu device({.threads = 1});
  BOOST_TEST(!within(at_once(p, op_on<FlashAttention>(device)), expected.value, expected.slack));
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(attention_of_every_shape, E, StoredAs) {
  for (AttentionProblem<E>& p : problems<E>(2, 70)) {
    check_attention(p);
    p.window = 19;
    check_attention(p);
    for (int h = 0; h < p.heads; ++h) p.slopes.push_back(std::ldexp(1.0f, -h - 2));
    check_attention(p);
    p.window = 0;
    check_attention(p);
  }
}

// ---------------------------------------------------------------- low-rank updates
namespace {

using low_rank_problem::random_update;
using low_rank_problem::TestAdapter;

// x A^T B^T scale in the update's outputs, by maps of the factors as kernels read them.
template <class T>
void add_update(const LowRank& update, const Doubles& x, bool magnitudes, Doubles& delta) {
  const auto strip = [&](const auto& m) -> Doubles {
    const Doubles widened = m.template cast<float>().template cast<double>();
    return magnitudes ? Doubles(widened.cwiseAbs()) : widened;
  };
  const Doubles u = update.scale * x * strip(as_eigen_a<T>(update, static_cast<int>(x.cols()))).transpose();
  for (int block = 0; block * kFactorBlock < update.outputs; ++block) {
    const Doubles b = strip(as_eigen_b<T>(update, block));  // [rank, width]
    delta.middleCols(update.first_output + block * kFactorBlock, b.cols()) += u * b;
  }
}

Doubles updated(const TestAdapter& adapter, const Doubles& x, int outputs, bool magnitudes) {
  Doubles delta = Doubles::Zero(x.rows(), outputs);
  for (const LowRank& update : adapter.updates) {
    if (update.type == FactorType::float32)
      add_update<float>(update, x, magnitudes, delta);
    else if (update.type == FactorType::float16)
      add_update<float16>(update, x, magnitudes, delta);
    else
      add_update<bfloat16>(update, x, magnitudes, delta);
  }
  return delta;
}

}  // namespace

BOOST_AUTO_TEST_CASE(low_rank_updates) {
  constexpr int kOutputs = 200, kSeen = 21;
  for (const FactorType type : low_rank_problem::kTypes) {
    for (const int inputs : {1, 17, 77, 768}) {
      TestAdapter adapter(
          inputs, std::vector{random_update(inputs, 3, 131, 12, 40, type), random_update(inputs, 70, 129, 3, 41, type)},
          type);
      low_rank_problem::Step s(inputs, kOutputs, kSeen);
      std::fill(s.sets.begin(), s.sets.end(), adapter.set.get());
      const auto groups = low_rank_problem::arranged(s, AnyLoRA::Kind::segmented);
      const auto run = [&](auto&& op) {
        low_rank_problem::Deltas d(s);
        op(LowRankArgs{.x = s.x.view(),
                       .groups = &groups,
                       .layer = 1,
                       .site = Site::qkv,
                       .delta = d.memory.view(),
                       .deltas = d.rows.data()});
        return d.memory;
      };
      const auto refer = [](const LowRankArgs& args) { reference::low_rank(args); };
      const Doubles x = doubles(s.x), expected = updated(adapter, x, kOutputs, false);
      // Two sums of `inputs` terms within sums of 15, and the scale.
      const Doubles slack = 2 * kV * (inputs + 15 + 4) * updated(adapter, x.cwiseAbs(), kOutputs, true);
      BOOST_TEST(within(run(refer), expected, slack), inputs << " inputs");
      // Twins: another scale, the last rank missing, float32.
      Cpu device({.threads = 1});
      BOOST_TEST(!within(run([&](const LowRankArgs& args) { low_rank(device, args); }), expected, slack));
      adapter.updates[0].scale *= 1 + 0x1p-20f;
      BOOST_TEST(!within(run(refer), expected, slack));
      adapter.updates[0].scale = adapter.plain[0].scale;
      adapter.updates[1].rank -= 1;
      BOOST_TEST(!within(run(refer), expected, slack));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
