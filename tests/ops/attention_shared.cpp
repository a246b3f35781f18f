// Attention whose query heads share key/value heads: each head gets the same result as with its own copy of them,
// however rows and heads are grouped into work.
#include <boost/test/unit_test.hpp>

#include <set>
#include <tuple>

#include "attention_problem.h"

BOOST_AUTO_TEST_SUITE(ops_attention_shared)

using namespace tenon;
using namespace tenon::test;

namespace {

template <class E>
AttentionProblem<E> grouped(int length, int heads, int kv_heads, int dim, int window = 0, bool sloped = false) {
  AttentionProblem<E> p(1, length, heads, kv_heads, dim);
  p.window = window;
  for (int h = 0; sloped && h < heads; ++h) p.slopes.push_back(1.0f / static_cast<float>(h + 2));
  return p;
}

// The same with keys and values of its own for each query head.
template <class E>
AttentionProblem<E> repeated(const AttentionProblem<E>& p) {
  AttentionProblem<E> all(p.sequences, p.length, p.heads, p.heads, p.head_dim);
  all.q = p.q;
  all.window = p.window;
  all.slopes = p.slopes;
  const int group = p.heads / p.kv_heads;
  for (int r = 0; r < p.length * p.sequences; ++r) {
    for (int h = 0; h < p.heads; ++h) {
      const std::size_t bytes = static_cast<std::size_t>(p.head_dim) * sizeof(float);
      std::memcpy(all.keys.row(r) + h * p.head_dim, p.keys.row(r) + h / group * p.head_dim, bytes);
      std::memcpy(all.values.row(r) + h * p.head_dim, p.values.row(r) + h / group * p.head_dim, bytes);
    }
  }
  return all;
}

// Groups that fill a job, that do not, that leave single queries, and that are larger than a job.
template <class E>
std::vector<AttentionProblem<E>> groups() {
  std::vector<AttentionProblem<E>> all;
  for (const auto& [heads, kv_heads, dim] : {std::array{4, 2, 16},
                                             {6, 2, 20},
                                             {5, 1, 4},
                                             {8, 1, 64},
                                             {32, 2, 4},
                                             {48, 1, 4},
                                             {63, 1, 4},
                                             {64, 1, 4},
                                             {65, 1, 4},
                                             {130, 2, 7}}) {
    all.push_back(grouped<E>(90, heads, kv_heads, dim));
    all.push_back(grouped<E>(90, heads, kv_heads, dim, 21, true));
  }
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(shared_heads_are_heads_with_keys_repeated, Case, Cases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  for (const auto& p : groups<E>()) {
    Cpu best;
    const Matrix own = at_once(repeated(p), op_on<Policy>(best));
    for_each_cpu(
        [&](Cpu& device) {
          if (device.isa() == Isa::portable && p.heads > 8) return;  // slow; its rows are compared below
          BOOST_TEST_CONTEXT(name_of(device)
                             << ", " << p.heads << " heads, " << p.kv_heads << " of keys, window " << p.window) {
            BOOST_TEST(first_difference(at_once(p, op_on<Policy>(device)).view(), own.view()) == -1);
            BOOST_TEST(first_difference(in_chunks(p, 20, 3, op_on<Policy>(device)).view(), own.view()) == -1);
          }
        },
        1);
  }
}

// One row alone is too little work for many threads, so they part its heads; many rows are not parted.
BOOST_AUTO_TEST_CASE_TEMPLATE(threads_may_part_a_group, Case, Cases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  for (const auto& p : groups<E>()) {
    for (const Isa isa : isas()) {
      if (isa == Isa::portable && p.heads > 48) continue;
      Cpu one({.threads = 1, .isa = isa});
      const Matrix truth = at_once(p, op_on<Policy>(one));
      for (const int threads : {2, 3, 7, 16}) {
        Cpu device({.threads = threads, .isa = isa});
        auto kv = p.cache();
        Matrix out = p.output();
        step(p, kv, {{0, 0, p.length - 2}}, out, op_on<Policy>(device));
        for (int r = p.length - 2; r < p.length; ++r) step(p, kv, {{0, r, 1}}, out, op_on<Policy>(device));
        BOOST_TEST(first_difference(out.view(), truth.view()) == -1, name_of(device) << ", " << p.heads << " heads");
      }
    }
  }
}

// A neighbour with NaN keys, in another head and in another sequence.
BOOST_AUTO_TEST_CASE_TEMPLATE(a_group_does_not_leak_into_another, Case, Cases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  AttentionProblem<E> p(2, 70, 6, 2, 20);
  const Matrix truth = truth_of<Policy>(p);
  auto hostile = p;
  for (int r = 0; r < p.length; ++r) {  // sequence 0, first key/value head
    for (int d = 0; d < p.head_dim; ++d) hostile.keys.row(r)[d] = hostile.values.row(r)[d] = kNaN;
  }
  for_each_cpu(
      [&](Cpu& device) {
        const Matrix out = at_once(hostile, op_on<Policy>(device));
        BOOST_TEST(first_difference(out.view(p.length, p.length), truth.view(p.length, p.length)) == -1);
        for (int r = 0; r < p.length; ++r) {
          BOOST_TEST(same_bits(out.row(r) + 3 * p.head_dim, truth.row(r) + 3 * p.head_dim, 3 * p.head_dim));
          BOOST_TEST(std::isnan(out.row(r)[0]));
        }
      },
      2);
}

BOOST_AUTO_TEST_CASE(items_hold_every_row_and_head_once) {
  for (const auto& [heads, kv_heads] : {std::pair{1, 1}, {12, 12}, {32, 8}, {48, 1}, {65, 1}}) {
    const AttentionProblem<float> p(1, 100, heads, kv_heads, 4);
    const auto kv = p.cache();
    const Matrix out = p.output();
    Batch batch;
    append(batch, 0, 3, 97);
    append(batch, 0, 0, 0);
    append(batch, 0, 7, 1);
    for (const int most_rows : {1, 5, 16}) {
      for (const int most_heads : {1, 3, 64}) {
        std::set<std::tuple<int, int, int>> seen;
        const int group = heads / kv_heads;
        for (const auto& item : cpu::attention_items(p.args(batch, p.q, kv, out), most_rows, most_heads)) {
          BOOST_REQUIRE(
              (item.rows <= most_rows && item.heads <= most_heads && item.first_head / group == item.kv_head));
          BOOST_REQUIRE((item.first_head + item.heads - 1) / group == item.kv_head);
          for (int i = 0; i < item.rows * item.heads; ++i) {
            BOOST_REQUIRE(
                seen.insert({item.sequence, item.first_row + i / item.heads, item.first_head + i % item.heads}).second);
          }
        }
        BOOST_TEST(seen.size() == static_cast<std::size_t>(98 * heads));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(groups_are_parted_only_where_threads_want_for_work) {
  for (int threads = 1; threads <= 64; ++threads) {
    for (int group = 1; group <= 130; ++group) {
      for (const int items : {1, 2, 8, 100, 1000}) {
        const int together = cpu::heads_together(items, group, threads);
        const int parts = items * ((group + together - 1) / together);
        BOOST_REQUIRE((together >= 1 && together <= cpu::kAttentionQueries));
        BOOST_REQUIRE((parts >= threads || together == 1));
        if (items >= 4 * threads) BOOST_REQUIRE(together == std::min(group, cpu::kAttentionQueries));
        if (items >= threads && group < 16) BOOST_REQUIRE(together == group);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
