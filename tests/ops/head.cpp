// head_best finds what a search through head's logits finds, for every format, row count and thread count. A head with
// an int8 approximation gives the same bits as its format.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "helpers.h"
#include "tenon/ops/cpu/head.h"
#include "tenon/weights/bfloat16.h"
#include "tenon/weights/bfloat16_amx.h"
#include "tenon/weights/bfloat16_dot.h"
#include "tenon/weights/float16.h"
#include "tenon/weights/float32.h"
#include "tenon/weights/float8.h"
#include "tenon/weights/int4.h"
#include "tenon/weights/int4_act8.h"
#include "tenon/weights/int8.h"
#include "tenon/weights/int8_act8.h"
#include "tenon/weights/int8_exact.h"

BOOST_AUTO_TEST_SUITE(ops_head)

using namespace tenon;
using namespace tenon::test;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Problem {
  int vocab, width, rows;
  float size = 1;       // of weights and hidden states
  bool ties = false;    // some rows of the matrix are equal
  int most_wanted = 0;  // per row; 0: from 1 to all
  float outlier = 0;    // first hidden state of every `each`th row, among others of -1 .. 1
  int each = 2;

  bool has_outlier(int row) const { return outlier != 0 && row % each == 0; }
};

Matrix weights_of(const Problem& p) {
  Matrix w = random_matrix(p.vocab, p.width, static_cast<std::uint64_t>(p.vocab + p.width));
  for (std::size_t i = 0; i < w.values.size(); ++i) w.values.data()[i] *= p.size;
  for (int r = 0; p.ties && r + 7 < p.vocab; r += 3) std::copy_n(w.view().row(r), p.width, w.view().row(r + 7));
  return w;
}

Matrix hidden_of(const Problem& p) {
  Matrix x = random_matrix(p.rows, p.width, 77);
  for (std::size_t i = 0; i < x.values.size(); ++i) x.values.data()[i] *= p.size;
  for (int r = 0; r < p.rows; ++r) {
    if (p.has_outlier(r)) x.view().row(r)[0] = p.outlier;
  }
  return x;
}

// Largest first, the lower id among equal ones; then in order of ids.
std::vector<TokenLogit> search(const float* logits, int vocab, int count) {
  std::vector<TokenLogit> all;
  for (int i = 0; i < vocab; ++i) {
    if (!std::isfinite(logits[i])) return {};
    all.push_back({logits[i], i});
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.logit > b.logit; });
  all.resize(static_cast<std::size_t>(std::min(count, vocab)));
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return all;
}

bool same(const std::vector<TokenLogit>& a, const std::vector<TokenLogit>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.id == y.id && std::bit_cast<std::uint32_t>(x.logit) == std::bit_cast<std::uint32_t>(y.logit);
  });
}

// Compares P's head_best with Q's head and a search.
template <class P, class Q = P>
void check(Cpu& device, const Problem& p, bool spoil = false) {
  const Matrix w = weights_of(p);
  const Packed<P> packed(w);
  const Packed<Q> plain(w);
  Matrix hidden = hidden_of(p);
  if (spoil) hidden.view().row(p.rows / 2)[p.width / 2] = kNan;
  if (spoil && p.rows > 3) hidden.view().row(1)[0] = 3e38f;
  Matrix logits(p.rows, p.vocab, p.vocab);
  head(device, HeadArgs<typename Q::View>{hidden.view(), plain.view(), logits.view()});
  std::vector<int> counts;
  for (int r = 0; r < p.rows; ++r) {
    counts.push_back(p.most_wanted > 0 ? 1 + r % p.most_wanted
                     : r % 5 == 0      ? 1
                     : r % 5 == 1      ? p.vocab + 3
                                       : 1 + r * 7 % 40);
  }
  std::vector<std::vector<TokenLogit>> best(static_cast<std::size_t>(p.rows));
  head_best(device, HeadBestArgs<typename P::View>{hidden.view(), packed.view(), p.vocab, counts.data(), best.data()});
  for (int r = 0; r < p.rows; ++r) {
    const auto want = search(logits.view().row(r), p.vocab, counts[static_cast<std::size_t>(r)]);
    BOOST_TEST_INFO(p.vocab << " ids, " << p.width << " wide, row " << r << " of " << p.rows << ", size " << p.size
                            << ", " << counts[static_cast<std::size_t>(r)] << " wanted");
    BOOST_TEST(same(best[static_cast<std::size_t>(r)], want));
  }
}

