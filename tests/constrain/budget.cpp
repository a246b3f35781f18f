#include "tenon/constrain/budget.h"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <thread>

BOOST_AUTO_TEST_SUITE(constrain_budget)

using namespace tenon::constrain;
using namespace std::chrono_literals;

namespace {

void check_often(Budget& budget) {
  for (int i = 0; i < 64; ++i) budget.check();
}

// CPU time until the budget refuses; more than the limit that is tested.
std::chrono::nanoseconds time_until_refused(Budget& budget) {
  const auto began = thread_cpu_time();
  try {
    while (thread_cpu_time() - began < 20s) budget.check();
  } catch (const Refused& refused) {
    BOOST_TEST((refused.kind() == tenon::Error::Kind::unsupported));
    return thread_cpu_time() - began;
  }
  BOOST_ERROR("the budget has no end");
  return {};
}

}  // namespace

// A thread that waits for a processor computes nothing.
BOOST_AUTO_TEST_CASE(a_busy_machine_uses_up_no_time) {
  Budget budget({.time = 40ms, .step_time = 20ms});
  check_often(budget);
  std::this_thread::sleep_for(120ms);
  check_often(budget);
  budget.begin_preparing();
  std::this_thread::sleep_for(120ms);
  check_often(budget);
  budget.begin_step();
  check_often(budget);
  std::this_thread::sleep_for(60ms);
  check_often(budget);
}

BOOST_AUTO_TEST_CASE(work_is_refused_after_its_time) {
  Budget budget({.time = 40ms, .step_time = 20ms});
  BOOST_TEST((time_until_refused(budget) >= 40ms));
  budget.begin_step();
  std::this_thread::sleep_for(30ms);
  BOOST_TEST((time_until_refused(budget) >= 20ms));
  budget.compiled();
  const auto began = thread_cpu_time();
  while (thread_cpu_time() - began < 60ms) budget.check();
}

BOOST_AUTO_TEST_SUITE_END()
