#include "tenon/cache/prefix_index.h"

#include <boost/test/unit_test.hpp>
#include <limits>
#include <vector>

BOOST_AUTO_TEST_SUITE(cache_prefix_index)

using namespace tenon;

namespace {

constexpr std::uint64_t kAllBits = std::numeric_limits<std::uint64_t>::max();
using Tokens = std::vector<TokenId>;

Tokens walk(const PrefixIndex& index, const Tokens& tokens, std::string_view identity = "") {
  Tokens blocks;
  index.walk(tokens, identity, [&](std::int32_t block) { blocks.push_back(block); });
  return blocks;
}

// Inserts a text, a block of two tokens at a time, into the blocks first, first + 1, ...
PrefixIndex::Chain insert(PrefixIndex& index, const Tokens& tokens, std::int32_t first,
                          std::string_view identity = "") {
  PrefixIndex::Chain chain;
  for (std::size_t at = 0; at + 2 <= tokens.size(); at += 2) {
    chain = index.insert(chain, std::span(tokens).subspan(at, 2), identity, first++);
  }
  return chain;
}

}  // namespace

BOOST_AUTO_TEST_CASE(finds_the_longest_known_beginning_in_whole_blocks) {
  PrefixIndex index(8, 2, kAllBits);
  insert(index, {1, 2, 3, 4, 5, 6}, 0);
  BOOST_TEST(walk(index, {1, 2, 3, 4, 5, 6}) == (Tokens{0, 1, 2}));
  BOOST_TEST(walk(index, {1, 2, 3, 4, 9, 6}) == (Tokens{0, 1}));
  BOOST_TEST(walk(index, {1, 2, 3}) == (Tokens{0}));
  BOOST_TEST(walk(index, {3, 4, 5, 6}).empty());  // the same tokens, but not at the start
  BOOST_TEST(walk(index, {}).empty());
}

// With one hash for all texts, only the comparison of tokens, predecessors and identities distinguishes them.
BOOST_AUTO_TEST_CASE(collisions_never_answer) {
  for (const std::uint64_t mask : {std::uint64_t{0}, std::uint64_t{1}, kAllBits}) {
    PrefixIndex index(16, 2, mask);
    insert(index, {1, 2, 3, 4}, 0);
    insert(index, {5, 6, 3, 4, 7, 8}, 2);  // the same second block after another first one
    insert(index, {1, 2, 9, 9}, 5, "salt");
    BOOST_TEST(walk(index, {1, 2, 3, 4}) == (Tokens{0, 1}));
    BOOST_TEST(walk(index, {5, 6, 3, 4, 7, 8}) == (Tokens{2, 3, 4}));
    BOOST_TEST(walk(index, {1, 2, 3, 4, 7, 8}) == (Tokens{0, 1}));
    BOOST_TEST(walk(index, {1, 2, 9, 9}) == (Tokens{0}));
    BOOST_TEST(walk(index, {1, 2, 9, 9}, "salt") == (Tokens{5, 6}));
    BOOST_TEST(walk(index, {1, 2}, "sal").empty());
    BOOST_TEST(walk(index, {3, 4}).empty());
  }
}

BOOST_AUTO_TEST_CASE(the_first_block_that_holds_a_text_stays_the_one_that_is_found) {
  PrefixIndex index(8, 2, kAllBits);
  const auto first = insert(index, {1, 2, 3, 4}, 0);
  const auto twin = insert(index, {1, 2, 3, 4}, 4);
  BOOST_TEST(first.serial == twin.serial);
  BOOST_TEST(walk(index, {1, 2, 3, 4}) == (Tokens{0, 1}));
  BOOST_TEST(!index.knows(4));
  BOOST_TEST(index.knows(1));
}

BOOST_AUTO_TEST_CASE(evicts_the_least_recently_used) {
  PrefixIndex index(8, 2, kAllBits);
  for (std::int32_t block = 0; block < 4; ++block) insert(index, {block, block}, block);
  for (const std::int32_t block : {2, 0, 3, 1}) index.retire(block);
  BOOST_TEST(index.idle() == 4);
  index.revive(0);  // from the middle
  index.revive(2);  // the oldest
  index.retire(2);  // and now the newest
  BOOST_TEST(index.idle() == 3);
  BOOST_TEST(index.evict() == 3);
  BOOST_TEST(index.evict() == 1);
  BOOST_TEST(index.evict() == 2);
  BOOST_TEST(index.idle() == 0);
  BOOST_TEST(walk(index, {2, 2}).empty());
  BOOST_TEST(walk(index, {0, 0}) == (Tokens{0}));
}

// A successor of an evicted block is not found through a new block with the same tokens, which has another serial.
BOOST_AUTO_TEST_CASE(orphans_stay_lost) {
  PrefixIndex index(8, 2, kAllBits);
  insert(index, {1, 2, 3, 4}, 0);
  index.retire(0);
  BOOST_TEST(index.evict() == 0);
  insert(index, {1, 2}, 5);
  BOOST_TEST(walk(index, {1, 2, 3, 4}) == (Tokens{5}));
}

BOOST_AUTO_TEST_SUITE_END()
