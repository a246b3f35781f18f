#define BOOST_TEST_MODULE schedule_continuous
#include "tenon/schedule/continuous.h"

#include <boost/test/unit_test.hpp>
#include <map>

#include "tenon/testing/scheduler_laws.h"

using namespace tenon;
using tenon::testing::CountingLedger;
using tenon::testing::fake_step;

namespace {

struct Bench {
  explicit Bench(ContinuousPolicy policy, int cache = 100000) : ledger(cache), queue(policy) {}

  SeqId add(int prompt, int fresh, int priority = 0) {
    return queue.add({.tokens = std::vector<TokenId>(static_cast<std::size_t>(prompt), 7), .max_new_tokens = fresh,
                      .priority = priority}, ledger);
  }
  std::map<SeqId, int> step(int budget = 512) {
    const Plan& plan = queue.plan(ledger, budget, {});
    std::map<SeqId, int> granted;
    for (const auto& slice : plan.slices) granted[slice.seq] = slice.tokens;
    fake_step(queue, ledger, plan, [](const Sequence&) {});
    return granted;
  }
  int steps() {
    int count = 0;
    for (; !queue.empty(); ++count) BOOST_TEST_REQUIRE(!step().empty());
    return count;
  }

  CountingLedger ledger;
  RequestQueue<ContinuousPolicy> queue;
};

using Granted = std::map<SeqId, int>;

}  // namespace

BOOST_AUTO_TEST_CASE(experiment_6_takes_130_steps_first_come_and_100_longest_first) {
  for (const auto& [order, expected] : std::map<Order, int>{{Order::arrival, 130}, {Order::longest_first, 100}}) {
    Bench b(ContinuousPolicy{.max_batch = 8, .order = order});
    for (int i = 0; i < 32; ++i) b.add(7, i % 8 == 0 ? 100 : 10);
    BOOST_TEST(b.steps() == expected);
    BOOST_TEST(b.queue.stats().rows == static_cast<std::uint64_t>(32 * 7 + 4 * 99 + 28 * 9));
  }
}

BOOST_AUTO_TEST_CASE(decodes_go_before_prompts_and_prompts_run_in_chunks) {
  Bench b(ContinuousPolicy{.token_budget = 8});
  b.add(3, 20);
  BOOST_TEST((b.step() == Granted{{0, 3}}));
  b.add(20, 5);
  BOOST_TEST((b.step() == Granted{{0, 1}, {1, 7}}));
  b.add(2, 5);
  BOOST_TEST((b.step() == Granted{{0, 1}, {1, 7}}));
  BOOST_TEST((b.step() == Granted{{0, 1}, {1, 6}, {2, 1}}));
  BOOST_TEST((b.step() == Granted{{0, 1}, {1, 1}, {2, 1}}));
}

BOOST_AUTO_TEST_CASE(the_engines_budget_binds_too) {
  Bench b(ContinuousPolicy{.token_budget = 512});
  b.add(20, 5);
  BOOST_TEST((b.step(6) == Granted{{0, 6}}));
}

BOOST_AUTO_TEST_CASE(batch_is_bounded_and_who_leaves_makes_room_at_once) {
  Bench b(ContinuousPolicy{.max_batch = 2});
  b.add(2, 1);
  b.add(2, 9);
  b.add(2, 9);
  BOOST_TEST((b.step() == Granted{{0, 2}, {1, 2}}));
  BOOST_TEST((b.step() == Granted{{1, 1}, {2, 2}}));
}

BOOST_AUTO_TEST_CASE(larger_priority_first_then_arrival) {
  Bench b(ContinuousPolicy{.max_batch = 1});
  for (const int priority : {0, 2, 1, 2}) b.add(2, 1, priority);
  for (const SeqId next : {1U, 3U, 2U, 0U}) BOOST_TEST((b.step() == Granted{{next, 2}}));
}

BOOST_AUTO_TEST_CASE(longest_first_counts_tokens_to_come_within_a_priority) {
  Bench b(ContinuousPolicy{.max_batch = 1, .order = Order::longest_first});
  b.add(2, 1);
  b.add(2, 1, 1);
  b.add(9, 1);
  b.add(1, 2);
  BOOST_TEST((b.step() == Granted{{1, 2}}));
  BOOST_TEST((b.step() == Granted{{3, 1}}));
  BOOST_TEST((b.step() == Granted{{3, 1}}));
  BOOST_TEST((b.step() == Granted{{0, 2}}));
  BOOST_TEST((b.step() == Granted{{2, 9}}));
}

BOOST_AUTO_TEST_CASE(joins_only_where_the_whole_prompt_fits_and_nobody_overtakes) {
  Bench b(ContinuousPolicy{.token_budget = 10}, 40);
  b.add(25, 3);
  b.add(20, 3);
  b.add(1, 3);
  BOOST_TEST((b.step() == Granted{{0, 10}}));
  BOOST_TEST((b.step() == Granted{{0, 10}}));
  BOOST_TEST((b.step() == Granted{{0, 5}}));
  BOOST_TEST((b.step() == Granted{{0, 1}}));  // 14 tokens are free: not enough for 20, and the third does not overtake
  BOOST_TEST((b.step() == Granted{{0, 1}}));
  BOOST_TEST((b.step() == Granted{{1, 10}}));
  BOOST_TEST(b.queue.stats().preemptions == 0U);
}
