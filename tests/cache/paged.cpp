#include "tenon/cache/paged.h"

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <limits>

#include "tenon/testing/cache_laws.h"

BOOST_AUTO_TEST_SUITE(cache_paged)

using namespace tenon;

namespace {
std::vector<int> blocks(const PagedKV::Ledger& ledger, SeqId seq) {
  const auto owned = ledger.blocks(seq);
  return {owned.begin(), owned.end()};
}

using Elements = std::tuple<bfloat16, std::int8_t>;
}  // namespace

BOOST_AUTO_TEST_CASE(blocks_are_taken_as_a_sequence_grows) {
  auto ledger = PagedKV::ledger({1, 1, 4, 64}, 80);
  BOOST_TEST(ledger.free_tokens() == 80);
  BOOST_TEST(ledger.capacity_tokens() == 64);  // the model's positions
  BOOST_TEST(ledger.grow(7, 1));
  BOOST_TEST(ledger.free_tokens() == 64);
  BOOST_TEST(ledger.grow(7, 15));
  BOOST_TEST(ledger.free_tokens() == 64);
  BOOST_TEST(ledger.grow(8, 17));
  BOOST_TEST(ledger.grow(7, 1));
  BOOST_TEST((blocks(ledger, 7) == std::vector<int>{0, 3}));
  BOOST_TEST((blocks(ledger, 8) == std::vector<int>{1, 2}));
  BOOST_TEST(!ledger.grow(9, 17));  // one block is left
  BOOST_TEST(blocks(ledger, 9).empty());
  BOOST_TEST(ledger.free_tokens() == 16);
  ledger.release(8);
  BOOST_TEST(ledger.grow(9, 17));
  BOOST_TEST((blocks(ledger, 9) == std::vector<int>{1, 2}));  // the block released last is taken first
  ledger.release(7);
  ledger.release(7);
  ledger.release(9);
  BOOST_TEST(ledger.free_tokens() == 80);
}

BOOST_AUTO_TEST_CASE(sizes_round_up_to_blocks) {
  BOOST_TEST(PagedKVOf<16>::ledger({1, 1, 4, 1000}, 100).free_tokens() == 112);
  BOOST_TEST(PagedKVOf<32>::ledger({1, 1, 4, 1000}, 100).free_tokens() == 128);
  BOOST_TEST(PagedKVOf<64>::ledger({1, 1, 4, 1000}, 1).capacity_tokens() == 64);
  const KvShape shape{3, 2, 20, 1000};  // a tile holds 16 x 20 keys and 16 x 32 values
  BOOST_TEST(PagedKV::bytes(shape, 100) == std::size_t{3 * 7 * 2} * 16 * 52 * sizeof(float));
  BOOST_TEST(PagedKVOf<64>::bytes(shape, 100) == std::size_t{3 * 2 * 2 * 4} * 16 * 52 * sizeof(float));
  BOOST_TEST((PagedKVOf<16, bfloat16>::bytes(shape, 100) == std::size_t{3 * 7 * 2} * 16 * 52 * 2));
  // int8 has two scales a token beside its elements.
  BOOST_TEST((PagedKVOf<16, std::int8_t>::bytes(shape, 100) == std::size_t{3 * 7 * 2} * 16 * (52 + 2 * 4)));
  BOOST_TEST((PagedKVOf<32, std::int8_t>::bytes(shape, 100) == std::size_t{3 * 8 * 2} * 16 * (52 + 2 * 4)));
}

BOOST_AUTO_TEST_CASE(tiles_of_a_head_are_contiguous_within_a_block) {
  using P = PagedKVOf<32>;
  const KvShape shape{2, 3, 20, 200};
  auto ledger = P::ledger(shape, 128);
  BOOST_TEST(ledger.grow(1, 32));
  BOOST_TEST(ledger.grow(2, 40));
  BOOST_TEST(ledger.grow(1, 1));
  const std::vector<SequenceRows> rows{{2, 0, 1, 39, 0}, {1, 1, 1, 32, 1}};
  std::vector<std::int32_t> table(P::table_entries(shape, rows));
  BOOST_TEST(table.size() == 32U);  // sixteen blocks a sequence, and sixteen more when one needs them
  std::vector<float> storage(P::bytes(shape, 128) / sizeof(float));
  const auto view = P::view(shape, 128, ledger, rows, storage.data(), table);
  std::vector<std::int32_t> blocks(32, -1);
  blocks[0] = 1, blocks[1] = 2, blocks[16] = 0, blocks[17] = 3;
  BOOST_TEST(table == blocks, boost::test_tools::per_element());
  const std::ptrdiff_t tile = 16 * 20 + 16 * 32, head = 2 * tile, block = 3 * head, layer = 4 * block;
  const auto offset = [&](int l, int s, int h, int t) { return view.tile(l, s, h, t).keys - storage.data(); };
  BOOST_TEST(offset(0, 1, 0, 0) == 0);
  BOOST_TEST(offset(0, 1, 0, 1) == tile);
  BOOST_TEST(offset(1, 0, 2, 1) == layer + block + 2 * head + tile);
  BOOST_TEST(offset(1, 1, 1, 2) == layer + 3 * block + head);
  BOOST_TEST(view.tile(0, 1, 0, 0).values - storage.data() == 16 * 20);
}

