// exp, erf and the activations: their distance from the truth, and the same bits in every instruction set.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cmath>

#include "helpers.h"

BOOST_AUTO_TEST_SUITE(ops_math)

using namespace tenon;
using namespace tenon::test;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Every step-th float between two of the same sign, away from zero.
std::vector<float> floats_between(float near, float far, std::uint32_t step) {
  std::vector<float> all;
  for (std::uint64_t bits = std::bit_cast<std::uint32_t>(near); bits <= std::bit_cast<std::uint32_t>(far);
       bits += step) {
    all.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  return all;
}
std::vector<float> both_signs(std::vector<float> x) {
  const std::size_t n = x.size();
  for (std::size_t i = 0; i < n; ++i) x.push_back(-x[i]);
  return x;
}

std::vector<float> exp_of(const std::vector<float>& x, Isa isa = Isa::portable) {
  std::vector<float> y(x.size());
  cpu::kernels_for(isa).exp_row(x.data(), static_cast<int>(x.size()), y.data());
  return y;
}
std::vector<float> activated(std::vector<float> x, Activation activation, Isa isa = Isa::portable) {
  cpu::kernels_for(isa).activate_row(x.data(), static_cast<int>(x.size()), activation);
  return x;
}
std::vector<float> erf_of(const std::vector<float>& x) {
  std::vector<float> y;
  for (const float value : x) y.push_back(cpu::portable::erf(cpu::portable::broadcast(value)).v[5]);
  return y;
}

// Distance of y from the truth in units of the truth's last place.
long double ulps(float y, long double truth) {
  const int exponent = std::max(-149, truth == 0 ? -149 : std::ilogb(truth) - 23);
  return std::fabs(y - truth) / std::ldexp(1.0L, exponent);
}

struct Worst {
  long double error = 0;
  float at = 0;
};
template <class Truth, class Error>
Worst worst(const std::vector<float>& x, const std::vector<float>& y, Truth&& truth, Error&& error) {
  Worst w;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double e = error(x[i], y[i], truth(static_cast<long double>(x[i])));
    if (!(e <= w.error)) w = {e, x[i]};
  }
  return w;
}
const auto in_ulps = [](float, float y, long double truth) { return ulps(y, truth); };
// As a share of x, which matters in y = x * gate(x): the next layer sees y among values as large as x.
const auto of_argument = [](float x, float y, long double truth) {
  return std::fabs(y - truth) / (0x1p-24L * std::fabs(static_cast<long double>(x)));
};

constexpr std::array kActivations = {Activation::none, Activation::gelu_new,   Activation::gelu, Activation::relu,
                                     Activation::silu, Activation::quick_gelu, Activation::relu2};

long double exact_gelu(long double x) { return x / 2 * std::erfc(-x / std::sqrt(2.0L)); }
long double exact_gelu_new(long double x) {
  const long double u = std::sqrt(2 / std::acos(-1.0L)) * (x + 0.044715L * x * x * x);
  return x / (1 + std::exp(-2 * u));
}

long double exact_silu(long double x) { return x / (1 + std::exp(-x)); }
long double exact_quick_gelu(long double x) { return x / (1 + std::exp(-1.702L * x)); }

