// Guessed tokens in the queue: what is verified, what counts, and what the cache keeps.
#include <boost/test/unit_test.hpp>

#include <vector>

#include "queue_steps.h"
#include "tenon/cache/contiguous.h"
#include "tenon/cache/paged.h"
#include "tenon/cache/window_ledger.h"
#include "tenon/schedule/continuous.h"
#include "tenon/schedule/fair.h"

BOOST_AUTO_TEST_SUITE(schedule_queue_guesses)

using namespace tenon;

namespace {

using Tokens = std::vector<TokenId>;

// A queue whose sequence 0 has read its prompt, of `prompt` tokens, and has one new token.
template <class L>
RequestQueue<ContinuousPolicy> decoding(L& ledger, int prompt, int max_new_tokens = 20) {
  RequestQueue<ContinuousPolicy> queue;
  queue.add({.tokens = text(prompt), .max_new_tokens = max_new_tokens}, ledger);
  step(queue, ledger);
  return queue;
}

// Runs a step that verifies `guesses`, of which the picks then confirm or refute; returns how many were guessed right.
template <class L>
int verify(RequestQueue<ContinuousPolicy>& queue, L& ledger, const Tokens& guesses, const Tokens& picks) {
  const Plan& plan = queue.plan(ledger, 512, {});
  BOOST_REQUIRE(plan.slices.size() == 1u);
  const int taken = queue.guess(0, guesses, ledger);
  BOOST_TEST(plan.slices[0].tokens == 1 + taken);
  BOOST_TEST(plan.rows == 1 + taken);
  BOOST_TEST(queue.ends_known_tokens(plan.slices[0]));
  queue.commit(plan, ledger);
  int right = 0;
  for (const TokenId pick : picks) {
    if (!queue.append(0, pick)) break;
    ++right;
  }
  return right;
}

}  // namespace

BOOST_AUTO_TEST_CASE(right_guesses_are_in_the_cache_and_wrong_ones_are_not) {
  ContiguousLedger ledger(1, 100);
  auto queue = decoding(ledger, 5);
  BOOST_TEST(verify(queue, ledger, {1, 2, 3}, {1, 2, 9}) == 2);
  const Sequence& s = queue.sequence(0);
  BOOST_TEST(s.tokens == (Tokens{100, 101, 102, 103, 104, 7, 1, 2, 9}));
  BOOST_TEST(s.guessed == 0);
  BOOST_TEST(s.cached == 8);
  BOOST_TEST(s.pending() == 1);
  BOOST_TEST(s.reserved == 9);  // of the wrong guess, for the next token
  queue.plan(ledger, 512, {});
  BOOST_TEST(ledger.slot(0).tokens == 9);
  BOOST_TEST(verify(queue, ledger, {4}, {4, 5}) == 1);
  BOOST_TEST(s.tokens.size() == 11u);
  BOOST_TEST(s.cached == 10);
}

BOOST_AUTO_TEST_CASE(guesses_end_before_the_last_token) {
  ContiguousLedger ledger(1, 100);
  auto queue = decoding(ledger, 5, /*max_new_tokens=*/4);
  queue.plan(ledger, 512, {});
  BOOST_TEST(queue.guess(0, Tokens{1, 2, 3, 4, 5}, ledger) == 2);  // and the token after them is the last
}

BOOST_AUTO_TEST_CASE(guesses_have_room_in_the_cache) {
  BlockLedger<16> ledger(1, 100);
  auto queue = decoding(ledger, 13, /*max_new_tokens=*/4);
  queue.plan(ledger, 512, {});
  BOOST_TEST(ledger.free_tokens() == 0);
  BOOST_TEST(queue.guess(0, Tokens{1, 2, 3, 4}, ledger) == 2);  // 13 + 1 + 2 of 16
}

