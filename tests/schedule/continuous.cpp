#include "tenon/schedule/continuous.h"

#include <boost/test/unit_test.hpp>
#include <map>

#include "tenon/cache/block_ledger.h"
#include "tenon/testing/scheduler_laws.h"

BOOST_AUTO_TEST_SUITE(schedule_continuous)

using namespace tenon;
using namespace std::chrono_literals;
using tenon::testing::CountingLedger;
using tenon::testing::fake_step;

namespace {

struct Bench {
  explicit Bench(ContinuousPolicy policy, int cache = 100000) : ledger(cache), queue(policy) {}

  SeqId add(int prompt, int fresh, int priority = 0) {
    return queue.add({.tokens = std::vector<TokenId>(static_cast<std::size_t>(prompt), 7),
                      .max_new_tokens = fresh,
                      .arrival = now,
                      .priority = priority},
                     ledger);
  }
  std::map<SeqId, int> step(int budget = 512) {
    const Plan& plan = queue.plan(ledger, budget, now);
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

  TimePoint now{};
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

BOOST_AUTO_TEST_CASE(late_requests_go_first_in_order_of_arrival) {
  Bench b(ContinuousPolicy{.max_batch = 1, .order = Order::longest_first, .patience = 30s});
  b.add(2, 1);
  b.add(2, 1, 1);
  b.now += 10s;
  b.add(9, 1, 3);
  b.now += 20s - 1ns;
  BOOST_TEST((b.step() == Granted{{2, 9}}));  // not yet
  b.add(2, 1, 7);
  b.now += 1ns;
  BOOST_TEST((b.step() == Granted{{0, 2}}));  // the least urgent, but the first of the two who have waited 30 s
  BOOST_TEST((b.step() == Granted{{1, 2}}));
  BOOST_TEST((b.step() == Granted{{3, 2}}));
}

BOOST_AUTO_TEST_CASE(urgent_requests_without_end_starve_nobody) {
  for (const auto& [patience, served] : std::map<Clock::duration, bool>{{30s, true}, {1000000h, false}}) {
    Bench b(ContinuousPolicy{.max_batch = 1, .patience = patience});
    const SeqId patient = b.add(5, 1);
    for (int i = 0; i < 100; ++i) {
      b.add(1, 1, 1);
      b.now += 1s;
      b.step();
    }
    BOOST_TEST(b.queue.contains(patient) == !served);
  }
}

BOOST_AUTO_TEST_CASE(the_victim_is_the_least_urgent_of_them_the_last_admitted_and_never_the_oldest) {
  const auto victim = [](std::vector<int> priorities) {
    std::vector<Candidate> running;
    for (const int priority : priorities)
      running.push_back({.seq = static_cast<SeqId>(running.size()), .pending = 1, .priority = priority});
    return ContinuousPolicy{}.victim({.running = running, .waiting = {}});
  };
  BOOST_TEST(victim({0, 0, 0}) == 2U);
  BOOST_TEST(victim({0, 1, 0, 2}) == 2U);
  BOOST_TEST(victim({0, 3, 1, 1}) == 3U);
  BOOST_TEST(victim({0, 5}) == 1U);
  BOOST_TEST(victim({0}) == 0U);
}

BOOST_AUTO_TEST_CASE(the_least_urgent_gives_way_when_the_cache_is_full) {
  Bench b({}, 30);
  for (const int priority : {0, 0, 1}) b.add(9, 10, priority);
  b.step();
  b.step();
  b.step();  // the cache is full
  BOOST_TEST(b.queue.stats().preemptions == 1U);
  BOOST_CHECK(b.queue.sequence(2).state == Sequence::State::running);
  BOOST_CHECK(b.queue.sequence(1).state == Sequence::State::waiting);
}

BOOST_AUTO_TEST_CASE(room_is_what_the_cache_needs_and_not_what_is_pending) {
  // A prompt of which three of four blocks are in the cache joins where a new one of the same length would not fit.
  for (const bool reuse : {true, false}) {
    BlockLedger<16> ledger(10, 10 * 16);
    RequestQueue<ContinuousPolicy> queue;
    queue.set_prefix_reuse(reuse);
    const auto add = [&] { return queue.add({.tokens = std::vector<TokenId>(64, 7), .max_new_tokens = 20}, ledger); };
    add();
    queue.commit(queue.plan(ledger, 512, {}), ledger);
    queue.append(0, 8);
    add();
    queue.commit(queue.plan(ledger, 512, {}), ledger);
    queue.append(0, 8);
    queue.append(1, 8);
    add();
    queue.plan(ledger, 512, {});
    BOOST_TEST(queue.running() == (reuse ? 3 : 2));
  }
}

BOOST_AUTO_TEST_CASE(keeps_the_laws_with_small_batches_and_little_patience) {
  const ContinuousPolicy policy{.max_batch = 3, .token_budget = 9, .order = Order::longest_first, .patience = 5ms};
  BOOST_TEST(testing::scheduler_laws(policy) == testing::Violations{}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
