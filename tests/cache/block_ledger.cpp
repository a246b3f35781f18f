#include "tenon/cache/block_ledger.h"

#include <boost/test/unit_test.hpp>
#include <numeric>
#include <set>
#include <vector>

BOOST_AUTO_TEST_SUITE(cache_block_ledger)

using namespace tenon;

namespace {

using Ledger = BlockLedger<4>;

std::vector<TokenId> text(int n, TokenId first = 100) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(n));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<std::int32_t> blocks(const Ledger& ledger, SeqId seq) {
  const auto span = ledger.blocks(seq);
  return {span.begin(), span.end()};
}

// A sequence that has computed all of a text.
void compute(Ledger& ledger, SeqId seq, const std::vector<TokenId>& tokens, std::string_view identity = "") {
  const auto more = static_cast<int>(tokens.size()) - ledger.reuse(seq, tokens, identity);
  BOOST_REQUIRE(ledger.grow(seq, more));
  ledger.publish(seq, tokens, identity);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_text_takes_over_the_blocks_of_an_earlier_one) {
  Ledger ledger(8, 100);
  compute(ledger, 1, text(10));
  ledger.release(1);
  BOOST_TEST(ledger.free_tokens() == 32);  // kept blocks are free
  BOOST_TEST(ledger.kept_blocks() == 2);   // two full ones; the third was not
  const auto match = ledger.match(text(12), "");
  BOOST_TEST(match.tokens == 8);
  BOOST_TEST(match.idle == 8);
  BOOST_TEST(ledger.reuse(2, text(12), "") == 8);
  BOOST_TEST(ledger.free_tokens() == 24);
  BOOST_TEST(ledger.match(text(12), "").idle == 0);  // in use now
  BOOST_TEST(ledger.reuse(2, text(12), "") == 0);    // a sequence that holds blocks takes no prefix over
  BOOST_TEST(ledger.reuse(3, text(7), "") == 4);
  BOOST_TEST(ledger.references(ledger.blocks(2)[0]) == 2);
  BOOST_TEST(ledger.references(ledger.blocks(2)[1]) == 1);
}

BOOST_AUTO_TEST_CASE(sharing_needs_the_same_identity) {
  Ledger ledger(8, 100);
  compute(ledger, 1, text(8), "a");
  BOOST_TEST(ledger.reuse(2, text(8), "") == 0);
  BOOST_TEST(ledger.reuse(2, text(8), "b") == 0);
  BOOST_TEST(ledger.reuse(2, text(8), "a") == 8);
}

BOOST_AUTO_TEST_CASE(equal_texts_computed_side_by_side_keep_blocks_of_their_own) {
  Ledger ledger(8, 100);
  BOOST_TEST(ledger.grow(1, 8));
  BOOST_TEST(ledger.grow(2, 8));
  ledger.publish(1, text(8), "");
  ledger.publish(2, text(8), "");
  BOOST_TEST(ledger.reuse(3, text(8), "") == 8);
  BOOST_TEST(blocks(ledger, 3) == blocks(ledger, 1));
  for (const SeqId seq : {1u, 2u, 3u}) ledger.release(seq);
  BOOST_TEST(ledger.kept_blocks() == 2);  // the twin's blocks are blank: no text would ever find them
  BOOST_TEST(ledger.free_tokens() == 32);
}

BOOST_AUTO_TEST_CASE(kept_blocks_make_way_the_end_of_a_text_first) {
  Ledger ledger(4, 100);
  compute(ledger, 1, text(12));
  ledger.release(1);
  BOOST_TEST(ledger.kept_blocks() == 3);
  BOOST_TEST(ledger.grow(2, 8));  // the blank block and one kept
  BOOST_TEST(ledger.match(text(12), "").tokens == 8);
  BOOST_TEST(ledger.grow(2, 4));
  BOOST_TEST(ledger.match(text(12), "").tokens == 4);
  BOOST_TEST(!ledger.grow(2, 8));
  BOOST_TEST(ledger.match(text(12), "").tokens == 4);  // all or nothing: nothing was evicted for it
}

BOOST_AUTO_TEST_CASE(reused_blocks_are_evicted_later) {
  Ledger ledger(4, 100);
  compute(ledger, 1, text(4));
  ledger.release(1);
  compute(ledger, 2, text(4, 500));
  ledger.release(2);
  BOOST_TEST(ledger.reuse(3, text(4), "") == 4);
  ledger.release(3);
  BOOST_TEST(ledger.grow(4, 12));  // two blank ones and the older of the two kept
  BOOST_TEST(ledger.match(text(4, 500), "").tokens == 0);
  BOOST_TEST(ledger.match(text(4), "").tokens == 4);
}

BOOST_AUTO_TEST_CASE(publishing_step_by_step_finds_as_much_as_at_once) {
  Ledger ledger(8, 100);
  const auto tokens = text(16);
  for (std::size_t n = 1; n <= 16; ++n) {
    BOOST_TEST(ledger.grow(1, 1));
    ledger.publish(1, std::span(tokens).first(n), "");
    BOOST_TEST(ledger.match(tokens, "").tokens == static_cast<int>(n / 4 * 4));
  }
}

BOOST_AUTO_TEST_CASE(shrinking_gives_back_whole_blocks_that_nobody_else_knows) {
  BlockLedger<16> ledger(4, 64);
  BOOST_TEST(ledger.grow(0, 50));
  ledger.shrink(0, 60);  // more than it holds
  BOOST_TEST(ledger.free_tokens() == 0);
  ledger.shrink(0, 33);
  BOOST_TEST(ledger.free_tokens() == 16);
  ledger.shrink(0, 17);
  BOOST_TEST(ledger.free_tokens() == 32);
  BOOST_TEST(ledger.grow(0, 15));  // of the second block
  BOOST_TEST(ledger.free_tokens() == 32);
  ledger.shrink(7, 1);
  BOOST_TEST(ledger.free_tokens() == 32);
  ledger.release(0);
  BOOST_TEST(ledger.blank_blocks() == 4);
}

