// FlashMma: a query's result has the same bits alone and in a batch, in whatever pieces its text comes. It equals
// FlashAttention's but for the rounding of operands.
#define BOOST_TEST_MODULE tenon ops cuda attention_tensor
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <type_traits>

#include "attention_side.h"

using namespace tenon;
using namespace tenon::test;

BOOST_TEST_GLOBAL_FIXTURE(NeedsCuda);

namespace {

// Rows of each text per step: as a server takes them, and each text alone in other pieces.
const std::vector<std::vector<int>> kTogether = {{300, 17, 64}, {1, 1, 1}, {70, 1, 256}, {1, 240, 1}, {1, 1, 1}};
const std::vector<std::vector<int>> kApart = {{373, 0, 0}, {0, 9, 0}, {0, 1, 0}, {0, 8, 0}, {0, 242, 0},
                                              {0, 0, 320}, {0, 0, 1}, {0, 0, 1}, {0, 0, 1}};
const std::vector<int> kLengths = {373, 260, 323};

// Queries, keys and values of some texts: numbers that bfloat16 holds, and float16 except for the smallest.
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

// Results of every row of the texts, one text after another.
template <class P, class Attend, class D, class OnSide>
std::vector<Matrix> answers(D& device, const Shapes& s, const Texts& texts, const std::vector<std::vector<int>>& steps,
                            OnSide&& on_side) {
  const int longest = texts.q[0].rows;
  Side<D, P, Attend> side(device, s, longest + 64, static_cast<int>(texts.q.size()));
  const auto slopes = on_side(slopes_of(s));
  std::vector<Matrix> all;
  for (const Matrix& q : texts.q) all.emplace_back(q.rows, q.cols, q.cols);
  std::vector<int> known(texts.q.size(), 0);
  for (const auto& rows : steps) {
    const Batch batch = batch_of(rows, known);
    Matrix out(static_cast<int>(batch.tokens.size()), s.heads * s.head_dim, s.heads * s.head_dim);
    const auto q = on_side(Texts::rows_of(texts.q, batch)), k = on_side(Texts::rows_of(texts.k, batch)),
               v = on_side(Texts::rows_of(texts.v, batch));
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

// NaN if one is NaN, or if both have an infinite value.
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

// The first number that differs, and the count of differences.
std::string first_difference(const Matrix& a, const Matrix& b) {
  std::string first;
  int count = 0;
  for (int r = 0; r < a.rows; ++r) {
    for (int c = 0; c < a.cols; ++c) {
      if (std::bit_cast<std::uint32_t>(a.row(r)[c]) == std::bit_cast<std::uint32_t>(b.row(r)[c])) continue;
      if (count++ > 0) continue;
      first = "row " + std::to_string(r) + ", column " + std::to_string(c) + ": " + std::to_string(a.row(r)[c]) +
              " and " + std::to_string(b.row(r)[c]);
    }
  }
  return first + "; of " + std::to_string(a.rows * a.cols) + " numbers differ " + std::to_string(count);
}

std::string name_of(const Shapes& s) {
  return std::to_string(s.heads) + " heads on " + std::to_string(s.kv_heads) + " of " + std::to_string(s.head_dim) +
         ", window " + std::to_string(s.window);
}

// The bits of all rows, whose numbers are finite.
void check_same(const std::vector<Matrix>& a, const std::vector<Matrix>& b, const Shapes& s) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    BOOST_TEST(same_bits(a[i], b[i]), "text " << i << ", " << name_of(s) << ": " << first_difference(a[i], b[i]));
    BOOST_TEST(all_finite(a[i], a[i].rows), "text " << i << ", " << name_of(s));
  }
}

}  // namespace

// Shapes whose jobs in kTogether suffice for rows of prompts to share a block's copies. Others attend strides in
// parallel.
constexpr Shapes kBusy[] = {
    {24, 24, 64, 0, false}, {16, 16, 80, 0, false}, {32, 8, 128, 100, true}, {64, 64, 7, 0, true}};
template <class Body>
void for_shapes(Body&& body) {
  for (const Shapes& s : kShapes) body(s);
  for (const Shapes& s : kBusy) body(s);
}

using Caches = std::tuple<PagedKV, PagedKVOf<32, bfloat16>, PagedKVOf<16, float16>, PagedKVOf<64, std::int8_t>>;

BOOST_AUTO_TEST_CASE_TEMPLATE(alone_as_together, P, Caches) {
  for_shapes([](const Shapes& s) {
    const Texts texts(s, kLengths, 4.0f);
    check_same(on_cuda<P>(s, texts, kTogether), on_cuda<P>(s, texts, kApart), s);
  });
}

