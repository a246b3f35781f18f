// store_kv: each key and value goes to one place, rounded by itself, and nothing else changes.
#include <boost/test/unit_test.hpp>

#include <cmath>

#include "helpers.h"
#include "tenon/ops/cpu/store_kv.h"
#include "tenon/ops/reference.h"

BOOST_AUTO_TEST_SUITE(ops_store_kv)

using namespace tenon;
using namespace tenon::test;

namespace {

constexpr int kLength = 70, kSequences = 3;

struct Problem {
  KvShape shape;
  Matrix keys, values;  // [kSequences * kLength, heads * head_dim], one sequence after another

  Problem(int heads, int head_dim)
      : shape{.layers = 2, .heads = heads, .head_dim = head_dim, .positions = kLength},
        keys(random_matrix(kSequences * kLength, heads * head_dim, 1, heads * head_dim + 3)),
        values(random_matrix(kSequences * kLength, heads * head_dim, 2, heads * head_dim + 5)) {}

  // Rows of one sequence at positions start..start+rows-1, as a batch of their own.
  template <class E>
  StoreKvArgs<typename TestKvOf<E>::View> args(const Batch& batch, TestKvOf<E>& kv, int layer, int first_row) const {
    kv.see(batch.view());
    const int rows = static_cast<int>(batch.tokens.size());
    return {.batch = batch.view(),
            .keys = keys.view(first_row, rows),
            .values = values.view(first_row, rows),
            .kv = kv.view(),
            .layer = layer,
            .kv_heads = shape.heads,
            .head_dim = shape.head_dim};
  }
};

template <class E>
bool same_memory(const TestKvOf<E>& a, const TestKvOf<E>& b) {
  return same_bits(a.values().data(), b.values().data(), static_cast<int>(a.values().size()));
}

using Elements = std::tuple<float, bfloat16, std::int8_t>;

}  // namespace

