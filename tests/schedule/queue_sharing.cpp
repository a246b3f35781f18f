// The queue where sequences share the cache: prefixes, forks, who is held, and who was preempted too often.
#include <boost/test/unit_test.hpp>
#include <vector>

#include "queue_steps.h"
#include "tenon/cache/block_ledger.h"
#include "tenon/schedule/any_scheduler.h"
#include "tenon/schedule/continuous.h"
#include "tenon/schedule/queue.h"
#include "tenon/schedule/sequential.h"
#include "tenon/testing/scheduler_laws.h"

BOOST_AUTO_TEST_SUITE(schedule_queue_sharing)

using namespace tenon;
using tenon::testing::fake_step;

namespace {

using Ledger = BlockLedger<4>;

}  // namespace

BOOST_AUTO_TEST_CASE(a_prompt_begins_with_what_others_left) {
  Ledger ledger(20, 60);
  RequestQueue<ContinuousPolicy> queue;
  const SeqId first = queue.add({.tokens = text(14), .max_new_tokens = 5}, ledger);
  BOOST_TEST((step(queue, ledger) == Granted{{first, 14}}));
  const SeqId second = queue.add({.tokens = text(20), .max_new_tokens = 5}, ledger);
  BOOST_TEST((step(queue, ledger) == Granted{{first, 1}, {second, 8}}));  // 12 of 20 in whole blocks
  BOOST_TEST(queue.stats().prefix_hit_tokens == 12U);
  BOOST_TEST(queue.sequence(second).cached == 20);
  BOOST_TEST(ledger.references(ledger.blocks(first)[0]) == 2);
}

BOOST_AUTO_TEST_CASE(the_last_token_is_always_computed) {
  Ledger ledger(20, 60);
  RequestQueue<ContinuousPolicy> queue;
  const SeqId first = queue.add({.tokens = text(12), .max_new_tokens = 5}, ledger);
  step(queue, ledger);
  const SeqId twin = queue.add({.tokens = text(12), .max_new_tokens = 5}, ledger);
  BOOST_TEST((step(queue, ledger) == Granted{{first, 1}, {twin, 4}}));
  BOOST_TEST(ledger.blocks(twin)[2] != ledger.blocks(first)[2]);
}

BOOST_AUTO_TEST_CASE(positions_that_are_asked_for_and_salts_limit_reuse) {
  Ledger ledger(40, 60);
  RequestQueue<ContinuousPolicy> queue;
  queue.add({.tokens = text(16), .max_new_tokens = 1, .identity = "a"}, ledger);
  step(queue, ledger);
  const auto computes = [&](NewSequence request) {
    request.tokens = text(16);
    const SeqId seq = queue.add(std::move(request), ledger);
    const int rows = step(queue, ledger)[seq];
    queue.cancel(seq, ledger);
    return rows;
  };
  BOOST_TEST(computes({.identity = "a", .reuse_limit = 9}) == 8);
  BOOST_TEST(computes({.identity = "a", .reuse_limit = 0}) == 16);
  BOOST_TEST(computes({.identity = "b", .reuse_limit = 0}) == 16);
  BOOST_TEST(computes({.identity = "a"}) == 4);
  queue.set_prefix_reuse(false);
  BOOST_TEST(computes({.identity = "a"}) == 16);
}

BOOST_AUTO_TEST_CASE(a_preempted_sequence_reuses_its_blocks) {
  Ledger ledger(8, 32);
  RequestQueue<ContinuousPolicy> queue;
  const SeqId oldest = queue.add({.tokens = text(12), .max_new_tokens = 12}, ledger);
  const SeqId victim = queue.add({.tokens = text(13, 500), .max_new_tokens = 12}, ledger);
  while (queue.stats().preemptions == 0) step(queue, ledger);
  BOOST_CHECK(queue.sequence(victim).state == Sequence::State::waiting);
  const int known = queue.sequence(victim).known();
  queue.cancel(oldest, ledger);
  BOOST_TEST(known > 16);
  BOOST_TEST((step(queue, ledger) == Granted{{victim, known - (known - 1) / 4 * 4}}));
  BOOST_TEST(queue.stats().prefix_hit_tokens == 0U);  // of prompts that came in, not of those that come back
}