void report(const char* what, const Worst& w) {
  std::printf("%-52s %8.3Lf at %a\n", what, w.error, static_cast<double>(w.at));
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_instruction_sets_give_the_same_bits) {
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < (1ull << 32); bits += 4099)
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  for (const float special : {0.0f, 1.0f, 88.0f, 87.33f, 88.5f, 0.927734375f, 1.31f, kInfinity, 0x1p-149f, 0x1p-126f,
                              3.4e38f, 0.34657359f, 1.0397208f}) {
    for (float value : {special, std::nextafterf(special, kInfinity), std::nextafterf(special, -kInfinity)}) {
      x.push_back(value);
      x.push_back(-value);
    }
  }
  const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!(std::isnan(a[i]) && std::isnan(b[i])) && !same_bits(&a[i], &b[i], 1)) return false;
    }
    return true;
  };
  const auto e = exp_of(x);
  BOOST_TEST(!same(e, x));
  for (const Isa isa : isas()) {
    BOOST_TEST(same(e, exp_of(x, isa)), "exp, " << to_string(isa));
    for (const Activation activation : kActivations) {
      BOOST_TEST(same(activated(x, activation), activated(x, activation, isa)),
                 "activation " << static_cast<int>(activation) << ", " << to_string(isa));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_tail_is_computed_as_the_rest_and_nothing_behind_it_is_touched) {
  const Matrix x = random_matrix(1, 40, 1, 40, 8.0f);
  for (const Isa isa : isas()) {
    const auto& kernels = cpu::kernels_for(isa);
    Matrix whole(1, 40, 40);
    kernels.exp_row(x.row(0), 40, whole.row(0));
    for (int n = 0; n <= 40; ++n) {
      GuardedFloats y(static_cast<std::size_t>(n));  // faults past the end of the row
      kernels.exp_row(x.row(0) + (40 - n), n, y.data());
      BOOST_TEST(same_bits(y.data(), whole.row(0) + (40 - n), n));
      for (const Activation activation : kActivations) {
        std::vector<float> all(x.row(0), x.row(0) + 40);
        kernels.activate_row(all.data(), 40, activation);
        if (n) std::memcpy(y.data(), x.row(0) + (40 - n), static_cast<std::size_t>(n) * sizeof(float));
        kernels.activate_row(y.data(), n, activation);
        BOOST_TEST(same_bits(y.data(), all.data() + (40 - n), n));
      }
    }
  }
}

// Bounds: over all floats between 2^-30 and the ends of the range, once, exp was off by 1.0104 ulps and erf by 1.0283.
BOOST_AUTO_TEST_CASE(exp_is_within_its_bound) {
  auto x = floats_between(0x1p-30f, 88.0f, 499);
  const auto negative = floats_between(0x1p-30f, 87.33f, 499);
  for (const float value : negative) x.push_back(-value);
  const Worst w = worst(
      x, exp_of(x), [](long double v) { return std::exp(v); }, in_ulps);
  report("exp, in ulps", w);
  BOOST_TEST(w.error < 1.02L);
  // The inverse test: an error in the last digit of one constant, such as ln 2, is detected.
  auto y = exp_of(x);
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = static_cast<float>(double{y[i]} * (1 + double{x[i]} * 2e-8));
  BOOST_TEST(worst(
                 x, y, [](long double v) { return std::exp(v); }, in_ulps)
                 .error > 1.02L);
}

BOOST_AUTO_TEST_CASE(exp_keeps_its_promises) {
  const auto exp1 = [](float x) { return exp_of({x})[0]; };
  BOOST_TEST(exp1(0.0f) == 1.0f);
  BOOST_TEST(exp1(-0.0f) == 1.0f);
  BOOST_TEST(exp1(-kInfinity) == 0.0f);
  BOOST_TEST(!std::signbit(exp1(-kInfinity)));
  BOOST_TEST(exp1(-88.0f) == 0.0f);
  BOOST_TEST(exp1(-3e38f) == 0.0f);
  BOOST_TEST(exp1(-87.33f) >= std::numeric_limits<float>::min());  // never subnormal
  BOOST_TEST(std::isfinite(exp1(kInfinity)));
  BOOST_TEST(exp1(kInfinity) == exp1(88.0f));
  for (const Isa isa : isas()) BOOST_TEST(std::isnan(exp_of({std::numeric_limits<float>::quiet_NaN()}, isa)[0]));
  // Neighbours may swap by the error bound, no more; it grows over a step of 2^-12 of x.
  const auto x = both_signs(floats_between(0x1p-20f, 80.0f, 3001));
  std::vector<float> next = x, far = x;
  for (float& value : next) value = std::nextafterf(value, kInfinity);
  for (float& value : far) value += std::max(0x1p-20f, std::fabs(value) * 0x1p-12f);
  const auto at = exp_of(x), behind = exp_of(next), beyond = exp_of(far);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!(behind[i] >= at[i] * (1 - 0x1p-22f)) || !(beyond[i] > at[i])) BOOST_ERROR("exp falls at " << x[i]);
  }
}

BOOST_AUTO_TEST_CASE(erf_is_within_its_bound) {
  const auto x = both_signs(floats_between(0x1p-30f, 12.0f, 307));
  const Worst w = worst(
      x, erf_of(x), [](long double v) { return std::erf(v); }, in_ulps);
  report("erf, in ulps", w);
  BOOST_TEST(w.error < 1.04L);
  for (const float value : {4.0f, 10.0f, 1e10f, kInfinity}) {
    BOOST_TEST(erf_of({value, -value})[0] == 1.0f);
    BOOST_TEST(erf_of({value, -value})[1] == -1.0f);
  }
  BOOST_TEST(erf_of({0.0f})[0] == 0.0f);
}

BOOST_AUTO_TEST_CASE(gelu_is_within_its_bound) {
  const auto x = both_signs(floats_between(0x1p-40f, 100.0f, 503));
  const Worst share = worst(x, activated(x, Activation::gelu), exact_gelu, of_argument);
  report("gelu, in 2^-24 of |x|", share);
  BOOST_TEST(share.error < 1.5L);  // 1 + erf cancels left of 0, so no bound in ulps of the result holds there
  const auto positive = floats_between(0x1p-40f, 100.0f, 503);
  const Worst w = worst(positive, activated(positive, Activation::gelu), exact_gelu, in_ulps);
  report("gelu, in ulps, right of 0", w);
  BOOST_TEST(w.error < 2.0L);
}

