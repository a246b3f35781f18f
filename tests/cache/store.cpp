#include "tenon/cache/store.h"

#include <boost/mpl/list.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdint>

#include "tenon/cache/contiguous.h"
#include "tenon/cache/no_cache.h"
#include "tenon/cache/paged.h"
#include "tenon/device/cpu.h"

BOOST_AUTO_TEST_SUITE(cache_store)

using namespace tenon;

using Caches = boost::mpl::list<NoCache, ContiguousKV, PagedKV, PagedKVOf<32>, PagedKVOf<64>, NoCacheOf<bfloat16>,
                                ContiguousKVOf<bfloat16>, PagedKVOf<16, bfloat16>, NoCacheOf<std::int8_t>,
                                ContiguousKVOf<std::int8_t>, PagedKVOf<64, std::int8_t>>;

BOOST_AUTO_TEST_CASE_TEMPLATE(views_show_the_memory_of_the_store, P, Caches) {
  using Element = typename P::View::Element;
  const KvShape shape{2, 2, 20, 64};
  Cpu cpu({.threads = 1});
  CacheStore<P, Cpu> store(cpu, shape, 128);
  BOOST_TEST(store.stats().capacity_tokens == 128);
  BOOST_TEST(store.stats().used_tokens == 0);
  BOOST_TEST(store.stats().bytes == P::bytes(shape, 128));
  store.view(cpu, {});

  BOOST_TEST(store.ledger().grow(5, 20));
  BOOST_TEST(store.stats().used_tokens >= 20);
  std::vector<SequenceRows> rows{{5, 0, 20, 0, 0}};
  for (int layer = 0; layer < shape.layers; ++layer) {
    const auto view = store.view(cpu, rows);
    for (int head = 0; head < shape.heads; ++head) {
      for (int t = 0; t < 2; ++t) {
        const auto tile = view.tile(layer, 0, head, t);
        // Vectors of 16 elements are loaded from here.
        BOOST_TEST(reinterpret_cast<std::uintptr_t>(tile.keys) % 64 == 0U);
        BOOST_TEST(reinterpret_cast<std::uintptr_t>(tile.values) % 64 == 0U);
        for (int i = 0; i < kTilePositions * shape.value_stride(); ++i) {
          BOOST_TEST_REQUIRE(static_cast<float>(tile.values[i]) == 0);
        }
        if (has_scales<Element>) BOOST_TEST(reinterpret_cast<std::uintptr_t>(tile.key_scales) % 64 == 0U);
        tile.keys[0] = static_cast<Element>(static_cast<float>(layer + 10 * head + 100 * t + 1));
      }
    }
  }
  if (!P::keeps_tokens) return;
  BOOST_TEST(store.ledger().grow(6, 1));
  rows = {{6, 0, 1, 0, 0}, {5, 1, 0, 20, 1}};
  const auto view = store.view(cpu, rows);
  for (int layer = 0; layer < shape.layers; ++layer) {
    for (int head = 0; head < shape.heads; ++head) {
      for (int t = 0; t < 2; ++t) {
        const auto key = static_cast<float>(view.tile(layer, 1, head, t).keys[0]);
        BOOST_TEST(key == static_cast<float>(layer + 10 * head + 100 * t + 1));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(stores_move_and_their_tiles_stay) {
  Cpu cpu({.threads = 1});
  CacheStore<PagedKV, Cpu> store(cpu, {1, 1, 4, 64}, 64);
  BOOST_TEST(store.ledger().grow(1, 3));
  const std::vector<SequenceRows> rows{{1, 0, 3, 0, 0}};
  store.view(cpu, rows).tile(0, 0, 0, 0).keys[2] = 5;
  CacheStore<PagedKV, Cpu> moved = std::move(store);
  BOOST_TEST(moved.view(cpu, rows).tile(0, 0, 0, 0).keys[2] == 5);
  BOOST_TEST(moved.stats().used_tokens == 16);
  static_assert(!std::is_copy_constructible_v<CacheStore<PagedKV, Cpu>>);
}

BOOST_AUTO_TEST_CASE(a_cache_that_cannot_be_is_refused) {
  Cpu cpu({.threads = 1});
  using Store = CacheStore<PagedKV, Cpu>;
  BOOST_CHECK_THROW(Store(cpu, {1, 1, 4, 64}, 0), Error);
  BOOST_CHECK_THROW(Store(cpu, {1 << 30, 1 << 30, 64, 64}, 64), Error);
}

BOOST_AUTO_TEST_SUITE_END()