// need() is what a policy compares with the free tokens: shared blocks in use cost nothing, kept ones are taken.
BOOST_AUTO_TEST_CASE(need_counts_what_a_newcomer_takes_from_the_free) {
  struct Asks : ContinuousPolicy {
    std::vector<int>* needs;
    void plan(const QueueState& state, PlanWriter& out) const {
      for (const Candidate& c : state.waiting) needs->push_back(out.need(c.seq));
      ContinuousPolicy::plan(state, out);
    }
  };
  Ledger ledger(20, 60);
  std::vector<int> needs;
  Asks policy;
  policy.needs = &needs;
  RequestQueue<Asks> queue(policy);
  const SeqId first = queue.add({.tokens = text(14), .max_new_tokens = 5}, ledger);
  step(queue, ledger);
  queue.add({.tokens = text(20), .max_new_tokens = 5}, ledger);
  step(queue, ledger);
  BOOST_TEST((needs == std::vector{14, 8}));
  queue.cancel(first, ledger);
  queue.cancel(first + 1, ledger);
  needs.clear();
  queue.add({.tokens = text(20), .max_new_tokens = 5}, ledger);
  step(queue, ledger);
  BOOST_TEST((needs == std::vector{20}));  // 16 of them belong to no sequence, and are found
  BOOST_TEST(queue.sequence(first + 2).cached == 20);
}

BOOST_AUTO_TEST_CASE(children_wait_for_the_prompt_and_share_it) {
  Ledger ledger(20, 60);
  RequestQueue<ContinuousPolicy> queue;
  const SeqId parent = queue.add({.tokens = text(14), .max_new_tokens = 5}, ledger);
  std::vector<SeqId> children;
  for (int choice = 1; choice < 3; ++choice) {
    children.push_back(
        queue.add({.choice = choice, .tokens = text(14), .max_new_tokens = 5, .parent = parent}, ledger));
  }
  const SeqId stranger = queue.add({.tokens = text(3, 900), .max_new_tokens = 5}, ledger);
  BOOST_TEST((step(queue, ledger, 9) == Granted{{parent, 9}}));
  BOOST_TEST((step(queue, ledger, 9) ==
              Granted{{parent, 5}, {stranger, 3}}));  // a sequence that waits for its parent blocks no other
  BOOST_TEST((step(queue, ledger, 9) == Granted{{parent, 1}, {stranger, 1}, {children[0], 1}, {children[1], 1}}));
  BOOST_TEST(ledger.copies().size() == 2U);  // the 14th token's block is written by three
  for (std::size_t block = 0; block < 3; ++block) {
    BOOST_TEST(ledger.references(ledger.blocks(parent)[block]) == 3);
    BOOST_TEST(ledger.blocks(children[1])[block] == ledger.blocks(parent)[block]);
  }
  BOOST_TEST(ledger.references(ledger.blocks(parent)[3]) == 1);
}

BOOST_AUTO_TEST_CASE(children_of_a_parent_that_is_gone_read_the_prompt_themselves) {
  for (const bool reuse : {false, true}) {
    Ledger ledger(20, 60);
    RequestQueue<ContinuousPolicy> queue;
    queue.set_prefix_reuse(reuse);
    const SeqId parent = queue.add({.tokens = text(14), .max_new_tokens = 1}, ledger);
    const SeqId child = queue.add({.choice = 1, .tokens = text(14), .max_new_tokens = 1, .parent = parent}, ledger);
    step(queue, ledger, 8);
    queue.cancel(parent, ledger);
    BOOST_TEST((step(queue, ledger) == Granted{{child, reuse ? 6 : 14}}));
    queue.cancel(child, ledger);
    BOOST_TEST(queue.empty());
    BOOST_TEST(ledger.free_tokens() == 80);
  }
}

