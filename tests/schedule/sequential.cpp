#include "tenon/schedule/sequential.h"

#include <boost/test/unit_test.hpp>

#include "tenon/testing/scheduler_laws.h"

BOOST_AUTO_TEST_SUITE(schedule_sequential)

using namespace tenon;
using tenon::testing::CountingLedger;
using tenon::testing::fake_step;

BOOST_AUTO_TEST_CASE(one_at_a_time_in_order_of_arrival) {
  CountingLedger ledger(1000);
  RequestQueue<SequentialPolicy> queue;
  for (int i = 0; i < 5; ++i) {
    const auto id = static_cast<RequestId>(i);
    queue.add({.request = id, .tokens = {1, 2, 3}, .max_new_tokens = 5 - i, .priority = i}, ledger);
  }
  std::vector<RequestId> order;
  int steps = 0;
  while (!queue.empty()) {
    const Plan& plan = queue.plan(ledger, 512, {});
    BOOST_TEST(plan.slices.size() == 1U);
    ++steps;
    fake_step(queue, ledger, plan, [&](const Sequence& s) { order.push_back(s.request); });
  }
  BOOST_TEST((order == std::vector<RequestId>{0, 1, 2, 3, 4}));
  BOOST_TEST(steps == 5 + 4 + 3 + 2 + 1);
}

BOOST_AUTO_TEST_SUITE_END()
