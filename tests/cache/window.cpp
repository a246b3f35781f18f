#include "tenon/cache/window.h"

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include "tenon/cache/paged.h"
#include "tenon/testing/cache_laws.h"

BOOST_AUTO_TEST_SUITE(cache_window)

using namespace tenon;

namespace {

using Elements = std::tuple<bfloat16, std::int8_t>;

KvShape shape_of(int positions, int window) {
  return {.layers = 1, .heads = 1, .head_dim = 4, .positions = positions, .window = window};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_view_lists_the_blocks_that_a_step_sees) {
  using P = WindowKVOf<32>;
  const KvShape shape{.layers = 2, .heads = 3, .head_dim = 20, .positions = 1000, .window = 50};
  auto ledger = P::ledger(shape, 4 * 32);
  BOOST_TEST(ledger.grow(1, 96));
  ledger.trim(1, 96 - 50 + 1);  // 47: one block
  BOOST_TEST(ledger.grow(2, 10));
  BOOST_TEST(ledger.grow(1, 4));
  // The row at 96 sees 47 .. 96, and the last of four sees 99.
  const std::vector<SequenceRows> rows{{2, 0, 10, 0, 0}, {1, 10, 4, 96, 1}};
  std::vector<std::int32_t> table(P::table_entries(shape, rows));
  BOOST_TEST(table.size() == 8U);
  std::vector<float> storage(P::bytes(shape, 128) / sizeof(float));
  const auto view = P::view(shape, 128, ledger, rows, storage.data(), table);
  BOOST_TEST((table == std::vector<std::int32_t>{1, 3, -1, -1, 0, 1, 2, 0}));  // the passed block is the next one
  const std::ptrdiff_t tile = 16 * 20 + 16 * 32, head = 2 * tile, block = 3 * head, layer = 4 * block;
  const auto offset = [&](int l, int s, int h, int t) { return view.tile(l, s, h, t).keys - storage.data(); };
  BOOST_TEST(offset(0, 0, 0, 0) == 3 * block);
  BOOST_TEST(offset(0, 1, 0, 2) == block);  // positions 32 .. 47
  BOOST_TEST(offset(1, 1, 2, 5) == layer + 2 * block + 2 * head + tile);
  BOOST_TEST(offset(1, 1, 1, 6) == layer + head);  // positions 96 .. 111
  BOOST_TEST(view.tile(0, 0, 0, 0).values - view.tile(0, 0, 0, 0).keys == 16 * 20);
}

BOOST_AUTO_TEST_CASE(a_view_of_what_is_passed_or_was_never_reserved_is_refused) {
  const KvShape shape = shape_of(200, 20);
  auto ledger = WindowKV::ledger(shape, 200);
  BOOST_TEST(ledger.grow(1, 40));
  ledger.trim(1, 40 - 20 + 1);
  std::vector<float> storage(WindowKV::bytes(shape, 200) / sizeof(float));
  const auto view = [&](const SequenceRows& rows) {
    std::vector<std::int32_t> table(WindowKV::table_entries(shape, {&rows, 1}));
    WindowKV::view(shape, 200, ledger, {&rows, 1}, storage.data(), table);
  };
  view({1, 0, 8, 40, 0});  // to the end of the third block
  view({1, 0, 1, 35, 0});  // sees 16 and on
  BOOST_CHECK_THROW(view({1, 0, 1, 34, 0}), Error);
  BOOST_CHECK_THROW(view({1, 0, 9, 40, 0}), Error);
  BOOST_CHECK_THROW(view({2, 0, 1, 0, 0}), Error);
}

// The table does not grow with the text.
BOOST_AUTO_TEST_CASE(tables_do_not_grow_with_the_text) {
  const KvShape shape = shape_of(1 << 20, 64);
  for (const int start : {0, 63, 64, 1000, 1 << 19}) {
    const SequenceRows row{1, 0, 1, start, 0};
    BOOST_TEST(WindowKV::table_entries(shape, {&row, 1}) <= 1U + 5U);
  }
}

// Memory: a token takes the bytes of a paged cache. A sequence has room for an eighth more than its window, and for the
// blocks that begin and end within it.
BOOST_AUTO_TEST_CASE(bytes_and_the_tokens_of_a_sequence) {
  const KvShape mistral{.layers = 32, .heads = 8, .head_dim = 128, .positions = 32768, .window = 4096};
  BOOST_TEST(WindowKV::bytes(mistral, 5000) == PagedKV::bytes(mistral, 5000));
  BOOST_TEST(WindowKV::sequence_tokens(mistral) == 4096 + 512 + 16);
  BOOST_TEST(WindowKVOf<64>::sequence_tokens(mistral) == 4096 + 512 + 64);
  BOOST_TEST(WindowKV::sequence_tokens(shape_of(300, 16)) == 32);
  BOOST_TEST(WindowKV::sequence_tokens(shape_of(300, 1)) == 16);
  BOOST_TEST(WindowKV::sequence_tokens(shape_of(300, 0)) == 304);    // no window
  BOOST_TEST(WindowKV::sequence_tokens(shape_of(300, 300)) == 304);  // nor one that is ever passed
  BOOST_TEST(WindowKV::sequence_tokens(shape_of(300, 1000)) == 304);
  BOOST_TEST(WindowKV::sequence_tokens(shape_of(300, 280)) == 304);  // nor one that hardly is
  const int most = std::numeric_limits<int>::max();
  BOOST_TEST(WindowKV::sequence_tokens(shape_of(most, 0)) == most - 15);
  BOOST_TEST(WindowKV::sequence_tokens(shape_of(most, most - 1)) == most - 15);
}

BOOST_AUTO_TEST_CASE(impossible_sizes_are_refused) {
  const int most = std::numeric_limits<int>::max();
  BOOST_CHECK_THROW(WindowKV::bytes({most, most, 64, 1024, 16}, 1024), Error);
  BOOST_CHECK_THROW(WindowKV::ledger({0, 1, 1, 1}, 16), Error);
  BOOST_CHECK_THROW(WindowKV::ledger({1, 1, 1, 1}, 0), Error);
  BOOST_TEST(WindowKVOf<64>::ledger({1, 1, 1, most, most}, most).free_tokens() == most - 63);
}

BOOST_AUTO_TEST_CASE(laws) {
  BOOST_TEST(testing::cache_laws<WindowKV>() == testing::Violations{}, boost::test_tools::per_element());
  BOOST_TEST(testing::cache_laws<WindowKVOf<64>>({2, 3, 16, 500}, 640) == testing::Violations{},
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(laws_of_windows) {
  for (const int window : {1, 2, 15, 16, 17, 31, 32, 33, 40, 200}) {
    for (const int tokens : {16, 48, 64, 300}) {
      const KvShape shape{.layers = 1, .heads = 2, .head_dim = 5, .positions = 150, .window = window};
      BOOST_TEST_CONTEXT("window " << window << ", tokens " << tokens) {
        BOOST_TEST(testing::cache_laws<WindowKV>(shape, tokens) == testing::Violations{},
                   boost::test_tools::per_element());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(laws_of_other_elements, E, Elements) {
  BOOST_TEST((testing::cache_laws<WindowKVOf<16, E>>() == testing::Violations{}));
  BOOST_TEST((testing::cache_laws<WindowKVOf<16, E>>({2, 2, 5, 150, 20}) == testing::Violations{}));
  BOOST_TEST((testing::cache_laws<WindowKVOf<32, E>>({1, 2, 20, 200, 50}, 300) == testing::Violations{}));
  BOOST_TEST((testing::cache_laws<WindowKVOf<64, E>>({2, 3, 16, 500, 70}, 640) == testing::Violations{}));
}

BOOST_AUTO_TEST_SUITE_END()