BOOST_AUTO_TEST_CASE(a_child_of_a_parent_that_has_long_read_joins_at_once) {
  Ledger ledger(20, 60);
  RequestQueue<ContinuousPolicy> queue;
  const SeqId parent = queue.add({.tokens = text(6), .max_new_tokens = 9}, ledger);
  for (int i = 0; i < 3; ++i) step(queue, ledger);
  const SeqId child = queue.add({.choice = 1, .tokens = text(6), .max_new_tokens = 9, .parent = parent}, ledger);
  BOOST_TEST((step(queue, ledger) == Granted{{parent, 1}, {child, 1}}));
}

BOOST_AUTO_TEST_CASE(a_held_sequence_frees_its_cache_and_keeps_its_place) {
  Ledger ledger(20, 60);
  RequestQueue<SequentialPolicy> queue;
  const SeqId first = queue.add({.tokens = text(9), .max_new_tokens = 9}, ledger);
  const SeqId second = queue.add({.tokens = text(9, 500), .max_new_tokens = 1}, ledger);
  step(queue, ledger);
  BOOST_TEST(queue.hold(first, ledger));
  BOOST_TEST(!queue.hold(first, ledger));
  BOOST_TEST(!queue.hold(4711, ledger));
  BOOST_TEST(ledger.free_tokens() == 80);
  BOOST_TEST(queue.running() == 0);
  BOOST_TEST(queue.waiting() == 1);
  BOOST_TEST(queue.resume(first));
  BOOST_TEST(!queue.resume(first));
  BOOST_TEST((step(queue, ledger) == Granted{{first, 2}}));  // before the second, and with what it had
  BOOST_TEST(queue.sequence(first).preemptions == 0);
  queue.hold(second, ledger);  // while it waits
  queue.hold(first, ledger);
  BOOST_TEST(step(queue, ledger).empty());
  BOOST_TEST(queue.cancel(first, ledger));
  queue.resume(second);
  BOOST_TEST((step(queue, ledger) == Granted{{second, 9}}));
}

BOOST_AUTO_TEST_CASE(a_held_child_stays_held_when_its_parent_has_read) {
  Ledger ledger(20, 60);
  RequestQueue<ContinuousPolicy> queue;
  const SeqId parent = queue.add({.tokens = text(6), .max_new_tokens = 9}, ledger);
  const SeqId child = queue.add({.choice = 1, .tokens = text(6), .max_new_tokens = 9, .parent = parent}, ledger);
  BOOST_TEST(queue.hold(child, ledger));
  step(queue, ledger);
  BOOST_TEST((step(queue, ledger) == Granted{{parent, 1}}));
  BOOST_TEST(queue.resume(child));
  BOOST_TEST((step(queue, ledger) == Granted{{parent, 1}, {child, 1}}));
}

BOOST_AUTO_TEST_CASE(a_step_in_flight_does_not_touch_who_was_held_meanwhile) {
  Ledger ledger(20, 60);
  RequestQueue<ContinuousPolicy> queue;
  const SeqId seq = queue.add({.tokens = text(6), .max_new_tokens = 9}, ledger);
  const Plan plan = queue.plan(ledger, 512, {});
  queue.hold(seq, ledger);
  queue.commit(plan, ledger);
  BOOST_TEST(queue.sequence(seq).cached == 0);
  BOOST_TEST(ledger.free_tokens() == 80);
}