template <class P, class Q = P>
void check_all() {
  for (const int threads : {1, 3}) {
    Cpu device({.threads = threads});
    for (const int vocab : {1, 15, 64, 65, 1000}) {
      for (const int rows : {1, 2, 8, 9, 130}) check<P, Q>(device, {vocab, 33, rows, 1, rows == 2});
    }
    check<P, Q>(device, {300, 33, 5, 1, true}, true);
    check<P, Q>(device, {300, 33, 20, 1, true}, true);
  }
}

// With few enough wanted logits for the approximation to pay.
template <class P, class Q>
void check_few() {
  for (const int threads : {1, 3}) {
    Cpu device({.threads = threads});
    for (const int rows : {1, 2, 7, 64, 130}) {
      for (const float outlier : {0.0f, 30.0f, 1e6f}) {
        check<P, Q>(device, {1000, 33, rows, 1, rows == 2, 8, outlier});
        check<P, Q>(device, {3000, 200, rows, 1, false, 3, outlier});
      }
    }
    check<P, Q>(device, {300, 33, 20, 1, true, 4}, true);
    check<P, Q>(device, {500, 768, 128, 1, false, 3, 1e4f, 1});  // 256 rows with their residuals
  }
}

// Whether head_best of this matrix finds for all rows what a search through its logits finds.
template <class View>
bool names_the_best(const View& view, int vocab, const Matrix& hidden, const std::vector<int>& counts) {
  Cpu device({.threads = 2});
  Matrix logits(hidden.rows, vocab, vocab);
  head(device, HeadArgs<View>{hidden.view(), view, logits.view()});
  std::vector<std::vector<TokenLogit>> best(counts.size());
  head_best(device, HeadBestArgs<View>{hidden.view(), view, vocab, counts.data(), best.data()});
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (!same(best[i], search(logits.view().row(static_cast<int>(i)), vocab, counts[i]))) return false;
  }
  return true;
}

}  // namespace

BOOST_AUTO_TEST_CASE(it_names_what_a_search_names) {
  check_all<Float32>();
  check_all<BFloat16>();
  check_all<Float16>();
  check_all<Float8<E4M3>>();
  check_all<ZeroPointInt8>();
  check_all<ZeroPointInt8Of<PerTensor>>();
  check_all<GroupInt4>();
  check_all<ZeroPointInt8Act8>();
  check_all<GroupInt4Act8>();
  check_all<BFloat16Dot>();
  check_all<BFloat16Amx>();
  check_all<ColumnMajor>();
}

BOOST_AUTO_TEST_CASE(every_instruction_set_names_the_same) {
  for (const Isa isa : kIsas) {
    if (!has_isa(isa)) continue;
    Cpu device({.threads = 2, .isa = isa});
    for (const float outlier : {0.0f, 1000.0f}) {
      check<Int8Exact, Float32>(device, {500, 40, 70, 1, true, 3, outlier});
      check<Int8ExactOf<ZeroPointInt8>, ZeroPointInt8>(device, {500, 40, 70, 1, true, 3, outlier});
    }
    check<Float32>(device, {500, 40, 20, 1, true});
  }
}

BOOST_AUTO_TEST_CASE(a_head_behind_int8_gives_the_bits_of_its_format) {
  check_all<Int8Exact, Float32>();
  check_few<Int8Exact, Float32>();
  check_few<Int8ExactOf<BFloat16>, BFloat16>();
  check_few<Int8ExactOf<Float16>, Float16>();
  check_few<Int8ExactOf<Float8<E4M3>>, Float8<E4M3>>();
  check_few<Int8ExactOf<Float8<E5M2>>, Float8<E5M2>>();
  check_few<Int8ExactOf<ZeroPointInt8>, ZeroPointInt8>();
  Cpu device({.threads = 2});
  // Sizes with subnormal scales or products, with overflowing sums, and with equal logits.
  for (const float size : {1e-25f, 1e-22f, 1e-18f, 1e10f, 3e17f, 8e18f, 2e19f, 0.0f}) {
    for (const int rows : {1, 4, 20}) check<Int8Exact, Float32>(device, {200, 50, rows, size, true, 8});
  }
  check<Int8Exact, Float32>(device, {20000, 8, 2, 0.0f, false, 2});  // more candidates than the limit
  check<Int8Exact, Float32>(device, {40, 65600, 3, 1, true, 2});     // sums of integers in two blocks
}

// One row wants more than may be read for it, the others want one.
BOOST_AUTO_TEST_CASE(a_row_that_wants_many_has_them_among_others_that_want_one) {
  const Problem p{1000, 33, 64};
  const Packed<Int8Exact> packed(weights_of(p));
  std::vector<int> counts(64, 1);
  counts[5] = 256;
  BOOST_TEST(cpu::wants_few(counts.data(), 64, p.vocab));
  BOOST_TEST(names_the_best(packed.view(), p.vocab, hidden_of(p), counts));
}