BOOST_AUTO_TEST_CASE(the_reference_puts_things_where_the_contract_says) {
  const Problem p(2, 20);
  TestKv kv(p.shape, kSequences);
  Batch batch;
  append(batch, 1, 0, 35);
  reference::store_kv(p.args(batch, kv, 1, 0));
  for (int t = 0; t < 35; ++t) {
    for (int h = 0; h < 2; ++h) {
      const auto tile = kv.view().tile(1, 1, h, t / 16);
      for (int d = 0; d < 20; ++d) {
        BOOST_REQUIRE(tile.keys[d * 16 + t % 16] == p.keys.row(t)[h * 20 + d]);
        BOOST_REQUIRE(tile.values[t % 16 * 32 + d] == p.values.row(t)[h * 20 + d]);
      }
      for (int d = 20; d < 32; ++d) BOOST_REQUIRE(tile.values[t % 16 * 32 + d] == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_reference_scales_rows_of_int8_by_themselves) {
  const Problem p(2, 20);
  TestKvOf<std::int8_t> kv(p.shape, kSequences);
  Batch batch;
  append(batch, 1, 0, 35);
  reference::store_kv(p.args(batch, kv, 1, 0));
  for (int t = 0; t < 35; ++t) {
    for (int h = 0; h < 2; ++h) {
      const auto tile = kv.view().tile(1, 1, h, t / 16);
      const float *key = p.keys.row(t) + h * 20, *value = p.values.row(t) + h * 20;  // [20]
      int largest_key = 0, largest_value = 0;
      for (int d = 0; d < 20; ++d) {
        const int k = tile.keys[d * 16 + t % 16], v = tile.values[t % 16 * 32 + d];
        BOOST_REQUIRE(std::fabs(static_cast<float>(k) * tile.key_scales[t % 16] - key[d]) <=
                      0.5001f * tile.key_scales[t % 16]);
        BOOST_REQUIRE(std::fabs(static_cast<float>(v) * tile.value_scales[t % 16] - value[d]) <=
                      0.5001f * tile.value_scales[t % 16]);
        largest_key = std::max(largest_key, std::abs(k));
        largest_value = std::max(largest_value, std::abs(v));
      }
      BOOST_REQUIRE((largest_key == 127 && largest_value == 127));
      for (int d = 20; d < 32; ++d) BOOST_REQUIRE(tile.values[t % 16 * 32 + d] == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(any_chunks_and_threads_leave_the_memory_of_the_reference, E, Elements) {
  for (const int head_dim : {1, 4, 16, 17, 20, 64, 80, 128}) {
    const Problem p(head_dim == 20 ? 3 : 1, head_dim);
    for_each_cpu(
        [&](Cpu& device) {
          for (int layer = 0; layer < 2; ++layer) {
            TestKvOf<E> truth(p.shape, kSequences),
                kv(p.shape, kSequences);  // garbage in unwritten places, compared too
            Batch whole;
            append(whole, 2, 0, kLength);
            append(whole, 0, 0, kLength - 7);
            reference::store_kv(p.args(whole, truth, layer, 0));
            store_kv(device, p.args(whole, kv, layer, 0));
            BOOST_TEST(same_memory(kv, truth), name_of(device));

            // The same in chunks of random sizes, the two sequences in turns.
            TestKvOf<E> chunked(p.shape, kSequences);
            Random random(static_cast<std::uint64_t>(head_dim + layer));
            for (int at[2] = {0, 0}, turn = 0; at[0] < kLength || at[1] < kLength - 7; turn ^= 1) {
              const int length = turn ? kLength - 7 : kLength, rows = std::min(1 + random.below(20), length - at[turn]);
              if (rows <= 0) continue;
              Batch chunk;
              append(chunk, turn ? 0 : 2, at[turn], rows);
              store_kv(device, p.args(chunk, chunked, layer, turn * kLength + at[turn]));
              at[turn] += rows;
            }
            BOOST_TEST(same_memory(chunked, truth), name_of(device));
          }
        },
        head_dim == 20 ? 4 : 2);
  }
}

// From inside a tile through whole ones to the end of one, where the memory of keys and values ends.
BOOST_AUTO_TEST_CASE_TEMPLATE(a_text_that_goes_on_within_a_tile_fills_whole_ones, E, Elements) {
  for (const int head_dim : {1, 17, 64}) {
    const Problem p(2, head_dim);
    for_each_cpu(
        [&](Cpu& device) {
          TestKvOf<E> truth(p.shape, kSequences), kv(p.shape, kSequences);
          Batch batch;
          append(batch, 1, 5, 43);
          reference::store_kv(p.args(batch, truth, 1, kSequences * kLength - 43));
          store_kv(device, p.args(batch, kv, 1, kSequences * kLength - 43));
          BOOST_TEST(same_memory(kv, truth), name_of(device));
        },
        3);
  }
}

// Rows of every magnitude, with integers and halves of the scale (ties), and rows that are not finite.
BOOST_AUTO_TEST_CASE_TEMPLATE(rows_of_any_magnitude_are_rounded_as_by_the_reference, E, Elements) {
  const Problem p(1, 64);
  Random random(9);
  constexpr float odd[] = {
      0.0f, -0.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -3e38f, 1e-45f};
  for (const Matrix* m : {&p.keys, &p.values}) {
    for (int r = 0; r < m->rows; ++r) {
      const float scale = std::ldexp(1.0f, random.below(270) - 150);
      const bool halves = random.below(3) == 0, zeros = random.below(20) == 0;
      for (int d = 0; d < 64; ++d) {
        float& x = m->row(r)[d];
        if (halves) x = 0.5f * static_cast<float>(random.below(509) - 254);
        x *= zeros ? 0.0f : scale;
      }
      if (halves) m->row(r)[random.below(64)] = 127 * scale;
      if (random.below(8) == 0) m->row(r)[random.below(64)] = odd[random.below(6)];
    }
  }
  for_each_cpu(
      [&](Cpu& device) {
        TestKvOf<E> truth(p.shape, kSequences), kv(p.shape, kSequences);
        Batch batch;
        for (int s = 0; s < kSequences; ++s) append(batch, s, 0, kLength);
        reference::store_kv(p.args(batch, truth, 0, 0));
        store_kv(device, p.args(batch, kv, 0, 0));
        BOOST_TEST(same_memory(kv, truth), name_of(device));
      },
      2);
}

// A scale belongs to a token: later tokens, however large, leave stored ones unchanged.
BOOST_AUTO_TEST_CASE_TEMPLATE(nothing_is_rescaled_by_later_tokens, E, Elements) {
  const Problem p(2, 20);
  for (int r = 1; r < kLength; ++r) {
    for (int c = 0; c < p.keys.cols; ++c)
      p.keys.row(r)[c] *= std::ldexp(1.0f, r), p.values.row(r)[c] *= std::ldexp(1.0f, r);
  }
  Cpu device({.threads = 1});
  TestKvOf<E> kv(p.shape, 1);
  for (int t = 0; t < kLength; ++t) {
    const TestKvOf<E> before = kv;
    Batch batch;
    append(batch, 0, t, 1);
    store_kv(device, p.args(batch, kv, 0, t));
    for (int earlier = 0; earlier < t; ++earlier) {
      const auto was = before.view().tile(0, 0, 1, earlier / 16), is = kv.view().tile(0, 0, 1, earlier / 16);
      const int lane = earlier % 16;
      for (int d = 0; d < 20; ++d)
        BOOST_REQUIRE(std::memcmp(was.keys + d * 16 + lane, is.keys + d * 16 + lane, sizeof(E)) == 0);
      BOOST_REQUIRE(std::memcmp(was.values + lane * 32, is.values + lane * 32, 32 * sizeof(E)) == 0);
      if (has_scales<E>)
        BOOST_REQUIRE((was.key_scales[lane] == is.key_scales[lane] && was.value_scales[lane] == is.value_scales[lane]));
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_value_in_the_wrong_place_is_seen, E, Elements) {
  const Problem p(1, 16);
  TestKvOf<E> truth(p.shape, 1), kv(p.shape, 1);
  Cpu device({.threads = 1});
  Batch batch, late;
  append(batch, 0, 0, 17);
  append(late, 0, 1, 17);
  reference::store_kv(p.args(batch, truth, 0, 0));
  store_kv(device, p.args(late, kv, 0, 0));
  BOOST_TEST(!same_memory(kv, truth));
}

BOOST_AUTO_TEST_CASE(a_sequence_without_rows_between_others_gets_nothing) {
  const Problem p(1, 16);
  for_each_cpu([&](Cpu& device) {
    TestKv truth(p.shape, 3), kv(p.shape, 3);
    Batch batch;
    append(batch, 2, 0, 5);
    append(batch, 1, 3, 0);
    append(batch, 0, 7, 20);
    reference::store_kv(p.args(batch, truth, 1, 0));
    store_kv(device, p.args(batch, kv, 1, 0));
    BOOST_TEST(same_memory(kv, truth), name_of(device));
  });
}

BOOST_AUTO_TEST_CASE(zero_rows_write_nothing) {
  const Problem p(1, 16);
  TestKv kv(p.shape, 1);
  Cpu device({.threads = 2});
  Batch empty;
  store_kv(device, p.args(empty, kv, 0, 0));
  append(empty, 0, 0, 0);
  store_kv(device, p.args(empty, kv, 0, 0));
  BOOST_TEST(std::isnan(kv.values().data()[0]));
}

BOOST_AUTO_TEST_SUITE_END()
