#include "tenon/cache/no_cache.h"

#include <boost/test/unit_test.hpp>

#include "tenon/testing/cache_laws.h"

BOOST_AUTO_TEST_SUITE(cache_no_cache)

using namespace tenon;

BOOST_AUTO_TEST_CASE(room_is_counted_in_tiles_for_one_step) {
  auto ledger = NoCache::ledger({9, 1, 4, 40}, 60);
  BOOST_TEST(ledger.free_tokens() == 64);
  BOOST_TEST(ledger.capacity_tokens() == 40);
  BOOST_TEST(ledger.grow(1, 17));
  BOOST_TEST(ledger.free_tokens() == 32);
  BOOST_TEST(ledger.grow(2, 32));
  BOOST_TEST(!ledger.grow(3, 1));
  BOOST_TEST(ledger.grow(1, 15));
  BOOST_TEST(!ledger.grow(1, 1));
  ledger.release(1);
  ledger.release(2);
  BOOST_TEST(ledger.free_tokens() == 64);
}

BOOST_AUTO_TEST_CASE(one_layer_is_stored_whatever_the_model_has) {
  BOOST_TEST(NoCache::bytes({9, 3, 20, 1000}, 100) == std::size_t{7 * 3} * 16 * 52 * sizeof(float));
  BOOST_TEST(NoCache::bytes({9, 3, 20, 1000}, 100) == NoCache::bytes({1, 3, 20, 1000}, 100));
  BOOST_TEST(NoCacheOf<bfloat16>::bytes({9, 3, 20, 1000}, 100) == std::size_t{7 * 3} * 16 * 52 * 2);
  BOOST_TEST(NoCacheOf<std::int8_t>::bytes({9, 3, 20, 1000}, 100) == std::size_t{7 * 3} * 16 * (52 + 2 * 4));
}

BOOST_AUTO_TEST_CASE(sequences_lie_in_the_order_of_the_batch) {
  const KvShape shape{2, 3, 20, 100};
  auto ledger = NoCache::ledger(shape, 100);
  BOOST_TEST(ledger.grow(1, 17));
  BOOST_TEST(ledger.grow(2, 33));
  const std::vector<SequenceRows> rows{{2, 0, 33, 0, 0}, {1, 33, 17, 0, 1}};
  std::vector<std::int32_t> table(NoCache::table_entries(shape, rows));
  std::vector<float> storage(NoCache::bytes(shape, 100) / sizeof(float));
  const auto view = NoCache::view(shape, 100, ledger, rows, storage.data(), table);
  const std::ptrdiff_t tile = 16 * 20 + 16 * 32;
  const auto offset = [&](int l, int s, int h, int t) { return view.tile(l, s, h, t).keys - storage.data(); };
  BOOST_TEST(offset(0, 0, 0, 1) == tile);
  BOOST_TEST(offset(0, 0, 2, 1) == 7 * tile);
  BOOST_TEST(offset(0, 1, 0, 0) == 9 * tile);
  BOOST_TEST(offset(0, 1, 2, 1) == 14 * tile);
  BOOST_TEST(offset(1, 1, 2, 1) == 14 * tile);
  const SequenceRows beyond{1, 0, 18, 0, 0};
  BOOST_CHECK_THROW(NoCache::view(shape, 100, ledger, {&beyond, 1}, storage.data(), table), Error);
}

BOOST_AUTO_TEST_CASE(laws) {
  BOOST_TEST(testing::cache_laws<NoCache>() == testing::Violations{}, boost::test_tools::per_element());
  BOOST_TEST(testing::cache_laws<NoCacheOf<bfloat16>>() == testing::Violations{});
  BOOST_TEST(testing::cache_laws<NoCacheOf<std::int8_t>>() == testing::Violations{});
}

BOOST_AUTO_TEST_SUITE_END()