// Codes near their zero points, both far from 128: sums of codes are large, and their differences small or zero.
BOOST_AUTO_TEST_CASE(cancellation_of_zero_points_is_within_the_bound) {
  using Exact = Int8ExactOf<ZeroPointInt8>;
  constexpr Shape kShape{64, 700};
  CodeBlock block{.rows = 64, .cols = 700, .codes = {}, .scales = {}, .zero_points = {}};
  block.scales.assign(64, 0.01f);
  block.zero_points.assign(64, 250.0f);
  for (int i = 0; i < 64 * 700; ++i) block.codes.push_back(static_cast<std::byte>(250 - i / 700 * i % 7 / 6));
  GuardedFloats stored(Exact::bytes(kShape) / sizeof(float)), plain(ZeroPointInt8::bytes(kShape) / sizeof(float));
  const auto bytes = [](const GuardedFloats& all) { return std::as_writable_bytes(std::span(all.data(), all.size())); };
  Exact::pack(kShape, 0, block, bytes(stored));
  ZeroPointInt8::pack(kShape, 0, block, bytes(plain));
  const auto view = Exact::view(kShape, bytes(stored));
  Cpu device({.threads = 1});
  const Matrix hidden(1, 700, 700, 0.1f);  // int8 represents it exactly
  const cpu::QuantisedRows quantised(device, hidden.view());
  Matrix exact(1, 64, 64), same_codes(1, 64, 64), off(1, 64, 64);
  head(device, HeadArgs<ZeroPointInt8::View>{hidden.view(), ZeroPointInt8::view(kShape, bytes(plain)), exact.view()});
  head(device, HeadArgs<Exact::View>{hidden.view(), view, same_codes.view()});
  head(device, HeadArgs<cpu::ApproximationView>{quantised.all(), {view.approximation().panels}, off.view()});
  BOOST_TEST(std::equal(exact.values.data(), exact.values.data() + exact.values.size(), same_codes.values.data()));
  float most = 0;  // error over the bound of the weights alone
  for (int i = 0; i < 64; ++i) {
    const float error = std::fabs(exact.view().row(0)[i] - off.view().row(0)[i]);
    BOOST_TEST(error <= quantised.bounds(0).error(view.approximation().errors[i], view.approximation().lengths[i]));
    most = std::max(most, error / (1464 * 0x1p-24f * 0.01f * 70));
  }
  BOOST_TEST(most > 1);
}

// One row of x and a matrix: the head with an approximation must find what Q finds, which is returned.
template <class Q>
std::vector<TokenLogit> check_by_hand(const Matrix& w, const Matrix& x) {
  Cpu device({.threads = 1});
  const Packed<Int8ExactOf<Q>> packed(w);
  const Packed<Q> plain(w);
  const int count = 1;
  std::vector<TokenLogit> best, want;
  head_best(device, HeadBestArgs<typename Int8ExactOf<Q>::View>{x.view(), packed.view(), w.rows, &count, &best});
  head_best(device, HeadBestArgs<typename Q::View>{x.view(), plain.view(), w.rows, &count, &want});
  BOOST_TEST(same(best, want));
  return want;
}

BOOST_AUTO_TEST_CASE(a_row_that_overflows_only_exactly_is_not_passed_over) {
  Matrix w(16, 4, 4, 0.0f), x(1, 4, 4, 2e35f);
  const float first[] = {1000, 1000, -1000, -1000};
  std::copy_n(first, 4, w.view().row(0));
  w.view().row(1)[0] = 1000;
  check_by_hand<Float32>(w, x);
}

// Codes are summed before they are scaled. Their sums overflow although those of the weights are far from it.
BOOST_AUTO_TEST_CASE(a_row_whose_codes_alone_overflow_is_not_passed_over) {
  const auto matrix = [](int rows, const std::vector<float>& values) {
    Matrix m(rows, 4, 4, 0.0f);
    std::copy(values.begin(), values.end(), m.values.data());
    return m;
  };
  constexpr float s = 0x1p-10f;
  BOOST_TEST(check_by_hand<Float8<E5M2>>(matrix(2, {-0.1f, 0, 0, 0, 0.01f, 1, 0, 0}), matrix(1, {7e33f})).empty());
  const Matrix w = matrix(2, {-128 * s, 127 * s, 0, 0, 10 * s, -128 * s, 127 * s, 0});
  BOOST_TEST(check_by_hand<ZeroPointInt8>(w, matrix(1, {3e36f})).empty());
}

