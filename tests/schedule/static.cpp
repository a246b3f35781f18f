#include "tenon/schedule/static.h"

#include <boost/test/unit_test.hpp>

#include "tenon/testing/scheduler_laws.h"

BOOST_AUTO_TEST_SUITE(schedule_static)

using namespace tenon;
using namespace std::chrono_literals;
using tenon::testing::CountingLedger;
using tenon::testing::fake_step;

namespace {

struct Bench {
  explicit Bench(StaticPolicy policy) : queue(policy) {}

  void add(int prompt, int fresh) {
    std::vector<TokenId> tokens(static_cast<std::size_t>(prompt), 7);
    queue.add({.tokens = std::move(tokens), .max_new_tokens = fresh, .arrival = now}, ledger);
  }
  // Sequences that ran in the step.
  std::size_t step(int budget = 512) {
    const Plan& plan = queue.plan(ledger, budget, now);
    const std::size_t ran = plan.slices.size();
    fake_step(queue, ledger, plan, [](const Sequence&) {});
    return ran;
  }

  TimePoint now{};
  CountingLedger ledger{10000};
  RequestQueue<StaticPolicy> queue;
};

}  // namespace

BOOST_AUTO_TEST_CASE(departs_when_full) {
  Bench b(StaticPolicy{.n = 3, .max_wait = 50ms});
  b.add(4, 2);
  b.add(4, 2);
  BOOST_TEST(b.step() == 0U);
  b.add(4, 2);
  b.add(4, 2);
  BOOST_TEST(b.step() == 3U);  // three, though four wait
  BOOST_TEST(b.queue.waiting() == 1);
}

BOOST_AUTO_TEST_CASE(departs_when_the_oldest_has_waited_long_enough) {
  Bench b(StaticPolicy{.n = 8, .max_wait = 50ms});
  b.add(4, 2);
  b.now += 30ms;
  b.add(4, 2);
  b.now += 20ms - 1ns;
  BOOST_TEST(b.step() == 0U);
  b.now += 1ns;
  BOOST_TEST(b.step() == 2U);
}

BOOST_AUTO_TEST_CASE(departs_when_draining) {
  Bench b(StaticPolicy{.n = 8, .max_wait = 1h});
  BOOST_TEST(b.step() == 0U);
  b.add(4, 2);
  BOOST_TEST(b.step() == 0U);
  b.queue.set_draining(true);
  BOOST_TEST(b.step() == 1U);
}

BOOST_AUTO_TEST_CASE(nobody_joins_before_the_last_has_ended_and_who_ends_costs_nothing) {
  Bench b(StaticPolicy{.n = 2, .max_wait = 0ms});
  b.add(4, 1);
  b.add(4, 3);
  BOOST_TEST(b.step() == 2U);
  for (int i = 0; i < 2; ++i) b.add(4, 1);
  b.now += 1h;
  BOOST_TEST(b.step() == 1U);
  BOOST_TEST(b.step() == 1U);
  BOOST_TEST(b.queue.running() == 0);
  BOOST_TEST(b.step() == 2U);
  BOOST_TEST(b.queue.empty());
}

BOOST_AUTO_TEST_CASE(everyone_departs_even_where_the_budget_does_not_hold_all_prompts) {
  Bench b(StaticPolicy{.n = 4, .max_wait = 1h});
  for (int i = 0; i < 4; ++i) b.add(10, 2);
  const Plan& plan = b.queue.plan(b.ledger, 13, b.now);
  BOOST_TEST(plan.rows == 13);
  BOOST_TEST(plan.slices.size() == 4U);
  BOOST_TEST(plan.slices[0].tokens == 10);
  fake_step(b.queue, b.ledger, plan, [](const Sequence&) {});
  while (b.queue.running() > 0) BOOST_TEST(b.step(13) > 0U);
  BOOST_TEST(b.queue.empty());
}

BOOST_AUTO_TEST_CASE(departs_with_those_whose_prompts_fit_the_cache) {
  Bench b(StaticPolicy{.n = 3, .max_wait = 1h});
  b.ledger = CountingLedger(25);
  for (int i = 0; i < 3; ++i) b.add(10, 1);
  BOOST_TEST(b.step() == 2U);
  b.queue.set_draining(true);
  BOOST_TEST(b.step() == 1U);
  BOOST_TEST(b.queue.stats().preemptions == 0U);
}

BOOST_AUTO_TEST_CASE(experiment_6_takes_400_steps) {
  Bench b(StaticPolicy{.n = 8});
  for (int i = 0; i < 32; ++i) b.add(7, i % 8 == 0 ? 100 : 10);
  int steps = 0;
  while (!b.queue.empty()) {
    BOOST_TEST_REQUIRE(b.step() > 0U);
    ++steps;
  }
  BOOST_TEST(steps == 400);
  // 32 prompts of 7, and for each token but the first of a sequence one row: none for members that have ended.
  BOOST_TEST(b.queue.stats().rows == static_cast<std::uint64_t>(32 * 7 + 4 * 99 + 28 * 9));
}

BOOST_AUTO_TEST_SUITE_END()
