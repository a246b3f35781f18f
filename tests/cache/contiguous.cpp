#include "tenon/cache/contiguous.h"

#include <boost/test/unit_test.hpp>
#include <limits>

#include "tenon/testing/cache_laws.h"

BOOST_AUTO_TEST_SUITE(cache_contiguous)

using namespace tenon;

BOOST_AUTO_TEST_CASE(a_sequence_has_a_slot_or_nothing) {
  auto ledger = ContiguousKV::ledger({1, 1, 4, 30}, 75);  // two slots, and a half that is none
  BOOST_TEST(ledger.free_tokens() == 60);
  BOOST_TEST(ledger.capacity_tokens() == 30);
  BOOST_TEST(ledger.grow(1, 1));
  BOOST_TEST(ledger.free_tokens() == 30);
  BOOST_TEST(ledger.grow(1, 29));
  BOOST_TEST(!ledger.grow(1, 1));
  BOOST_TEST(ledger.grow(2, 30));
  BOOST_TEST(!ledger.grow(3, 1));
  BOOST_TEST(ledger.slot(1).slot == 0);
  BOOST_TEST(ledger.slot(2).slot == 1);
  BOOST_TEST(ledger.slot(3).tokens == 0);
  ledger.release(1);
  BOOST_TEST(ledger.grow(3, 1));
  BOOST_TEST(ledger.slot(3).slot == 0);
}

BOOST_AUTO_TEST_CASE(one_slot_at_least_and_positions_round_up_to_tiles) {
  const KvShape shape{2, 3, 20, 30};
  BOOST_TEST(ContiguousKV::ledger(shape, 1).free_tokens() == 30);
  BOOST_TEST(ContiguousKV::bytes(shape, 1) == std::size_t{2 * 3 * 2} * 16 * 52 * sizeof(float));
  BOOST_TEST(ContiguousKV::bytes(shape, 75) == std::size_t{2 * 2 * 3 * 2} * 16 * 52 * sizeof(float));
  BOOST_TEST(ContiguousKVOf<bfloat16>::bytes(shape, 75) == std::size_t{2 * 2 * 3 * 2} * 16 * 52 * 2);
  BOOST_TEST(ContiguousKVOf<std::int8_t>::bytes(shape, 75) == std::size_t{2 * 2 * 3 * 2} * 16 * (52 + 2 * 4));
}

BOOST_AUTO_TEST_CASE(tiles_of_a_head_are_contiguous) {
  const KvShape shape{2, 3, 20, 30};
  auto ledger = ContiguousKV::ledger(shape, 60);
  BOOST_TEST(ledger.grow(1, 17));
  BOOST_TEST(ledger.grow(2, 17));
  const std::vector<SequenceRows> rows{{2, 0, 17, 0, 0}, {1, 17, 1, 16, 1}};
  std::vector<std::int32_t> table(ContiguousKV::table_entries(shape, rows));
  std::vector<float> storage(ContiguousKV::bytes(shape, 60) / sizeof(float));
  const auto view = ContiguousKV::view(shape, 60, ledger, rows, storage.data(), table);
  const std::ptrdiff_t tile = 16 * 20 + 16 * 32, head = 2 * tile, slot = 3 * head, layer = 2 * slot;
  const auto offset = [&](int l, int s, int h, int t) { return view.tile(l, s, h, t).keys - storage.data(); };
  BOOST_TEST(offset(0, 1, 0, 1) == tile);
  BOOST_TEST(offset(1, 0, 2, 1) == layer + slot + 2 * head + tile);
  const SequenceRows beyond{1, 0, 1, 17, 0};
  BOOST_CHECK_THROW(ContiguousKV::view(shape, 60, ledger, {&beyond, 1}, storage.data(), table), Error);
}

BOOST_AUTO_TEST_CASE(impossible_sizes_are_refused) {
  const int most = std::numeric_limits<int>::max();
  BOOST_CHECK_THROW(ContiguousKV::bytes({most, most, 64, most}, most), Error);
  BOOST_CHECK_THROW(ContiguousKV::ledger({1, 1, 1, 0}, 16), Error);
}

BOOST_AUTO_TEST_CASE(laws) {
  BOOST_TEST(testing::cache_laws<ContiguousKV>() == testing::Violations{}, boost::test_tools::per_element());
  BOOST_TEST(testing::cache_laws<ContiguousKVOf<bfloat16>>() == testing::Violations{});
  BOOST_TEST(testing::cache_laws<ContiguousKVOf<std::int8_t>>() == testing::Violations{});
}

BOOST_AUTO_TEST_SUITE_END()