BOOST_AUTO_TEST_CASE(a_fork_shares_whole_blocks_and_copies_the_one_it_will_write) {
  Ledger ledger(8, 100);
  compute(ledger, 1, text(10));
  BOOST_TEST(ledger.fork(1, 2, 10));
  const auto parent = blocks(ledger, 1), child = blocks(ledger, 2);
  BOOST_TEST(child.size() == 3U);
  BOOST_TEST(child[0] == parent[0]);
  BOOST_TEST(child[1] == parent[1]);
  BOOST_TEST(child[2] != parent[2]);
  BOOST_REQUIRE(ledger.copies().size() == 1U);
  BOOST_TEST(ledger.copies()[0].from == parent[2]);
  BOOST_TEST(ledger.copies()[0].to == child[2]);
  BOOST_TEST(ledger.free_tokens() == 16);
  BOOST_TEST(ledger.grow(2, 2));  // fills its own block
  BOOST_TEST(ledger.free_tokens() == 16);
  BOOST_TEST(ledger.fork(1, 3, 8));  // whole blocks only: nothing to copy
  BOOST_TEST(ledger.copies().size() == 1U);
  ledger.clear_copies();
  BOOST_TEST(ledger.copies().empty());
  // The child's text continues in the index after the parent's blocks.
  auto longer = text(12);
  ledger.publish(2, longer, "");
  BOOST_TEST(ledger.match(longer, "").tokens == 12);
}

BOOST_AUTO_TEST_CASE(a_fork_is_all_or_nothing) {
  Ledger ledger(3, 100);
  compute(ledger, 1, text(10));
  BOOST_TEST(!ledger.fork(1, 2, 10));  // no block left for the copy
  BOOST_TEST(blocks(ledger, 2).empty());
  BOOST_TEST(ledger.references(ledger.blocks(1)[0]) == 1);
  BOOST_TEST(ledger.copies().empty());
  BOOST_TEST(ledger.fork(1, 2, 8));
  BOOST_TEST(!ledger.fork(1, 2, 4));   // holds something already
  BOOST_TEST(!ledger.fork(7, 8, 4));   // no such parent
  BOOST_TEST(!ledger.fork(1, 9, 11));  // more than the parent has
}

BOOST_AUTO_TEST_CASE(a_child_that_goes_takes_its_copy_back) {
  Ledger ledger(8, 100);
  compute(ledger, 1, text(6));
  BOOST_TEST(ledger.fork(1, 2, 6));
  BOOST_TEST(ledger.fork(1, 3, 6));
  BOOST_TEST(ledger.copies().size() == 2U);
  const auto kept = ledger.blocks(3)[1];
  ledger.release(2);
  BOOST_REQUIRE(ledger.copies().size() == 1U);
  BOOST_TEST(ledger.copies()[0].to == kept);
  // The copy is still made after its parent has gone: its block is read before another sequence writes it.
  ledger.release(1);
  BOOST_TEST(ledger.copies().size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_copy_that_another_one_goes_on_from_is_made) {
  Ledger ledger(8, 100);
  compute(ledger, 1, text(6));
  BOOST_TEST(ledger.fork(1, 2, 6));
  BOOST_TEST(ledger.fork(2, 3, 6));
  const auto between = ledger.blocks(2)[1];
  ledger.release(2);
  BOOST_REQUIRE(ledger.copies().size() == 2U);
  BOOST_TEST(ledger.copies()[0].to == between);
  BOOST_TEST(ledger.copies()[1].from == between);
}

BOOST_AUTO_TEST_CASE(forgetting_makes_every_free_block_blank) {
  Ledger ledger(8, 100);
  compute(ledger, 1, text(8));
  compute(ledger, 2, text(8, 500));
  ledger.release(1);
  ledger.forget_prefixes();
  BOOST_TEST(ledger.kept_blocks() == 0);
  BOOST_TEST(ledger.blank_blocks() == 6);
  BOOST_TEST(ledger.match(text(8), "").tokens == 0);
  BOOST_TEST(ledger.match(text(8, 500), "").tokens == 8);  // in use
}

BOOST_AUTO_TEST_CASE(a_fork_publishes_what_its_parent_filed_behind_a_block_that_is_gone,
                     *boost::unit_test::timeout(5)) {
  // Found by the simulation: the block was inserted twice, and a walk through its bucket never ended.
  BlockLedger<1> ledger(4, 4, 0);
  const std::vector<TokenId> text = {7, 8}, other = {7, 9};
  ledger.grow(1, 1);
  ledger.publish(1, std::span(text).first(1), "");
  ledger.release(1);  // 7 is kept
  ledger.grow(2, 2);
  ledger.publish(2, text, "");  // 8 is inserted after that 7: an equal block is not inserted again
  ledger.grow(3, 2);            // evicts 7
  ledger.release(3);
  BOOST_TEST(ledger.match(text, "").tokens == 0);
  BOOST_TEST(ledger.fork(2, 4, 2));
  ledger.publish(4, text, "");
  BOOST_TEST(ledger.match(text, "").tokens == 2);
  BOOST_TEST(ledger.match(other, "").tokens == 1);
  ledger.release(2);
  ledger.release(4);
  BOOST_TEST(ledger.kept_blocks() == 2);
  ledger.forget_prefixes();
  BOOST_TEST(ledger.blank_blocks() == 4);
}

BOOST_AUTO_TEST_SUITE_END()
