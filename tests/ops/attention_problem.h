// Shared by the tests of attention: texts, the steps of an engine that runs them in any pieces, and comparisons.
#pragma once
#include <array>
#include <cmath>
#include <tuple>

#include "helpers.h"
#include "tenon/ops/cpu/all.h"
#include "tenon/ops/reference.h"

namespace tenon::test {

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Sequences of one length. Sequence s has the rows s * length .. of q, keys and values, and slot sequences - 1 - s.
// Keys and values are stored as E.
template <class E>
struct AttentionProblem {
  using Kv = TestKvOf<E>;
  int sequences, length, heads, kv_heads, head_dim;
  float scale;
  Matrix q, keys, values;
  int window = 0;
  std::vector<float> slopes = {};      // [heads], or none
  std::vector<float> key_biases = {};  // [heads, length rounded up to 64], or none
  std::vector<float> sinks = {};       // [heads], or none
  bool forgets = false;                // positions that no later row sees are gone when a step begins

  AttentionProblem(int n, int positions, int query_heads, int key_heads, int dim, float q_scale = 4.0f)
      : sequences(n),
        length(positions),
        heads(query_heads),
        kv_heads(key_heads),
        head_dim(dim),
        scale(1.0f / std::sqrt(static_cast<float>(dim))),
        q(random_matrix(n * positions, query_heads * dim, 1, query_heads * dim + 3, q_scale)),
        keys(random_matrix(n * positions, key_heads * dim, 2, key_heads * dim + 5)),
        values(random_matrix(n * positions, key_heads * dim, 3, key_heads * dim + 7)) {}

