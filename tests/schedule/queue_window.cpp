// The queue where rows see a window: what it tells the ledger, what room it asks for, and that texts far longer than
// the cache get through.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <string>
#include <vector>

#include "queue_steps.h"
#include "tenon/cache/block_ledger.h"
#include "tenon/cache/window_ledger.h"
#include "tenon/schedule/any_scheduler.h"
#include "tenon/schedule/continuous.h"
#include "tenon/schedule/fair.h"
#include "tenon/schedule/queue.h"
#include "tenon/schedule/sequential.h"
#include "tenon/schedule/static.h"
#include "tenon/testing/scheduler_laws.h"

BOOST_AUTO_TEST_SUITE(schedule_queue_window)

using namespace tenon;
using tenon::testing::fake_step;

namespace {

using Ledger = WindowLedger<4>;

template <class P = ContinuousPolicy>
RequestQueue<P> queue_with(int window, P policy = {}) {
  RequestQueue<P> queue(std::move(policy));
  queue.set_window(window);
  return queue;
}

// Steps until no sequence is left: their number, and how often each sequence was preempted.
struct Outcome {
  int steps = 0, ended = 0;
  std::map<SeqId, int> preemptions = {};
};
template <class Q, class L>
Outcome run(Q& queue, L& ledger, int budget = 512) {
  Outcome outcome;
  queue.set_draining(true);
  for (; !queue.empty(); ++outcome.steps) {
    BOOST_TEST_REQUIRE(outcome.steps < 20000);
    const Plan& plan = queue.plan(ledger, budget, {});
    BOOST_TEST_REQUIRE(!plan.slices.empty());
    fake_step(queue, ledger, plan, [&](const Sequence& s) {
      outcome.preemptions[s.seq] = s.preemptions;
      ++outcome.ended;
    });
  }
  return outcome;
}

}  // namespace

BOOST_AUTO_TEST_CASE(trim_is_called_for_each_step) {
  struct Recorder : Ledger {
    using Ledger::Ledger;
    std::vector<int> told = {};
    void trim(SeqId seq, int before) {
      if (told.empty() || told.back() != before) told.push_back(before);
      Ledger::trim(seq, before);
    }
  } ledger(20, 60, 8);
  auto queue = queue_with(8);
  const SeqId seq = queue.add({.tokens = text(20), .max_new_tokens = 9}, ledger);
  for (const int tokens : {5, 3, 4, 4, 4, 1, 1}) {
    BOOST_TEST((step(queue, ledger, std::min(tokens, 5)) == Granted{{seq, tokens}}));
  }
  // After 5, 8, 12, 16, 20, 21, 22: the next row sees itself and the seven before.
  BOOST_TEST((ledger.told == std::vector{1, 5, 9, 13, 14, 15}));
  BOOST_TEST(queue.sequence(seq).cached == 22);
  BOOST_TEST(queue.sequence(seq).reserved >= 22);  // in tokens of the text, those that are passed too
  BOOST_TEST(ledger.living(seq).first == 3);
  BOOST_TEST(ledger.free_tokens() == 80 - 3 * 4);  // a ring
}

BOOST_AUTO_TEST_CASE(no_window_and_ledgers_that_do_not_trim_are_left_alone) {
  WindowLedger<4> whole(20, 60, 0);
  auto queue = queue_with(0);
  queue.add({.tokens = text(20), .max_new_tokens = 9}, whole);
  for (int i = 0; i < 5; ++i) step(queue, whole);
  BOOST_TEST(whole.living(0).first == 0);
  BlockLedger<4> paged(20, 60);
  auto other = queue_with(8);
  other.add({.tokens = text(20), .max_new_tokens = 9}, paged);
  for (int i = 0; i < 5; ++i) step(other, paged);
  BOOST_TEST(paged.blocks(0).size() == 6U);
}

