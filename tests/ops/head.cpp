// head_best names what a search through head's logits would name, for every format, count of rows and threads; the
// exact head behind an int8 pass gives the same bits as float32.
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
  float size = 1;     // of weights and hidden states
  bool ties = false;  // rows of the matrix that are equal to others
};

Matrix weights_of(const Problem& p) {
  Matrix w = random_matrix(p.vocab, p.width, static_cast<std::uint64_t>(p.vocab + p.width));
  for (std::size_t i = 0; i < w.values.size(); ++i) w.values.data()[i] *= p.size;
  for (int r = 0; p.ties && r + 7 < p.vocab; r += 3) std::copy_n(w.view().row(r), p.width, w.view().row(r + 7));
  return w;
}

// Largest first, of equal ones the lower id; then in order of ids.
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

// P's head_best against Q's head and a search.
template <class P, class Q = P>
void check(Cpu& device, const Problem& p, bool spoil = false) {
  const Matrix w = weights_of(p);
  const Packed<P> packed(w);
  const Packed<Q> plain(w);
  Matrix hidden = random_matrix(p.rows, p.width, 77);
  for (std::size_t i = 0; i < hidden.values.size(); ++i) hidden.values.data()[i] *= p.size;
  if (spoil) hidden.view().row(p.rows / 2)[p.width / 2] = kNan;
  if (spoil && p.rows > 3) hidden.view().row(1)[0] = 3e38f;
  Matrix logits(p.rows, p.vocab, p.vocab);
  head(device, HeadArgs<typename Q::View>{hidden.view(), plain.view(), logits.view()});
  std::vector<int> counts;
  for (int r = 0; r < p.rows; ++r) counts.push_back(r % 5 == 0 ? 1 : r % 5 == 1 ? p.vocab + 3 : 1 + r * 7 % 40);
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
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
    if (isa > best_isa()) continue;
    Cpu device({.threads = 2, .isa = isa});
    check<Int8Exact, Float32>(device, {500, 40, 7, 1, true});
    check<Float32>(device, {500, 40, 20, 1, true});
  }
}

BOOST_AUTO_TEST_CASE(an_exact_head_behind_int8_gives_the_bits_of_float32) {
  check_all<Int8Exact, Float32>();
  Cpu device({.threads = 2});
  // Where scales are subnormal, products too, where sums overflow, and where all logits are the same.
  for (const float size : {1e-25f, 1e-22f, 1e-18f, 1e10f, 3e17f, 8e18f, 2e19f, 0.0f}) {
    for (const int rows : {1, 4}) check<Int8Exact, Float32>(device, {200, 50, rows, size, true});
  }
  check<Int8Exact, Float32>(device, {20000, 8, 2, 0.0f});  // more contenders than it keeps
}

// One row of x, and a matrix: the exact head must name what float32 names.
void check_by_hand(const Matrix& w, const Matrix& x) {
  Cpu device({.threads = 1});
  const Packed<Int8Exact> packed(w);
  const Packed<Float32> plain(w);
  const int count = 1;
  std::vector<TokenLogit> best, want;
  head_best(device, HeadBestArgs<Int8Exact::View>{x.view(), packed.view(), w.rows, &count, &best});
  head_best(device, HeadBestArgs<Float32::View>{x.view(), plain.view(), w.rows, &count, &want});
  BOOST_TEST(same(best, want));
}

BOOST_AUTO_TEST_CASE(a_row_that_overflows_only_exactly_is_not_passed_over) {
  Matrix w(16, 4, 4, 0.0f), x(1, 4, 4, 2e35f);
  const float first[] = {1000, 1000, -1000, -1000};
  std::copy_n(first, 4, w.view().row(0));
  w.view().row(1)[0] = 1000;
  check_by_hand(w, x);
}

BOOST_AUTO_TEST_CASE(products_below_the_smallest_number_are_within_the_bound) {
  Matrix w(2, 64, 64, 0.51f), x(1, 64, 64, 0x1p-149f);
  for (int c = 0; c < 64; ++c) w.view().row(1)[c] = c % 2 ? 1.3f : 0.0f;
  check_by_hand(w, x);
}

// If the bound were smaller, rows that win would be passed over: the test above could fail.
BOOST_AUTO_TEST_CASE(without_its_bound_the_int8_pass_names_others) {
  const Problem p{2000, 64, 8};
  const Matrix w = weights_of(p);
  Packed<Int8Exact> packed(w);
  auto view = packed.view();
  const std::vector<float> nothing(2000 + kPanelRows, 0.0f);
  view.packed.errors = nothing.data();
  const Matrix hidden = random_matrix(p.rows, p.width, 5);
  Cpu device({.threads = 1});
  Matrix logits(p.rows, p.vocab, p.vocab);
  head(device, HeadArgs<Int8Exact::View>{hidden.view(), view, logits.view()});
  const std::vector<int> counts(8, 20);
  std::vector<std::vector<TokenLogit>> best(8);
  head_best(device, HeadBestArgs<Int8Exact::View>{hidden.view(), view, p.vocab, counts.data(), best.data()});
  int others = 0;
  for (int r = 0; r < p.rows; ++r)
    others += !same(best[static_cast<std::size_t>(r)], search(logits.view().row(r), p.vocab, 20));
  BOOST_TEST(others > 0);
}

BOOST_AUTO_TEST_SUITE_END()