  KvShape shape() const { return {.layers = 2, .heads = kv_heads, .head_dim = head_dim, .positions = length}; }
  Kv cache() const { return Kv(shape(), sequences); }
  int slot(int sequence) const { return sequences - 1 - sequence; }
  Matrix output() const { return Matrix(sequences * length, heads * head_dim, heads * head_dim + 9); }
  AttentionArgs<typename Kv::View> args(const Batch& batch, const Matrix& some_q, const Kv& kv,
                                        const Matrix& out) const {
    return {.batch = batch.view(),
            .q = some_q.view(),
            .kv = kv.view(),
            .layer = 1,
            .heads = heads,
            .kv_heads = kv_heads,
            .head_dim = head_dim,
            .scale = scale,
            .out = out.view(),
            .window = window,
            .slopes = slopes.empty() ? nullptr : slopes.data(),
            .key_biases = key_biases.empty() ? nullptr : key_biases.data(),
            .key_bias_stride = (length + 63) / 64 * 64,
            .sinks = sinks.empty() ? nullptr : sinks.data()};
  }
};

struct Piece {
  int sequence, start, rows;
};

inline void copy_row(const Matrix& from, int r, const Matrix& to, int i) {
  std::memcpy(to.row(i), from.row(r), static_cast<std::size_t>(from.cols) * sizeof(float));
}

// One step of an engine: stores the pieces' keys and values, then calls op(attention args) for the rows of `out`.
template <class E, class Op>
void step(const AttentionProblem<E>& p, TestKvOf<E>& kv, const std::vector<Piece>& pieces, const Matrix& out, Op&& op) {
  Batch batch;
  for (const Piece& piece : pieces) append(batch, p.slot(piece.sequence), piece.start, piece.rows);
  kv.see(batch.view());
  const int rows = static_cast<int>(batch.tokens.size());
  Matrix q(rows, p.q.cols, p.q.cols + 1), keys(rows, p.keys.cols, p.keys.cols),
      values(rows, p.values.cols, p.values.cols), y(rows, out.cols, out.cols + 2);
  int i = 0;
  for (const Piece& piece : pieces) {
    for (int r = piece.sequence * p.length + piece.start, end = r + piece.rows; r < end; ++r, ++i) {
      copy_row(p.q, r, q, i);
      copy_row(p.keys, r, keys, i);
      copy_row(p.values, r, values, i);
    }
  }
  reference::store_kv(StoreKvArgs<typename TestKvOf<E>::View>{.batch = batch.view(),
                                                              .keys = keys.view(),
                                                              .values = values.view(),
                                                              .kv = kv.view(),
                                                              .layer = 1,
                                                              .kv_heads = p.kv_heads,
                                                              .head_dim = p.head_dim});
  for (const Piece& piece : pieces) {
    if (p.forgets && p.window > 0) kv.forget(p.slot(piece.sequence), piece.start - p.window + 1);
  }
  op(p.args(batch, q, kv, y));
  if (!gaps_untouched(y)) throw std::runtime_error("attention wrote between rows");
  i = 0;
  for (const Piece& piece : pieces) {
    for (int r = piece.sequence * p.length + piece.start, end = r + piece.rows; r < end; ++r, ++i)
      copy_row(y, i, out, r);
  }
}

// Each row alone, as in decoding: nothing after it in the cache, no other row in the step.
template <class E, class Op>
Matrix alone(const AttentionProblem<E>& p, Op&& op) {
  auto kv = p.cache();
  Matrix out = p.output();
  for (int s = 0; s < p.sequences; ++s) {
    for (int t = 0; t < p.length; ++t) step(p, kv, {{s, t, 1}}, out, op);
  }
  return out;
}

template <class E, class Op>
Matrix at_once(const AttentionProblem<E>& p, Op&& op) {
  auto kv = p.cache();
  Matrix out = p.output();
  std::vector<Piece> pieces;
  for (int s = 0; s < p.sequences; ++s) pieces.push_back({s, 0, p.length});
  step(p, kv, pieces, out, op);
  return out;
}

// Every sequence at its own pace, in any order: pieces of 1..most rows.
template <class E, class Op>
Matrix in_chunks(const AttentionProblem<E>& p, int most, std::uint64_t seed, Op&& op) {
  auto kv = p.cache();
  Matrix out = p.output();
  Random random(seed);
  std::vector<int> done(static_cast<std::size_t>(p.sequences), 0);
  for (int left = p.sequences * p.length; left > 0;) {
    std::vector<Piece> pieces;
    const int first = random.below(p.sequences);
    for (int i = 0; i < p.sequences; ++i) {
      const int s = (first + i) % p.sequences;
      int& start = done[static_cast<std::size_t>(s)];
      const int rows = std::min(random.below(4) == 0 ? 1 : 1 + random.below(most), p.length - start);
      if (rows <= 0 || random.below(3) == 0) continue;
      pieces.push_back({s, start, rows});
      start += rows;
      left -= rows;
    }
    if (!pieces.empty()) step(p, kv, pieces, out, op);
  }
  return out;
}

template <class Policy>
auto op_on(Cpu& device) {
  return [&device](const auto& args) { attention(device, Policy{}, args); };
}
template <class Policy, class E>
Matrix truth_of(const AttentionProblem<E>& p) {
  Cpu plain({.threads = 1, .isa = Isa::portable});
  return alone(p, op_on<Policy>(plain));
}

inline double largest_difference(const Matrix& a, const Matrix& b) {
  double largest = 0;
  for (int r = 0; r < a.rows; ++r) {
    for (int c = 0; c < a.cols; ++c) {
      const double difference = std::fabs(double{a.row(r)[c]} - b.row(r)[c]);
      if (!(difference <= largest)) largest = difference;  // NaN counts
    }
  }
  return largest;
}

// Head counts and widths with every tail of the kernels, grouped heads among them.
template <class E>
std::vector<AttentionProblem<E>> problems(int sequences, int length) {
  std::vector<AttentionProblem<E>> all;
  for (const auto& [heads, kv_heads, dim] :
       {std::array{2, 2, 4}, {4, 2, 16}, {3, 1, 20}, {2, 1, 64}, {2, 2, 80}, {1, 1, 128}}) {
    all.emplace_back(sequences, length, heads, kv_heads, dim);
  }
  return all;
}

template <class P, class Elem>
struct Over {
  using Policy = P;
  using E = Elem;
};
using Cases = std::tuple<Over<FlashAttention, float>, Over<FlashAttention, bfloat16>, Over<FlashAttention, std::int8_t>,
                         Over<FlashAttention, float16>, Over<DirectAttention, float>, Over<DirectAttention, bfloat16>,
                         Over<DirectAttention, std::int8_t>>;
using Policies = std::tuple<FlashAttention, DirectAttention>;
using Elements = std::tuple<float, bfloat16, std::int8_t>;

// Elements differ in how sixteen of them are loaded, not in where a row ends: float32 tries every place, the others
// some.
template <class E>
constexpr int kEvery = std::is_same_v<E, float> ? 1 : 4;

}  // namespace tenon::test
