// FlashMma: a query's answer has the same bits alone and beside others, in whatever pieces its text comes; and it is that of
// FlashAttention but for the roundings of its operands.
#define BOOST_TEST_MODULE tenon ops cuda attention_tensor
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>

#include "attention_side.h"

using namespace tenon;
using namespace tenon::test;

BOOST_TEST_GLOBAL_FIXTURE(NeedsCuda);

namespace {

// Rows of each text by step: as a server takes them, and each by itself in other pieces.
const std::vector<std::vector<int>> kTogether = {{300, 17, 64}, {1, 1, 1}, {70, 1, 256}, {1, 240, 1}, {1, 1, 1}};
const std::vector<std::vector<int>> kApart = {{373, 0, 0}, {0, 9, 0}, {0, 1, 0}, {0, 8, 0}, {0, 242, 0}, {0, 0, 320}, {0, 0, 1}, {0, 0, 1}, {0, 0, 1}};
const std::vector<int> kLengths = {373, 260, 323};

// Queries, keys and values of three texts, numbers that bfloat16 holds.
struct Texts {
  std::vector<Matrix> q, k, v;

  explicit Texts(const Shapes& s, const std::vector<int>& lengths, float q_scale) {
    std::uint64_t seed = 1;
    const auto made = [&](int rows, int cols, float scale) {
      Matrix m = random_matrix(rows, cols, ++seed, 0, scale);
      for (int r = 0; r < rows; ++r) {
        for (int c = 0; c < cols; ++c) m.row(r)[c] = static_cast<float>(bfloat16(m.row(r)[c]));
      }
      return m;
    };
    for (const int length : lengths) {
      q.push_back(made(length, s.heads * s.head_dim, q_scale));
      k.push_back(made(length, s.kv_heads * s.head_dim, 1.0f));
      v.push_back(made(length, s.kv_heads * s.head_dim, 1.0f));
    }
  }

  static Matrix rows_of(const std::vector<Matrix>& all, const Batch& batch) {
    Matrix some(static_cast<int>(batch.tokens.size()), all[0].cols, all[0].cols);
    for (const SequenceRows& s : batch.sequences) {
      for (int r = 0; r < s.rows; ++r) std::copy_n(all[s.seq].row(s.start + r), some.cols, some.row(s.first_row + r));
    }
    return some;
  }
};

// What every row of the texts gets, a text behind the other.
template <class P, class Attend, class D, class OnSide>
std::vector<Matrix> answers(D& device, const Shapes& s, const Texts& texts, const std::vector<std::vector<int>>& steps, OnSide&& on_side) {
  const int longest = texts.q[0].rows;
  Side<D, P, Attend> side(device, s, longest + 16, 3);
  const auto slopes = on_side(slopes_of(s));
  std::vector<Matrix> all;
  for (const Matrix& q : texts.q) all.emplace_back(q.rows, q.cols, q.cols);
  std::vector<int> known(texts.q.size(), 0);
  for (const auto& rows : steps) {
    const Batch batch = batch_of(rows, known);
    Matrix out(static_cast<int>(batch.tokens.size()), s.heads * s.head_dim, s.heads * s.head_dim);
    const auto q = on_side(Texts::rows_of(texts.q, batch)), k = on_side(Texts::rows_of(texts.k, batch)), v = on_side(Texts::rows_of(texts.v, batch));
    const auto there = on_side(out);
    side.run(batch, q.view(), k.view(), v.view(), slopes.data(), there.view());
    out = there.host();
    for (const SequenceRows& r : batch.sequences) {
      for (int i = 0; i < r.rows; ++i) std::copy_n(out.row(r.first_row + i), out.cols, all[r.seq].row(r.start + i));
    }
  }
  return all;
}

struct OnCuda {
  Cuda& device;
  OnDevice<float> operator()(const std::vector<float>& values) const { return {device, values}; }
  DeviceMatrix operator()(const Matrix& m) const { return {device, m}; }
};
struct OnCpu {
  struct Copy {
    Matrix matrix;
    MatrixView<float> view() const { return matrix.view(); }
    const Matrix& host() const { return matrix; }
  };
  std::vector<float> operator()(const std::vector<float>& values) const { return values; }
  Copy operator()(const Matrix& m) const { return {m}; }
};

template <class P>
std::vector<Matrix> on_cuda(const Shapes& s, const Texts& texts, const std::vector<std::vector<int>>& steps) {
  Cuda cuda;
  return answers<P, FlashMma>(cuda, s, texts, steps, OnCuda{cuda});
}

// NaN where one is, or a value is infinite in both.
float largest_difference(const std::vector<Matrix>& a, const std::vector<Matrix>& b) {
  float most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (int r = 0; r < a[i].rows; ++r) {
      for (int c = 0; c < a[i].cols; ++c) {
        const float difference = std::abs(a[i].row(r)[c] - b[i].row(r)[c]);
        if (!(difference <= most)) most = difference;
      }
    }
  }
  return most;
}

bool all_finite(const Matrix& m, int rows) {
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < m.cols; ++c) {
      if (!std::isfinite(m.row(r)[c])) return false;
    }
  }
  return true;
}

// The bits of all rows, whose numbers are finite.
void check_same(const std::vector<Matrix>& a, const std::vector<Matrix>& b, const Shapes& s) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    BOOST_TEST(same_bits(a[i], b[i]), "text " << i << ", " << s.heads << " heads on " << s.kv_heads << " of " << s.head_dim << ", window " << s.window);
    BOOST_TEST(all_finite(a[i], a[i].rows), "text " << i);
  }
}

}  // namespace

using Caches = std::tuple<PagedKV, PagedKVOf<32, bfloat16>, PagedKVOf<64, std::int8_t>>;

