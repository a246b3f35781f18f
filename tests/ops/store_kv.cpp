// store_kv: each key and value goes to one place, and nothing else is touched.
#define BOOST_TEST_MODULE tenon ops store_kv
#include <boost/test/unit_test.hpp>

#include <cmath>

#include "helpers.h"
#include "tenon/ops/cpu/store_kv.h"
#include "tenon/ops/reference.h"

using namespace tenon;
using namespace tenon::test;

namespace {

constexpr int kLength = 70, kSequences = 3;

struct Problem {
  KvShape shape;
  Matrix keys, values;  // [kSequences * kLength, heads * head_dim], one sequence behind the other

  Problem(int heads, int head_dim)
      : shape{.layers = 2, .heads = heads, .head_dim = head_dim, .positions = kLength},
        keys(random_matrix(kSequences * kLength, heads * head_dim, 1, heads * head_dim + 3)),
        values(random_matrix(kSequences * kLength, heads * head_dim, 2, heads * head_dim + 5)) {}

  // The rows of one sequence at positions start..start+rows-1, as a batch of its own.
  StoreKvArgs<TestKv::View> args(const Batch& batch, TestKv& kv, int layer, int first_row) const {
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

BOOST_AUTO_TEST_CASE(any_chunks_and_threads_leave_the_memory_of_the_reference) {
  for (const int head_dim : {4, 16, 20, 64, 80, 128}) {
    const Problem p(head_dim == 20 ? 3 : 1, head_dim);
    for_each_cpu([&](Cpu& device) {
      for (int layer = 0; layer < 2; ++layer) {
        TestKv truth(p.shape, kSequences), kv(p.shape, kSequences);  // NaN where nobody writes: compared by bits, too
        Batch whole;
        append(whole, 2, 0, kLength);
        append(whole, 0, 0, kLength - 7);
        reference::store_kv(p.args(whole, truth, layer, 0));
        store_kv(device, p.args(whole, kv, layer, 0));
        BOOST_TEST(same_bits(kv.values().data(), truth.values().data(), static_cast<int>(kv.values().size())), name_of(device));

        // The same in chunks of random sizes, the two sequences taking turns.
        TestKv chunked(p.shape, kSequences);
        Random random(static_cast<std::uint64_t>(head_dim + layer));
        for (int at[2] = {0, 0}, turn = 0; at[0] < kLength || at[1] < kLength - 7; turn ^= 1) {
          const int length = turn ? kLength - 7 : kLength, rows = std::min(1 + random.below(20), length - at[turn]);
          if (rows <= 0) continue;
          Batch chunk;
          append(chunk, turn ? 0 : 2, at[turn], rows);
          store_kv(device, p.args(chunk, chunked, layer, turn * kLength + at[turn]));
          at[turn] += rows;
        }
        BOOST_TEST(same_bits(chunked.values().data(), truth.values().data(), static_cast<int>(kv.values().size())), name_of(device));
      }
    }, head_dim == 20 ? 4 : 2);
  }
}

BOOST_AUTO_TEST_CASE(a_value_in_the_wrong_place_is_seen) {
  const Problem p(1, 16);
  TestKv truth(p.shape, 1), kv(p.shape, 1);
  Cpu device({.threads = 1});
  Batch batch, late;
  append(batch, 0, 0, 17);
  append(late, 0, 1, 17);
  reference::store_kv(p.args(batch, truth, 0, 0));
  store_kv(device, p.args(late, kv, 0, 0));
  BOOST_TEST(!same_bits(kv.values().data(), truth.values().data(), static_cast<int>(kv.values().size())));
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
    BOOST_TEST(same_bits(kv.values().data(), truth.values().data(), static_cast<int>(kv.values().size())), name_of(device));
  });
}

BOOST_AUTO_TEST_CASE(no_rows_are_no_work) {
  const Problem p(1, 16);
  TestKv kv(p.shape, 1);
  Cpu device({.threads = 2});
  Batch empty;
  store_kv(device, p.args(empty, kv, 0, 0));
  append(empty, 0, 0, 0);
  store_kv(device, p.args(empty, kv, 0, 0));
  BOOST_TEST(std::isnan(kv.values().data()[0]));
}