BOOST_AUTO_TEST_CASE(a_plan_that_is_not_committed_passes_nothing) {
  Ledger ledger(20, 60, 8);
  auto queue = queue_with(8);
  queue.add({.tokens = text(30), .max_new_tokens = 9}, ledger);
  step(queue, ledger, 11);
  const auto first = ledger.living(0).first;
  const Granted wanted = granted(queue.plan(ledger, 5, {}));
  for (int i = 0; i < 3; ++i) {
    BOOST_TEST((granted(queue.plan(ledger, 5, {})) == wanted));
    BOOST_TEST(ledger.living(0).first == first);
  }
}

// A chunk is as long as the ring has room for, and the budget that it leaves is for others.
BOOST_AUTO_TEST_CASE(chunks_fit_the_ring) {
  Ledger ledger(20, 200, 8);  // rings of 3 blocks
  auto queue = queue_with(8);
  const SeqId first = queue.add({.tokens = text(40), .max_new_tokens = 9}, ledger);
  const SeqId second = queue.add({.tokens = text(40, 500), .max_new_tokens = 9}, ledger);
  BOOST_TEST((step(queue, ledger) == Granted{{first, 12}, {second, 12}}));
  BOOST_TEST((step(queue, ledger) == Granted{{first, 4}, {second, 4}}));  // 12 cached: the next row sees 5 and on
  BOOST_TEST((step(queue, ledger) == Granted{{first, 4}, {second, 4}}));
  BOOST_TEST(queue.stats().preemptions == 0U);
}

BOOST_AUTO_TEST_CASE(only_sequences_that_fit_are_accepted) {
  const auto accepts = [](int blocks, int positions, int window, int prompt, int fresh) {
    Ledger ledger(blocks, positions, window);
    auto queue = queue_with(window);
    try {
      queue.add({.tokens = text(prompt), .max_new_tokens = fresh}, ledger);
    } catch (const Error& e) {
      BOOST_CHECK(e.kind() == Error::Kind::capacity);
      return false;
    }
    BOOST_TEST(run(queue, ledger).ended == 1);
    return true;
  };
  BOOST_TEST(accepts(3, 1000, 8, 900, 101));
  BOOST_TEST(!accepts(3, 1000, 8, 900, 102));
  BOOST_TEST(accepts(2, 1000, 5, 900, 101));
  BOOST_TEST(accepts(2, 1000, 6, 4, 5));  // a block less than it takes to go on
  BOOST_TEST(!accepts(2, 1000, 6, 4, 6));
}

// need() is what policies compare with the free tokens: never more than a text holds at once.
BOOST_AUTO_TEST_CASE(need_counts_a_ring_at_most) {
  struct Asks : ContinuousPolicy {
    std::vector<int>* needs;
    void plan(const QueueState& state, PlanWriter& out) const {
      for (const auto line : {state.running, state.waiting}) {
        for (const Candidate& c : line) needs->push_back(out.need(c.seq));
      }
      ContinuousPolicy::plan(state, out);
    }
  };
  Ledger ledger(20, 200, 8);
  std::vector<int> needs;
  Asks policy;
  policy.needs = &needs;
  auto queue = queue_with(8, policy);
  queue.add({.tokens = text(100), .max_new_tokens = 5}, ledger);
  queue.add({.tokens = text(7), .max_new_tokens = 5}, ledger);
  step(queue, ledger, 5);
  step(queue, ledger, 5);
  BOOST_TEST((needs == std::vector{12, 7, 7, 7}));  // a ring; and what is missing of it
  for (int i = 0; i < 5; ++i) step(queue, ledger, 5);
  needs.clear();
  step(queue, ledger, 5);
  BOOST_TEST(needs.front() == 0);
}

// A prompt of 300 tokens in a cache of 64: no sequence waits for room that never comes.
BOOST_AUTO_TEST_CASE(texts_far_longer_than_the_cache_get_through_under_every_policy) {
  const auto all = [](const auto& policy, const std::string& name) {
    for (const int budget : {1, 7, 512}) {
      for (const int blocks : {2, 3, 4}) {
        WindowLedger<16> ledger(blocks, 400, 16);
        auto queue = queue_with(16, policy);
        for (int i = 0; i < 5; ++i) {
          queue.add({.tokens = text(i % 2 ? 30 : 300, 100 * i), .max_new_tokens = 40, .adapter = i % 3 - 1}, ledger);
        }
        BOOST_TEST_CONTEXT(name << ", budget " << budget << ", blocks " << blocks) {
          BOOST_TEST(run(queue, ledger, budget).ended == 5);
          BOOST_TEST(ledger.free_tokens() == blocks * 16);
        }
      }
    }
  };
  all(SequentialPolicy{}, "sequential");
  all(StaticPolicy{.n = 3}, "static");
  all(ContinuousPolicy{}, "continuous");
  all(ContinuousPolicy{.order = Order::longest_first}, "longest first");
  all(FairPolicy{}, "fair");
  all(AnyScheduler(FairPolicy{}), "any");
}