// Wrong guesses kept their blocks, and the newer sequence was preempted for want of one.
BOOST_AUTO_TEST_CASE(wrong_guesses_leave_their_blocks_to_others) {
  BlockLedger<16> ledger(4, 64);
  RequestQueue<ContinuousPolicy> queue;
  queue.add({.tokens = text(9), .max_new_tokens = 30}, ledger);
  queue.add({.tokens = text(31), .max_new_tokens = 30}, ledger);
  step(queue, ledger);
  const Plan& plan = queue.plan(ledger, 512, {});
  BOOST_TEST(queue.guess(0, Tokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, ledger) == 10);
  BOOST_TEST(ledger.free_tokens() == 0);
  queue.commit(plan, ledger);
  queue.append(0, 70);
  queue.append(1, 70);
  queue.plan(ledger, 512, {});  // the other sequence needs a third block
  BOOST_TEST(queue.sequence(1).reserved == 33);
  BOOST_TEST(queue.sequence(1).preemptions == 0);
  BOOST_TEST(ledger.blocks(0).size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_step_that_failed_leaves_no_guesses) {
  ContiguousLedger ledger(1, 100);
  auto queue = decoding(ledger, 5);
  queue.plan(ledger, 512, {});
  BOOST_TEST(queue.guess(0, Tokens{1, 2}, ledger) == 2);
  BOOST_TEST(queue.sequence(0).known() == 6);
  const Plan& again = queue.plan(ledger, 512, {});  // not committed before
  BOOST_TEST(again.slices[0].tokens == 1);
  BOOST_TEST(queue.sequence(0).tokens.size() == 6u);
  queue.guess(0, Tokens{1, 2}, ledger);
  queue.hold(0, ledger);
  BOOST_TEST(queue.sequence(0).tokens.size() == 6u);
}

BOOST_AUTO_TEST_CASE(a_row_that_a_guess_spoils_is_computed_again) {
  BlockLedger<16> ledger(8, 100);
  auto queue = decoding(ledger, 15);
  const Plan& plan = queue.plan(ledger, 512, {});
  BOOST_TEST(queue.guess(0, Tokens{1, 2}, ledger) == 2);
  queue.commit(plan, ledger);
  queue.retry(0);
  BOOST_TEST(queue.sequence(0).cached == 15);
  BOOST_TEST(queue.sequence(0).pending() == 1);
  Tokens prompt = text(15);
  prompt.insert(prompt.end(), {7, 1, 2});
  BOOST_TEST(ledger.match(prompt, "").tokens == 0);  // its block is not published
  step(queue, ledger);
  BOOST_TEST(ledger.match(prompt, "").tokens == 16);
}

BOOST_AUTO_TEST_CASE(others_find_right_guesses_and_never_wrong_ones) {
  BlockLedger<16> ledger(8, 100);
  auto queue = decoding(ledger, 30);
  BOOST_TEST(verify(queue, ledger, {1, 2, 3}, {1, 9}) == 1);  // 30 + 7 + 1 are certain and cached: two blocks
  Tokens prompt = text(30);
  prompt.insert(prompt.end(), {7, 1, 2, 3});
  BOOST_TEST(ledger.match(prompt, "").tokens == 16);
  queue.finish(0, ledger);
  BOOST_TEST(ledger.match(prompt, "").tokens == 32);
  Tokens wrong = text(30);
  wrong.insert(wrong.end(), {7, 2, 3});
  BOOST_TEST(ledger.match(wrong, "").tokens == 16);
}

BOOST_AUTO_TEST_CASE(a_window_keeps_what_the_next_row_sees) {
  WindowLedger<16> ledger(8, 200, 20);
  RequestQueue<ContinuousPolicy> queue;
  queue.set_window(20);
  queue.add({.tokens = text(30), .max_new_tokens = 60}, ledger);
  step(queue, ledger);
  while (queue.sequence(0).remaining() > 10) {
    const int before = queue.sequence(0).known();
    verify(queue, ledger, {1, 2, 3, 4}, {1, 2, 9});
    BOOST_TEST(queue.sequence(0).known() == before + 3);
    const auto living = ledger.living(0);
    BOOST_TEST(living.first * 16 <= queue.sequence(0).cached - 19);
    BOOST_TEST((living.first + static_cast<int>(living.blocks.size())) * 16 >= queue.sequence(0).cached);
  }
}

// Right guesses fill the ring; the next token's row has passed its first block.
BOOST_AUTO_TEST_CASE(right_guesses_leave_room_in_a_window) {
  for (const int window : {16, 31, 32}) {
    const int blocks = WindowLedger<16>::ring_blocks(300, window);
    WindowLedger<16> ledger(blocks, 300, window);
    RequestQueue<ContinuousPolicy> queue;
    queue.set_window(window);
    queue.add({.tokens = text(14), .max_new_tokens = 200}, ledger);
    while (queue.sequence(0).generated() == 0) step(queue, ledger);
    for (int guesses = 1; queue.sequence(0).remaining() > 10; guesses = guesses % 8 + 1) {
      const int before = queue.sequence(0).known();
      Tokens all(static_cast<std::size_t>(guesses), 3);
      verify(queue, ledger, all, Tokens(static_cast<std::size_t>(guesses) + 1, 3));
      BOOST_TEST(queue.sequence(0).known() > before);
    }
  }
}

BOOST_AUTO_TEST_CASE(keys_that_depend_on_the_length_are_not_guessed_across_it) {
  ContiguousLedger ledger(1, 100);
  RequestQueue<ContinuousPolicy> queue;
  queue.set_recompute_after(8);
  queue.add({.tokens = text(5), .max_new_tokens = 20}, ledger);
  step(queue, ledger);
  BOOST_TEST(verify(queue, ledger, {1, 2, 3, 4}, {1, 2, 3}) == 2);  // 6 known and 2 guesses are 8
  BOOST_TEST(queue.sequence(0).known() == 9);
  const Plan& plan = queue.plan(ledger, 512, {});
  BOOST_TEST(plan.slices[0].tokens == 9);  // read again as a prompt
  BOOST_TEST(queue.guess(0, Tokens{5}, ledger) == 1);
}

BOOST_AUTO_TEST_CASE(accounts_are_charged_for_each_token) {
  ContiguousLedger ledger(1, 100);
  struct Counts : ContinuousPolicy {
    void served(std::span<const Served> step) {
      for (const Served& s : step) tokens += s.new_tokens;
    }
    int tokens = 0;
  };
  RequestQueue<Counts> queue;
  queue.add({.tokens = text(5), .max_new_tokens = 20}, ledger);
  step(queue, ledger);
  const Plan& plan = queue.plan(ledger, 512, {});
  queue.guess(0, Tokens{1, 2, 3}, ledger);
  queue.commit(plan, ledger);
  for (const TokenId pick : {1, 2, 8}) queue.append(0, pick);
  BOOST_TEST(queue.policy().tokens == 4);
}

BOOST_AUTO_TEST_SUITE_END()