// With operands that a cache's element holds, only weights are rounded, to 2^-9 or 2^-12 of themselves. An output is a
// mean of values of magnitude 1 by these weights, so it changes by at most twice that. Roundings of float32 are far
// below.
BOOST_AUTO_TEST_CASE(as_flash_attention_but_for_roundings) {
  const auto bound = [](float unit) { return 2.0f * unit + 1e-4f; };
  float largest[3] = {};
  for_shapes([&](const Shapes& s) {
    const Texts texts(s, kLengths, 4.0f);
    Cpu cpu = reference_cpu();
    const auto expected = answers<PagedKV, FlashAttention>(cpu, s, texts, kTogether, OnCpu{});
    const auto check = [&](const std::vector<Matrix>& found, float unit, float& most) {
      const float difference = largest_difference(found, expected);
      most = difference > most ? difference : most;
      BOOST_TEST(difference < bound(unit), name_of(s) << ": " << difference << " of " << bound(unit));
    };
    check(on_cuda<PagedKV>(s, texts, kTogether), 0x1p-9f, largest[0]);
    check(on_cuda<PagedKVOf<32, bfloat16>>(s, texts, kTogether), 0x1p-9f, largest[1]);
    check(on_cuda<PagedKVOf<16, float16>>(s, texts, kTogether), 0x1p-12f, largest[2]);
    // The bounds tell a key from its neighbour.
    Texts others = texts;
    for (Matrix& k : others.k) {
      for (int r = 8; r < k.rows; r += 16) std::swap_ranges(k.row(r), k.row(r) + k.cols, k.row(r - 1));
    }
    BOOST_TEST(largest_difference(answers<PagedKV, FlashAttention>(cpu, s, others, kTogether, OnCpu{}), expected) >
               bound(0x1p-9f));
  });
  BOOST_TEST_MESSAGE("largest differences from FlashAttention: " << largest[0] << ", " << largest[1] << " and "
                                                                 << largest[2]);
}

// A result for the next product is the rounded result, with zeros up to a whole chunk.
template <class E, class P>
void check_rounded_answers() {
  for_shapes([](const Shapes& s) {
    Cuda cuda;
    const OnCuda on_side{cuda};
    const Texts texts(s, kLengths, 4.0f);
    Side<Cuda, P, FlashMma> side(cuda, s, kLengths[0] + 16, 3);
    const auto slopes = on_side(slopes_of(s));
    std::vector<int> known(3, 0);
    for (const auto& rows : kTogether) {
      const Batch batch = batch_of(rows, known);
      const int count = static_cast<int>(batch.tokens.size()), cols = s.heads * s.head_dim;
      const auto q = on_side(Texts::rows_of(texts.q, batch)), k = on_side(Texts::rows_of(texts.k, batch)),
                 v = on_side(Texts::rows_of(texts.v, batch));
      const auto floats = on_side(Matrix(count, cols, cols));
      side.run(batch, q.view(), k.view(), v.view(), slopes.data(), floats.view());
      const Matrix expected = floats.host();
      const std::vector<std::uint16_t> anything(OperandTiles<E>::elements(count, cols), 0x7fff);
      const OnDevice<std::uint16_t> there(cuda, anything);
      const OperandTiles<E> tiles{reinterpret_cast<E*>(there.data()), count, cols};
      side.run_again(batch, q.view(), slopes.data(), tiles);
      const std::vector<std::uint16_t> found = there.values();
      int wrong = 0;
      for (int r = 0; r < count; ++r) {
        for (int c = 0; c < chunk_count(cols) * kChunkColumns; ++c) {
          const std::uint16_t there_is = found[static_cast<std::size_t>(tiles.at(r, c))],
                              wanted = c < cols ? E(expected.row(r)[c]).bits : std::uint16_t{0};
          if (there_is != wanted && wrong++ == 0)
            BOOST_TEST(there_is == wanted, name_of(s) << ", row " << r << ", column " << c);
        }
      }
      BOOST_TEST(wrong == 0, name_of(s) << ", of " << count << " rows");
    }
  });
}
BOOST_AUTO_TEST_CASE(answers_for_a_product_are_rounded_answers) {
  check_rounded_answers<bfloat16, PagedKVOf<32, bfloat16>>();
  check_rounded_answers<float16, PagedKVOf<16, float16>>();
}