// A policy that always picks on the second to have come: after four times it has room to its end, and stays.
BOOST_AUTO_TEST_CASE(preemptions_are_bounded) {
  struct PicksOnTheSecond {
    void plan(const QueueState& state, PlanWriter& out) const {
      for (const Candidate& c : state.running) out.take(c.seq, 1);
      for (const Candidate& c : state.waiting)
        out.take(c.seq, c.pending);  // and admits every sequence that fits at all
    }
    static SeqId victim(const QueueState&) { return 1; }
  };
  Ledger ledger(12, 48);
  RequestQueue<PicksOnTheSecond> queue;
  queue.set_prefix_reuse(false);
  const auto add = [&] { return queue.add({.tokens = text(8), .max_new_tokens = 30}, ledger); };
  std::map<SeqId, int> preempted;
  for (int i = 0; i < 4; ++i) add();
  int ended = 0;
  for (int i = 0; i < 2000 && !queue.empty(); ++i) {
    const Plan& plan = queue.plan(ledger, 512, {});
    BOOST_TEST_REQUIRE(!plan.slices.empty());
    fake_step(queue, ledger, plan, [&](const Sequence& s) {
      preempted[s.seq] = s.preemptions;
      ++ended;
    });
  }
  BOOST_TEST(ended == 4);
  for (const auto& [seq, times] : preempted) BOOST_TEST(times <= kMaxPreemptions);
  BOOST_TEST(preempted[1] == kMaxPreemptions);
  BOOST_TEST(ledger.free_tokens() == 48);
}

// Work that preemption made the queue do again is not charged.
BOOST_AUTO_TEST_CASE(accounts_hold_what_was_served_once) {
  struct Counts : ContinuousPolicy {
    std::map<SeqId, std::pair<int, int>>* accounts;
    void served(std::span<const Served> step) const {
      for (const Served& s : step) {
        (*accounts)[s.seq].first += s.prompt_tokens;
        (*accounts)[s.seq].second += s.new_tokens;
        BOOST_TEST(s.adapter == static_cast<int>(s.seq));
      }
    }
  };
  static_assert(KeepsAccounts<Counts> && KeepsAccounts<AnyScheduler>);
  for (const bool erased : {false, true}) {
    Ledger ledger(10, 40);
    std::map<SeqId, std::pair<int, int>> accounts;
    Counts policy;
    policy.accounts = &accounts;
    const auto run = [&](auto queue) {
      queue.set_prefix_reuse(false);
      for (int i = 0; i < 3; ++i) queue.add({.tokens = text(9 + i), .max_new_tokens = 12, .adapter = i}, ledger);
      while (!queue.empty()) fake_step(queue, ledger, queue.plan(ledger, 5, {}), [](const Sequence&) {});
      BOOST_TEST(queue.stats().preemptions > 0U);
    };
    if (erased)
      run(RequestQueue<AnyScheduler>(AnyScheduler(policy)));
    else
      run(RequestQueue<Counts>(policy));
    for (int i = 0; i < 3; ++i) {
      BOOST_TEST(accounts[static_cast<SeqId>(i)].first == 9 + i);
      BOOST_TEST(accounts[static_cast<SeqId>(i)].second == 12);
    }
  }
}

// kNoSequence is never given as an id, nor is an id that is still in use.
BOOST_AUTO_TEST_CASE(ids_wrap) {
  Ledger ledger(40, 60);
  RequestQueue<ContinuousPolicy> queue({}, true, kNoSequence - 1);
  const SeqId before = queue.add({.tokens = text(6), .max_new_tokens = 9}, ledger);
  const SeqId behind = queue.add({.tokens = text(6, 500), .max_new_tokens = 9}, ledger);
  const SeqId child = queue.add({.choice = 1, .tokens = text(6, 500), .max_new_tokens = 9, .parent = behind}, ledger);
  BOOST_TEST(before == kNoSequence - 1);
  BOOST_TEST(behind == 0U);
  BOOST_TEST((step(queue, ledger) == Granted{{before, 6}, {behind, 6}}));
  BOOST_TEST((step(queue, ledger) == Granted{{before, 1}, {behind, 1}, {child, 1}}));
}

BOOST_AUTO_TEST_SUITE_END()