// GPT-2 small: the bytes of a token's keys and values are the numbers of docs/policies.md.
BOOST_AUTO_TEST_CASE(bytes_of_a_token) {
  const KvShape gpt2{12, 12, 64, 1024};
  BOOST_TEST((PagedKVOf<16, float>::bytes(gpt2, 16) / 16 == 73728U));
  BOOST_TEST((PagedKVOf<16, bfloat16>::bytes(gpt2, 16) / 16 == 36864U));
  BOOST_TEST((PagedKVOf<16, std::int8_t>::bytes(gpt2, 16) / 16 == 19584U));
}

BOOST_AUTO_TEST_CASE(a_tile_of_int8_ends_with_its_scales) {
  using P = PagedKVOf<32, std::int8_t>;
  const KvShape shape{2, 3, 20, 200};
  auto ledger = P::ledger(shape, 128);
  BOOST_TEST(ledger.grow(1, 40));
  const SequenceRows rows{1, 0, 40, 0, 0};
  std::vector<std::int32_t> table(P::table_entries(shape, {&rows, 1}));
  std::vector<float> storage(P::bytes(shape, 128) / sizeof(float));
  const auto view = P::view(shape, 128, ledger, {&rows, 1}, storage.data(), table);
  const auto* begin = reinterpret_cast<const std::int8_t*>(storage.data());
  const std::ptrdiff_t tile = 16 * (20 + 32) + 2 * 16 * 4;
  BOOST_TEST(view.tile(0, 0, 0, 1).keys - begin == tile);
  BOOST_TEST(view.tile(1, 0, 2, 2).keys - begin == (4 * 3 * 2 + 3 * 2 + 2 * 2) * tile);
  const auto last = view.tile(0, 0, 1, 1);
  BOOST_TEST(last.values - last.keys == 16 * 20);
  BOOST_TEST(reinterpret_cast<std::int8_t*>(last.key_scales) - last.values == 16 * 32);
  BOOST_TEST(last.value_scales - last.key_scales == 16);
  const TileParts<bfloat16> halves(shape);
  BOOST_TEST(halves.at(reinterpret_cast<std::byte*>(storage.data())).key_scales == nullptr);
}

BOOST_AUTO_TEST_CASE(a_view_of_room_that_nobody_reserved_is_refused) {
  const KvShape shape{1, 1, 4, 64};
  auto ledger = PagedKV::ledger(shape, 64);
  BOOST_TEST(ledger.grow(1, 16));
  std::vector<std::int32_t> table(8);
  std::vector<float> storage(PagedKV::bytes(shape, 64) / sizeof(float));
  for (const SequenceRows& rows : {SequenceRows{1, 0, 1, 16, 0}, SequenceRows{2, 0, 1, 0, 0}}) {
    BOOST_CHECK_THROW(PagedKV::view(shape, 64, ledger, {&rows, 1}, storage.data(), table), Error);
  }
}

BOOST_AUTO_TEST_CASE(impossible_sizes_are_refused) {
  const int most = std::numeric_limits<int>::max();
  BOOST_CHECK_THROW(PagedKV::bytes({most, most, 64, 1024}, 1024), Error);
  BOOST_CHECK_THROW(PagedKV::bytes({100, most, 1 << 20, 1024}, most), Error);
  BOOST_CHECK_THROW(PagedKV::ledger({0, 1, 1, 1}, 16), Error);
  BOOST_CHECK_THROW(PagedKV::ledger({1, 1, 1, 1}, 0), Error);
  BOOST_CHECK_THROW(PagedKV::bytes({1, -1, 1, 1}, 16), Error);
  BOOST_TEST(PagedKVOf<64>::ledger({1, 1, 1, most}, most).free_tokens() == most - 63);
}

BOOST_AUTO_TEST_CASE(laws) {
  BOOST_TEST(testing::cache_laws<PagedKV>() == testing::Violations{}, boost::test_tools::per_element());
  BOOST_TEST(testing::cache_laws<PagedKVOf<64>>({2, 3, 16, 500}, 640) == testing::Violations{},
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE_TEMPLATE(laws_of_other_elements, E, Elements) {
  BOOST_TEST((testing::cache_laws<PagedKVOf<16, E>>() == testing::Violations{}));
  BOOST_TEST((testing::cache_laws<PagedKVOf<32, E>>({1, 2, 20, 200}, 300) == testing::Violations{}));
  BOOST_TEST((testing::cache_laws<PagedKVOf<64, E>>({2, 3, 16, 500}, 640) == testing::Violations{}));
}

BOOST_AUTO_TEST_SUITE_END()