BOOST_AUTO_TEST_CASE_TEMPLATE(alone_as_together, P, Caches) {
  for (const Shapes& s : kShapes) {
    const Texts texts(s, kLengths, 4.0f);
    check_same(on_cuda<P>(s, texts, kTogether), on_cuda<P>(s, texts, kApart), s);
  }
}

// With operands that bfloat16 holds, weights alone are rounded: to 2^-9 of themselves each, of which an output, a mean of values
// of magnitude 1 by these weights, feels at most twice that; float32's own roundings are far below.
BOOST_AUTO_TEST_CASE(as_flash_attention_but_for_roundings) {
  constexpr float kBound = 2.0f / 512 + 1e-4f;
  for (const Shapes& s : kShapes) {
    const Texts texts(s, kLengths, 4.0f);
    Cpu cpu = reference_cpu();
    const auto expected = answers<PagedKV, FlashAttention>(cpu, s, texts, kTogether, OnCpu{});
    BOOST_TEST(largest_difference(on_cuda<PagedKV>(s, texts, kTogether), expected) < kBound, s.heads << " heads of " << s.head_dim);
    // The bound tells a key from its neighbour.
    Texts others = texts;
    for (Matrix& k : others.k) {
      for (int r = 8; r < k.rows; r += 16) std::swap_ranges(k.row(r), k.row(r) + k.cols, k.row(r - 1));
    }
    BOOST_TEST(largest_difference(answers<PagedKV, FlashAttention>(cpu, s, others, kTogether, OnCpu{}), expected) > kBound);
  }
}

// More splits than a block walks beside one another, with a window and without.
BOOST_AUTO_TEST_CASE(long_texts) {
  for (const Shapes& s : {Shapes{2, 1, 16, 0, false}, Shapes{2, 1, 16, 2'100, true}, Shapes{1, 1, 256, 0, false}}) {
    const Texts texts(s, {2'402, 5, 3}, 4.0f);
    check_same(on_cuda<PagedKV>(s, texts, {{2'400, 3, 1}, {1, 1, 1}, {1, 1, 1}}),
               on_cuda<PagedKV>(s, texts, {{2'241, 0, 0}, {161, 0, 0}, {0, 5, 0}, {0, 0, 3}}), s);
  }
}

// A block that another text has left behind: what stands behind the new one is no number.
BOOST_AUTO_TEST_CASE_TEMPLATE(garbage_behind_a_text, P, Caches) {
  const Shapes s{2, 1, 64, 0, false};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Cuda cuda;
  const OnCuda on_side{cuda};
  std::vector<Matrix> all;
  for (const bool garbage : {false, true}) {
    Side<Cuda, P, FlashMma> side(cuda, s, 64, 1);
    const auto run = [&](SeqId seq, int rows, float scale) {
      Batch batch;
      batch.sequences.push_back({seq, 0, rows, 0, 0});
      batch.tokens.assign(static_cast<std::size_t>(rows), 0);
      batch.positions.assign(static_cast<std::size_t>(rows), 0);
      const auto q = on_side(random_matrix(rows, 128, 1)), k = on_side(random_matrix(rows, 64, 2, 0, scale)), v = on_side(random_matrix(rows, 64, 3, 0, scale));
      const auto out = on_side(Matrix(rows, 128, 128));
      side.run(batch, q.view(), k.view(), v.view(), nullptr, out.view());
      return out.host();
    };
    if (garbage) {
      run(0, 64, nan);
      side.forget(0);
    }
    all.push_back(run(1, 21, 1.0f));
  }
  BOOST_TEST(same_bits(all[0], all[1]));
  BOOST_TEST(all_finite(all[1], 21));
}

// A token whose value is no number, or as large as can be, is nothing to those before it, nor to those whose window has passed
// it: whatever rows are taken with it.
BOOST_AUTO_TEST_CASE_TEMPLATE(values_that_a_row_does_not_see, P, Caches) {
  for (const Shapes& s : {Shapes{2, 1, 64, 0, false}, Shapes{2, 2, 80, 30, true}}) {
    for (const float value : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 3.4e38f, 1e30f}) {
      constexpr int kAt = 21;
      const Texts plain(s, {90, 1, 1}, 4.0f);
      Texts texts = plain;
      std::fill_n(texts.v[0].row(kAt), texts.v[0].cols, value);
      const auto expected = on_cuda<P>(s, plain, {{90, 1, 1}}), whole = on_cuda<P>(s, texts, {{90, 1, 1}});
      const auto pieces = on_cuda<P>(s, texts, {{7, 1, 1}, {30, 0, 0}, {1, 0, 0}, {52, 0, 0}});
      const auto same_row = [](const Matrix& a, const Matrix& b, int r) { return same_bits(a.row(r), b.row(r), a.cols); };
      for (int r = 0; r < 90; ++r) {
        const bool sees = r >= kAt && (s.window == 0 || r < kAt + s.window);
        if (!sees) BOOST_TEST(same_row(whole[0], expected[0], r), "row " << r << ", " << value);
        if (!sees || value == 1e30f) BOOST_TEST(same_row(whole[0], pieces[0], r), "row " << r << ", " << value);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(heads_that_are_too_wide_are_refused) {
  Cuda cuda;
  const Shapes s{1, 1, 272, 0, false};
  const Texts texts(s, {1, 1, 1}, 1.0f);
  BOOST_CHECK_EXCEPTION((answers<PagedKV, FlashMma>(cuda, s, texts, {{1, 1, 1}}, OnCuda{cuda})), Error,
                        [](const Error& e) { return std::string(e.what()).find("head_dim") != std::string::npos; });
}