BOOST_AUTO_TEST_CASE(products_below_the_smallest_number_are_within_the_bound) {
  Matrix w(2, 64, 64, 0.51f), x(1, 64, 64, 0x1p-149f);
  for (int c = 0; c < 64; ++c) w.view().row(1)[c] = c % 2 ? 1.3f : 0.0f;
  check_by_hand<Float32>(w, x);
}

// With smaller bounds, winning rows would be missed, so the tests above can fail. First the cost of quantised weights
// with exact hidden states, then of quantised hidden states with exact weights.
BOOST_AUTO_TEST_CASE(without_its_bounds_the_int8_pass_names_others) {
  const Problem p{5000, 64, 128};
  const std::vector<float> nothing(5000 + kPanelRows, 0.0f);
  const std::vector<int> counts(128, 4);
  Matrix hidden = random_matrix(p.rows, p.width, 5);
  const Packed<Int8ExactOf<ZeroPointInt8>> rounded(weights_of(p));
  auto of_rows = rounded.view();
  BOOST_TEST(names_the_best(of_rows, p.vocab, hidden, counts));
  of_rows.copy.lengths = nothing.data();
  BOOST_TEST(!names_the_best(of_rows, p.vocab, hidden, counts));
  for (std::size_t i = 0; i < hidden.values.size(); ++i)
    hidden.values.data()[i] = std::nearbyint(127 * hidden.values.data()[i]);
  for (int r = 0; r < p.rows; ++r) hidden.view().row(r)[0] = 127;
  const Packed<Int8Exact> packed(weights_of(p));
  auto of_weights = packed.view();
  BOOST_TEST(names_the_best(of_weights, p.vocab, hidden, counts));
  of_weights.copy.errors = nothing.data();
  BOOST_TEST(!names_the_best(of_weights, p.vocab, hidden, counts));
}

namespace {

// The largest share of its bound that an approximate logit is off by. Rows with an outlier have residuals, the others
// have none.
template <class P>
double share_of_bound(Cpu& device, const Problem& p) {
  const Matrix w = weights_of(p);
  const Packed<P> packed(w);
  const Matrix hidden = hidden_of(p);
  const Int8Approximation weight = packed.view().approximation();
  const cpu::QuantisedRows quantised(device, hidden.view());
  Matrix exact(p.rows, p.vocab, p.vocab), off(quantised.all().rows, p.vocab, p.vocab);
  head(device, HeadArgs<typename P::View>{hidden.view(), packed.view(), exact.view()});
  head(device, HeadArgs<cpu::ApproximationView>{quantised.all(), {weight.panels}, off.view()});
  double share = 0;
  for (int r = 0; r < p.rows; ++r) {
    BOOST_TEST((quantised.residual(r) >= 0) == p.has_outlier(r));
    for (int i = 0; i < p.vocab; ++i) {
      float logit = off.view().row(r)[i];
      if (quantised.residual(r) >= 0) logit += off.view().row(quantised.residual(r))[i];
      const float bound = quantised.bounds(r).error(weight.errors[i], weight.lengths[i]);
      const double error = std::fabs(static_cast<double>(exact.view().row(r)[i]) - static_cast<double>(logit));
      share = std::max(share, error / static_cast<double>(bound));
    }
  }
  return share;
}

}  // namespace

// A bound that is never reached would say little. In rows of two columns, some errors coincide.
BOOST_AUTO_TEST_CASE(rough_logits_are_within_their_bounds) {
  for (const Isa isa : kIsas) {
    if (!has_isa(isa)) continue;
    Cpu device({.threads = 2, .isa = isa});
    for (const float outlier : {0.0f, 100.0f, 1e4f}) {
      BOOST_TEST(share_of_bound<Int8Exact>(device, {500, 768, 20, 1, false, 0, outlier}) < 1);
    }
    for (const Problem& narrow : {Problem{500, 2, 200}, Problem{500, 12, 200, 1, false, 0, 1e4f, 1}}) {
      const double share = share_of_bound<Int8Exact>(device, narrow);
      BOOST_TEST(share < 1);
      BOOST_TEST(share > 0.25, share << " of the bound");
    }
    BOOST_TEST(share_of_bound<Int8ExactOf<BFloat16>>(device, {500, 33, 50}) < 1);
    BOOST_TEST(share_of_bound<Int8ExactOf<Float16>>(device, {500, 33, 50}) < 1);
    BOOST_TEST(share_of_bound<Int8ExactOf<Float8<E5M2>>>(device, {500, 33, 50}) < 1);
    BOOST_TEST(share_of_bound<Int8ExactOf<ZeroPointInt8>>(device, {500, 33, 50}) < 1);
  }
}

BOOST_AUTO_TEST_SUITE_END()
