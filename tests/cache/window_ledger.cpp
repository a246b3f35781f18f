#include "tenon/cache/window_ledger.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <limits>
#include <vector>

BOOST_AUTO_TEST_SUITE(cache_window_ledger)

using namespace tenon;

namespace {

using Ledger = WindowLedger<4>;

std::vector<std::int32_t> living(const Ledger& ledger, SeqId seq) {
  const auto blocks = ledger.living(seq).blocks;
  return {blocks.begin(), blocks.end()};
}
std::vector<std::int32_t> ring(const Ledger& ledger, SeqId seq) {
  const auto blocks = ledger.ring(seq);
  return {blocks.begin(), blocks.end()};
}

// Length that a sequence alone reaches, one token at a time.
template <int BlockTokens>
int goes_to(WindowLedger<BlockTokens>& ledger, int window) {
  int cached = 0;
  while (ledger.grow(1, 1)) ledger.trim(1, ++cached - window + 1);
  return cached;
}

template <int BlockTokens>
void all_alignments() {
  for (int window = 1; window <= 3 * BlockTokens + 3; ++window) {
    for (const int positions : {window, window + 1, window + BlockTokens + 1, 5 * window + 3 * BlockTokens + 1}) {
      for (int blocks = 1; blocks <= 7; ++blocks) {
        WindowLedger<BlockTokens> ledger(blocks, positions, window);
        BOOST_TEST_CONTEXT("window " << window << ", positions " << positions << ", blocks " << blocks) {
          BOOST_TEST(goes_to(ledger, window) == ledger.capacity_tokens());
          BOOST_TEST(ledger.ring(1).size() * BlockTokens <=
                     static_cast<std::size_t>(ledger.held_at_most(std::numeric_limits<int>::max())));
          const bool goes_on = window < positions && blocks >= (window + 2 * BlockTokens - 2) / BlockTokens;
          BOOST_TEST(ledger.capacity_tokens() == (goes_on ? positions : std::min(positions, blocks * BlockTokens)));
        }
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_sequence_takes_a_ring_and_then_uses_it_again) {
  Ledger ledger(10, 100, 8);  // a ring of ceil((8 + 1 + 2) / 4) = 3 blocks
  BOOST_TEST(ledger.capacity_tokens() == 100);
  BOOST_TEST(ledger.held_at_most(100) == 12);
  BOOST_TEST(ledger.held_at_most(7) == 7);
  BOOST_TEST(!ledger.grow(1, 13));
  BOOST_TEST(ledger.free_tokens() == 40);
  BOOST_TEST(ledger.grow(1, 12));
  BOOST_TEST(!ledger.grow(1, 1));
  BOOST_TEST((living(ledger, 1) == std::vector{0, 1, 2}));
  BOOST_TEST(ledger.own_room(1) == 0);
  ledger.trim(1, 3);  // nothing whole is passed
  BOOST_TEST(!ledger.grow(1, 1));
  ledger.trim(1, 5);
  BOOST_TEST(ledger.living(1).first == 1);
  BOOST_TEST((living(ledger, 1) == std::vector{1, 2}));
  BOOST_TEST((ring(ledger, 1) == std::vector{1, 2, 0}));
  BOOST_TEST(ledger.own_room(1) == 4);
  BOOST_TEST(ledger.free_tokens() == 28);  // the sequence keeps it
  BOOST_TEST(ledger.grow(1, 3));
  BOOST_TEST((living(ledger, 1) == std::vector{1, 2, 0}));
  BOOST_TEST(ledger.own_room(1) == 1);
  BOOST_TEST(!ledger.grow(1, 2));
  BOOST_TEST(ledger.grow(1, 1));
  ledger.release(1);
  BOOST_TEST(ledger.free_tokens() == 40);
  BOOST_TEST(ledger.grow(2, 1));
  BOOST_TEST((living(ledger, 2) == std::vector{1}));  // the block released last is taken first
}

BOOST_AUTO_TEST_CASE(trim_goes_forward_only_and_knows_its_own) {
  Ledger ledger(10, 100, 8);
  BOOST_TEST(ledger.grow(1, 10));
  BOOST_TEST(ledger.grow(2, 10));
  ledger.trim(3, 50);
  BOOST_TEST(ledger.ring(3).empty());
  ledger.trim(1, 8);
  for (const int before : {8, 7, 4, 0, -5}) ledger.trim(1, before);
  BOOST_TEST(ledger.living(1).first == 2);
  BOOST_TEST((living(ledger, 1) == std::vector{2}));
  BOOST_TEST((living(ledger, 2) == std::vector{3, 4, 5}));
  ledger.trim(1, 99);  // beyond the end: a block that is not full is still to be written
  BOOST_TEST((living(ledger, 1) == std::vector{2}));
  BOOST_TEST((ring(ledger, 1) == std::vector{2, 0, 1}));
  BOOST_TEST(ledger.grow(1, 6));
  BOOST_TEST((living(ledger, 1) == std::vector{2, 0}));
}

BOOST_AUTO_TEST_CASE(grow_is_all_or_nothing) {
  Ledger ledger(4, 100, 8);
  BOOST_TEST(ledger.grow(1, 9));
  BOOST_TEST(ledger.grow(2, 1));
  BOOST_TEST(!ledger.grow(2, 4));
  BOOST_TEST(!ledger.grow(3, 1));
  BOOST_TEST(ledger.ring(3).empty());
  BOOST_TEST(ledger.own_room(3) == 0);
  BOOST_TEST(ledger.grow(2, 3));
  ledger.trim(1, 4);
  BOOST_TEST(!ledger.grow(2, 1));  // blocks that the first has passed are not free
  BOOST_TEST(ledger.grow(1, 7));
}

BOOST_AUTO_TEST_CASE(without_a_window_nothing_is_passed_and_texts_are_rings) {
  for (const int window : {0, 40, 41, std::numeric_limits<int>::max()}) {
    Ledger ledger(12, 40, window);
    BOOST_TEST(ledger.capacity_tokens() == 40);
    BOOST_TEST(ledger.held_at_most(40) == 40);
    BOOST_TEST(ledger.grow(1, 40));
    BOOST_TEST(ledger.ring(1).size() == 10U);
    BOOST_TEST(ledger.free_tokens() == 8);
    BOOST_TEST(Ledger(5, 40, window).capacity_tokens() == 20);
  }
}

BOOST_AUTO_TEST_CASE(a_sequence_alone_gets_to_the_capacity_at_every_alignment_and_not_beyond) {
  all_alignments<1>();
  all_alignments<2>();
  all_alignments<4>();
  all_alignments<16>();
}

// A ring has room for chunks of an eighth of the window, wherever they begin.
BOOST_AUTO_TEST_CASE(a_ring_runs_chunks) {
  for (const int window : {1, 7, 8, 9, 16, 33, 64, 100, 128, 1000}) {
    for (int begin = 0; begin < 8; ++begin) {
      Ledger ledger(1000, 100000, window);
      int cached = 0;
      for (; cached < 2 * window + begin; ++cached) {
        BOOST_TEST_REQUIRE(ledger.grow(1, 1));
        ledger.trim(1, cached + 1 - window + 1);
      }
      for (int chunk = 0; chunk < 10; ++chunk) {
        const int tokens = std::max(window / 8, 1);
        BOOST_TEST_REQUIRE(ledger.grow(1, tokens));
        cached += tokens;
        ledger.trim(1, cached - window + 1);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(sizes_at_the_end_of_an_int) {
  const int most = std::numeric_limits<int>::max();
  WindowLedger<64> ledger(3, most, most - 1);
  BOOST_TEST(ledger.capacity_tokens() == 192);
  WindowLedger<64> longest(80, most, 4096);
  BOOST_TEST(longest.capacity_tokens() == most);
  BOOST_TEST(longest.grow(1, 4096 + 512));
  BOOST_TEST(!longest.grow(1, most));
  BOOST_TEST(!longest.grow(1, most - 4096 - 512));
}

BOOST_AUTO_TEST_SUITE_END()