// Who was preempted too often comes back with a ring, and stays: also where the text is longer than the cache.
BOOST_AUTO_TEST_CASE(preemptions_are_bounded) {
  struct PicksOnTheSecond {
    void plan(const QueueState& state, PlanWriter& out) const {
      for (const Candidate& c : state.running) out.take(c.seq, 1);
      for (const Candidate& c : state.waiting) out.take(c.seq, 3);  // and admits every sequence that fits at all
    }
    static SeqId victim(const QueueState&) { return 1; }
  };
  Ledger ledger(8, 400, 8);  // two rings of 3, and two blocks more
  auto queue = queue_with(8, PicksOnTheSecond{});
  for (int i = 0; i < 6; ++i) queue.add({.tokens = text(20 + 10 * i), .max_new_tokens = 60}, ledger);
  const Outcome outcome = run(queue, ledger);
  BOOST_TEST(outcome.ended == 6);
  for (const auto& [seq, times] : outcome.preemptions) BOOST_TEST(times <= kMaxPreemptions);
  BOOST_TEST(outcome.preemptions.at(1) == kMaxPreemptions);
  BOOST_TEST(ledger.free_tokens() == 32);
}

// Sequences with whole rings need no more room: from then on none is preempted.
BOOST_AUTO_TEST_CASE(who_has_a_ring_is_left_in_peace) {
  Ledger ledger(9, 400, 8);
  auto queue = queue_with(8);
  for (int i = 0; i < 3; ++i) queue.add({.tokens = text(50, 100 * i), .max_new_tokens = 100}, ledger);
  for (int i = 0; i < 100; ++i) BOOST_TEST(step(queue, ledger).size() == 3U);
  BOOST_TEST(ledger.free_tokens() == 0);
  BOOST_TEST(queue.stats().preemptions == 0U);
}

BOOST_AUTO_TEST_CASE(a_held_or_cancelled_sequence_frees_its_whole_ring) {
  Ledger ledger(6, 400, 8);
  auto queue = queue_with(8);
  const SeqId first = queue.add({.tokens = text(50), .max_new_tokens = 100}, ledger);
  const SeqId second = queue.add({.tokens = text(50), .max_new_tokens = 100}, ledger);
  for (int i = 0; i < 20; ++i) step(queue, ledger);
  BOOST_TEST(ledger.free_tokens() == 0);
  BOOST_TEST(queue.hold(first, ledger));
  BOOST_TEST(queue.sequence(first).cached == 0);
  BOOST_TEST(ledger.free_tokens() == 12);
  BOOST_TEST(queue.cancel(second, ledger));
  BOOST_TEST(ledger.free_tokens() == 24);
  BOOST_TEST(queue.resume(first));
  BOOST_TEST((step(queue, ledger) == Granted{{first, 12}}));  // from the beginning: what it saw is gone
}

// A ledger that neither finds prefixes nor forks: the choices of a request read its prompt each for themselves.
BOOST_AUTO_TEST_CASE(children_do_not_wait_for_what_they_cannot_share) {
  Ledger ledger(20, 400, 8);
  auto queue = queue_with(8);
  const SeqId parent = queue.add({.tokens = text(10), .max_new_tokens = 5}, ledger);
  const SeqId child = queue.add({.choice = 1, .tokens = text(10), .max_new_tokens = 5, .parent = parent}, ledger);
  BOOST_TEST((step(queue, ledger) == Granted{{parent, 10}, {child, 10}}));
}

BOOST_AUTO_TEST_SUITE_END()