// Many rows, whose blocks have few warps, and one row, whose block has a warp per stride.
BOOST_AUTO_TEST_CASE_TEMPLATE(few_warps_as_many, P, Caches) {
  const Shapes s{8, 8, 16, 0, false};
  const std::vector<int> lengths(90, 603);
  const Texts texts(s, lengths, 4.0f);
  const std::vector<int> ones(90, 1);
  std::vector<std::vector<int>> apart{std::vector<int>(90, 600)};
  for (int step = 0; step < 3; ++step) {
    for (std::size_t i = 0; i < 90; ++i) {
      std::vector<int> one(90, 0);
      one[i] = i % 8 == 0 ? 1 : 0;
      if (i % 8 == 0) apart.push_back(one);
    }
  }
  const auto together = on_cuda<P>(s, texts, {std::vector<int>(90, 600), ones, ones, ones}),
             alone = on_cuda<P>(s, texts, apart);
  for (std::size_t i = 0; i < 90; i += 8)
    BOOST_TEST(same_bits(together[i], alone[i]), "text " << i << ": " << first_difference(together[i], alone[i]));
}

// More strides than a block has room for, with a window and without, for one query and for sixteen that share keys.
BOOST_AUTO_TEST_CASE_TEMPLATE(long_texts, P, Caches) {
  for (const Shapes& s : {Shapes{2, 1, 16, 0, false}, Shapes{2, 1, 16, 2'100, true}, Shapes{1, 1, 256, 0, false},
                          Shapes{1, 1, 64, 0, false}, Shapes{16, 1, 64, 0, false}}) {
    const Texts texts(s, {5'002, 5, 3}, 4.0f);
    check_same(on_cuda<P>(s, texts, {{5'000, 3, 1}, {1, 1, 1}, {1, 1, 1}}),
               on_cuda<P>(s, texts, {{4'841, 0, 0}, {161, 0, 0}, {0, 5, 0}, {0, 0, 3}}), s);
  }
}

// A ring that forgets positions before its window.
BOOST_AUTO_TEST_CASE(a_ring_is_as_pages) {
  const Shapes s{4, 2, 64, 100, true};
  const Texts texts(s, {217, 150, 31}, 4.0f);
  std::vector<std::vector<int>> steps;
  for (int known = 0; known < 217; known += steps.back()[0]) {
    const int rows = std::min(known % 5 == 0 ? 12 : 1, 217 - known);
    steps.push_back({rows, std::clamp(150 - known, 0, rows), std::clamp(31 - known, 0, rows)});
  }
  check_same(on_cuda<WindowKVOf<16, bfloat16>>(s, texts, steps),
             on_cuda<PagedKVOf<32, bfloat16>>(s, texts, {{217, 150, 31}}), s);
}

// A block left by another text: NaN follows the new text.
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
      const auto q = on_side(random_matrix(rows, 128, 1)), k = on_side(random_matrix(rows, 64, 2, 0, scale)),
                 v = on_side(random_matrix(rows, 64, 3, 0, scale));
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

// A token whose key or value is NaN, or as large as possible, does not change earlier rows, nor rows whose window has
// passed it, whatever rows are attended with it.
BOOST_AUTO_TEST_CASE_TEMPLATE(tokens_that_a_row_does_not_see, P, Caches) {
  const auto same_row = [](const Matrix& a, const Matrix& b, int r) { return same_bits(a.row(r), b.row(r), a.cols); };
  for (const Shapes& s : {Shapes{2, 1, 64, 0, false}, Shapes{32, 16, 64, 0, false}, Shapes{24, 24, 80, 30, true},
                          Shapes{1, 1, 256, 70, false}}) {
    const Texts plain(s, {90, 150, 1}, 4.0f);
    const auto expected = on_cuda<P>(s, plain, {{90, 150, 1}});
    for (const float value :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 3.4e38f, 1e30f}) {
      for (const int at : {0, 21, 64, 79}) {
        Texts texts = plain, keys = plain;
        std::fill_n(texts.v[0].row(at), texts.v[0].cols, value);
        std::fill_n(keys.k[0].row(at), keys.k[0].cols, value);
        const auto whole = on_cuda<P>(s, texts, {{90, 150, 1}}), of_key = on_cuda<P>(s, keys, {{90, 150, 1}});
        const auto pieces = on_cuda<P>(s, texts, {{7, 1, 1}, {30, 0, 0}, {1, 0, 0}, {52, 0, 0}});
        for (int r = 0; r < 90; ++r) {
          const bool sees = r >= at && (s.window == 0 || r < at + s.window),
                     held = value == 1e30f && !std::is_same_v<typename P::View::Element, float16>;
          if (!sees)
            BOOST_TEST(same_row(whole[0], expected[0], r), name_of(s)
                                                               << ", row " << r << ", value " << value << " at " << at);
          if (!sees)
            BOOST_TEST(same_row(of_key[0], expected[0], r), name_of(s)
                                                                << ", row " << r << ", key " << value << " at " << at);
          if (!sees || held)
            BOOST_TEST(same_row(whole[0], pieces[0], r), name_of(s)
                                                             << ", row " << r << ", value " << value << " at " << at);
        }
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
