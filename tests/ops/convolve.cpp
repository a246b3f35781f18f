// convolve_positions: every row equals the formula to the bit, in any chunks, on any threads, from any cache.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <vector>

#include "helpers.h"
#include "tenon/ops/cpu/convolve.h"
#include "tenon/ops/cpu/store_kv.h"
#include "tenon/ops/reference.h"

BOOST_AUTO_TEST_SUITE(ops_convolve)

using namespace tenon;
using namespace tenon::test;

namespace {

constexpr int kLength = 70, kSequences = 3;

struct Problem {
  KvShape shape;
  int n, taps;
  Matrix inputs, gates;  // [kSequences * kLength, n], one sequence after another
  Matrix weights;        // [n, taps]
  std::vector<float> bias;

  Problem(int heads, int head_dim, int tap_count)
      : shape{.layers = 2, .heads = heads + 1, .head_dim = head_dim, .positions = kLength},
        n(2 * heads * head_dim),
        taps(tap_count),
        inputs(random_matrix(kSequences * kLength, n, 1, n + 3)),
        gates(random_matrix(kSequences * kLength, n, 2, n + 5)),
        weights(random_matrix(n, taps, 3, taps)),
        bias(static_cast<std::size_t>(n)) {
    for (int i = 0; i < n; ++i) bias[static_cast<std::size_t>(i)] = 0.1f * static_cast<float>(i % 7 - 3);
  }

  // Stores the inputs of the batch's rows, the first of which is row first_row of the problem.
  template <class E>
  void store(Cpu& device, const Batch& batch, TestKvOf<E>& kv, int first_row) const {
    kv.see(batch.view());
    const int rows = static_cast<int>(batch.tokens.size());
    const auto all = inputs.view(first_row, rows);
    const auto half = [&](int first) { return MatrixView<const float>{all.data + first, rows, n / 2, all.stride}; };
    store_kv(device, StoreKvArgs<typename TestKvOf<E>::View>{batch.view(), half(0), half(n / 2), kv.view(), 1,
                                                             shape.heads - 1, shape.head_dim});
  }
  Matrix results() const { return Matrix(kSequences * kLength, n, n + 1); }
  template <class E>
  ConvolveArgs<typename TestKvOf<E>::View> args(const Batch& batch, TestKvOf<E>& kv, int first_row, Matrix& y) const {
    const int rows = static_cast<int>(batch.tokens.size());
    return {.batch = batch.view(),
            .gates = gates.view(first_row, rows),
            .kv = kv.view(),
            .layer = 1,
            .kv_heads = shape.heads - 1,
            .head_dim = shape.head_dim,
            .taps = taps,
            .weights = weights.row(0),
            .bias = taps % 2 ? bias.data() : nullptr,
            .y = y.view(first_row, rows)};
  }
};

using Elements = std::tuple<float, bfloat16, float16, std::int8_t>;

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(any_chunks_and_threads_give_the_bits_of_the_formula, E, Elements) {
  for (const int taps : {1, 2, 3, 4, 7}) {
    for (const int head_dim : {2, 8, 17}) {
      const Problem p(2, head_dim, taps);
      for_each_cpu(
          [&](Cpu& device) {
            TestKvOf<E> kv(p.shape, kSequences);
            Batch whole;
            for (int s = 0; s < kSequences; ++s) append(whole, s, 0, kLength);
            p.store(device, whole, kv, 0);
            Matrix truth = p.results(), together = p.results();
            reference::convolve_positions(p.args(whole, kv, 0, truth));
            convolve_positions(device, p.args(whole, kv, 0, together));
            BOOST_TEST(same_bits(together, truth), name_of(device));

            // The same step by step, the sequences in turns: inputs of earlier steps are in the cache alone.
            TestKvOf<E> later(p.shape, kSequences);
            Matrix chunked = p.results();
            Random random(static_cast<std::uint64_t>(head_dim + taps));
            std::vector<int> at(kSequences);
            for (int turn = 0; *std::min_element(at.begin(), at.end()) < kLength; turn = (turn + 1) % kSequences) {
              int& begin = at[static_cast<std::size_t>(turn)];
              const int rows = std::min(1 + random.below(20), kLength - begin);
              if (rows <= 0) continue;
              Batch chunk;
              append(chunk, turn, begin, rows);
              p.store(device, chunk, later, turn * kLength + begin);
              convolve_positions(device, p.args(chunk, later, turn * kLength + begin, chunked));
              begin += rows;
            }
            BOOST_TEST(same_bits(chunked, truth), name_of(device));
          },
          2);
    }
  }
}

// A row reads its own sequence and no position outside its taps: with anything else there, its bits stay.
BOOST_AUTO_TEST_CASE(other_positions_and_sequences_leave_a_row_unchanged) {
  const Problem p(1, 8, 3);
  Cpu device({.threads = 2});
  TestKv kv(p.shape, kSequences);
  Batch whole, row;
  for (int s = 0; s < kSequences; ++s) append(whole, s, 0, kLength);
  append(row, 1, 40, 1);
  p.store(device, whole, kv, 0);
  Matrix before = p.results(), after = p.results();
  convolve_positions(device, p.args(row, kv, kLength + 40, before));
  kv.forget(1, 38);
  kv.forget(0, kLength);
  convolve_positions(device, p.args(row, kv, kLength + 40, after));
  BOOST_TEST(same_bits(before, after));
  kv.forget(1, 39);  // the twin: the first of the three positions is gone
  convolve_positions(device, p.args(row, kv, kLength + 40, after));
  BOOST_TEST(!same_bits(before, after));
}

BOOST_AUTO_TEST_SUITE_END()
