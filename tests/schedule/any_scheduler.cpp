#include "tenon/schedule/any_scheduler.h"

#include <boost/test/unit_test.hpp>

#include "tenon/schedule/continuous.h"
#include "tenon/schedule/sequential.h"
#include "tenon/schedule/static.h"
#include "tenon/testing/scheduler_laws.h"

BOOST_AUTO_TEST_SUITE(schedule_any_scheduler)

using namespace tenon;
using tenon::testing::CountingLedger;
using tenon::testing::fake_step;

namespace {

template <class P>
std::vector<std::vector<SeqId>> trace(P policy) {
  CountingLedger ledger(90);
  RequestQueue<P> queue(policy);
  testing::Random random(3);
  for (int i = 0; i < 30; ++i) {
    queue.add({.tokens = std::vector<TokenId>(static_cast<std::size_t>(random.between(1, 30)), i),
               .max_new_tokens = random.between(1, 40),
               .priority = random.between(0, 2)},
              ledger);
  }
  queue.set_draining(true);
  std::vector<std::vector<SeqId>> steps;
  while (!queue.empty()) {
    const Plan& plan = queue.plan(ledger, 64, {});
    steps.emplace_back();
    for (const auto& slice : plan.slices) steps.back().push_back(slice.seq);
    fake_step(queue, ledger, plan, [](const Sequence&) {});
  }
  return steps;
}

struct PicksSecond : ContinuousPolicy {
  SeqId victim(const QueueState& state) const { return state.running[1].seq; }
};

struct Counts {  // a policy with a state
  int calls = 0;
  void plan(const QueueState& state, PlanWriter& out) {
    if (++calls % 2) SequentialPolicy{}.plan(state, out);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(decides_as_what_it_holds) {
  BOOST_TEST((trace(AnyScheduler(SequentialPolicy{})) == trace(SequentialPolicy{})));
  BOOST_TEST((trace(AnyScheduler(StaticPolicy{.n = 3})) == trace(StaticPolicy{.n = 3})));
  BOOST_TEST((trace(AnyScheduler(ContinuousPolicy{})) == trace(ContinuousPolicy{})));
  BOOST_TEST((trace(AnyScheduler(PicksSecond{})) == trace(PicksSecond{})));
  BOOST_TEST((trace(PicksSecond{}) != trace(ContinuousPolicy{})));  // so that the line above says something
}

BOOST_AUTO_TEST_CASE(copies_are_independent) {
  AnyScheduler a = Counts{};
  Candidate waiting{.seq = 5, .pending = 1};
  const QueueState state{.running = {}, .waiting = {&waiting, 1}};
  const auto takes = [&](AnyScheduler& scheduler) {
    Plan plan;
    PlanWriter out(plan, 10,
                   {nullptr, [](void*, SeqId, int tokens, int) { return tokens; }, [](void*, SeqId) { return 1; }});
    scheduler.plan(state, out);
    return plan.slices.size();
  };
  BOOST_TEST(takes(a) == 1U);
  AnyScheduler b = a;
  BOOST_TEST(takes(a) == 0U);
  BOOST_TEST(takes(b) == 0U);
  BOOST_TEST(takes(b) == 1U);
  a = b;
  BOOST_TEST(takes(a) == 0U);
  const AnyScheduler& same = b;
  b = same;
  BOOST_TEST(takes(b) == 0U);
  AnyScheduler c = std::move(b);
  BOOST_TEST(takes(c) == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