BOOST_AUTO_TEST_CASE(gelu_new_is_within_its_bound) {
  const auto x = both_signs(floats_between(0x1p-40f, 100.0f, 503));
  const Worst share = worst(x, activated(x, Activation::gelu_new), exact_gelu_new, of_argument);
  report("gelu_new, in 2^-24 of |x|", share);
  BOOST_TEST(share.error < 2.5L);
  const auto positive = floats_between(0x1p-40f, 100.0f, 503);
  const Worst w = worst(positive, activated(positive, Activation::gelu_new), exact_gelu_new, in_ulps);
  report("gelu_new, in ulps, right of 0", w);
  BOOST_TEST(w.error < 3.0L);
  // Left of 0 the exponent -2 u reaches 87 at x = -7.9, which multiplies its rounding as much.
  const auto negative = floats_between(0x1p-40f, 5.0f, 503);
  std::vector<float> minus;
  for (const float value : negative) minus.push_back(-value);
  const Worst left = worst(minus, activated(minus, Activation::gelu_new), exact_gelu_new, in_ulps);
  report("gelu_new, in ulps, -5 to 0", left);
  BOOST_TEST(left.error < 30.0L);
}

// Right of 0 the exponential is a share of the sum. Left of it, it determines the result, and so do the errors of both.
BOOST_AUTO_TEST_CASE(silu_is_within_its_bound) {
  const auto positive = floats_between(0x1p-40f, 100.0f, 503), negative = floats_between(0x1p-40f, 87.0f, 503);
  std::vector<float> minus;
  for (const float value : negative) minus.push_back(-value);
  for (const auto& [what, x] :
       {std::pair{"silu, in ulps, right of 0", &positive}, {"silu, in ulps, -87 to 0", &minus}}) {
    const Worst w = worst(*x, activated(*x, Activation::silu), exact_silu, in_ulps);
    report(what, w);
    BOOST_TEST(w.error < 3.0L);
  }
  // The inverse test: gelu is something else.
  BOOST_TEST(worst(positive, activated(positive, Activation::gelu), exact_silu, in_ulps).error > 3.0L);
}

// The roundings of 1.702 and of its product, up to 2^-24 each, are absolute errors of the exponent.
BOOST_AUTO_TEST_CASE(quick_gelu_is_within_its_bound) {
  const auto x = both_signs(floats_between(0x1p-40f, 50.0f, 503));
  const auto bounded = [](float at, float y, long double truth) {
    return ulps(y, truth) / (3 + 2 * 1.702L * std::fabs(static_cast<long double>(at)));
  };
  const Worst w = worst(x, activated(x, Activation::quick_gelu), exact_quick_gelu, bounded);
  report("quick_gelu, as a share of its bound", w);
  BOOST_TEST(w.error < 1.0L);
  // The inverse test: gelu is something else.
  BOOST_TEST(worst(x, activated(x, Activation::gelu), exact_quick_gelu, bounded).error > 1.0L);
}

BOOST_AUTO_TEST_CASE(relu2_is_exact) {
  const auto x = both_signs(floats_between(0x1p-149f, 1e19f, 10007));
  const auto y = activated(x, Activation::relu2);
  for (std::size_t i = 0; i < x.size(); ++i) BOOST_REQUIRE(y[i] == (x[i] > 0 ? x[i] * x[i] : 0.0f));
  for (const Isa isa : isas()) {
    BOOST_TEST(activated({-kInfinity}, Activation::relu2, isa)[0] == 0.0f);
    BOOST_TEST(std::isnan(activated({std::numeric_limits<float>::quiet_NaN()}, Activation::relu2, isa)[0]));
  }
}

BOOST_AUTO_TEST_CASE(relu_is_exact) {
  const auto x = both_signs(floats_between(0x1p-149f, 3e38f, 10007));
  const auto y = activated(x, Activation::relu);
  for (std::size_t i = 0; i < x.size(); ++i) BOOST_REQUIRE(y[i] == (x[i] > 0 ? x[i] : 0.0f));
  for (const Isa isa : isas()) {
    BOOST_TEST(activated({-kInfinity}, Activation::relu, isa)[0] == 0.0f);
    BOOST_TEST(std::isnan(activated({std::numeric_limits<float>::quiet_NaN()}, Activation::relu, isa)[0]));
  }
}

BOOST_AUTO_TEST_CASE(activations_at_the_ends) {
  for (const Activation activation :
       {Activation::gelu_new, Activation::gelu, Activation::relu, Activation::silu, Activation::quick_gelu}) {
    const auto at = [&](float x) { return activated({x}, activation)[0]; };
    BOOST_TEST(at(0.0f) == 0.0f);
    BOOST_TEST(at(20.0f) == 20.0f);
    BOOST_TEST(at(1e30f) == 1e30f);
    const bool slow = activation == Activation::silu || activation == Activation::quick_gelu;
    BOOST_TEST(std::fabs(at(-20.0f)) < (slow ? 5e-8f : 1e-30f));
    BOOST_TEST(std::fabs(at(-1000.0f)) < 1e-30f);
    BOOST_TEST(at(kInfinity) == kInfinity);
    BOOST_TEST(std::isnan(at(std::numeric_limits<float>::quiet_NaN())));
  }
}

BOOST_AUTO_TEST_SUITE_END()
