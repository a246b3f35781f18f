// An exception ends no more than it must: allocations that fail in submit, policies that throw in a step.
#define BOOST_TEST_MODULE engine_faults
#include <tenon/tenon.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <new>
#include <stdexcept>

using namespace tenon;

// The n-th allocation from now on fails; not inlined, or g++ 12 takes free for a mismatch of new.
static long allocations_left = -1;
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  if (void* p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace {

ModelConfig tiny() {
  ModelConfig c = Gpt2::small();
  c.layers = 1;
  c.heads = c.kv_heads = 2;
  c.head_dim = 8;
  c.hidden = 16;
  c.inner = 32;
  c.vocab = 50;
  c.positions = 64;
  c.eos = {49};
  return c;
}

Request request(int n = 1) {
  Request r{.input_ids = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}};
  r.options = {.max_new_tokens = 8,
               .temperature = 1,
               .ignore_eos = true,
               .n = n,
               .cache_salt = "a salt that needs memory of its own"};
  return r;
}

// Throws in the calls that `when` names, counted from 1.
struct Throws : ContinuousPolicy {
  int plan_at = 0, served_at = 0;
  int* plans = nullptr;
  int* steps = nullptr;
  void plan(const QueueState& state, PlanWriter& out) const {
    if (++*plans == plan_at) throw std::runtime_error("plan");
    ContinuousPolicy::plan(state, out);
  }
  void served(std::span<const Served>) const {
    if (++*steps == served_at) throw std::runtime_error("served");
  }
};
static_assert(KeepsAccounts<Throws>);
using Faulty = Engine<Gpt2, Scheduler<Throws>>;

Throws throws_at(int plan, int served, int& plans, int& steps) {
  Throws policy;
  policy.plan_at = plan;
  policy.served_at = served;
  policy.plans = &plans;
  policy.steps = &steps;
  return policy;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_submit_that_fails_leaves_nothing_behind) {
  for (const int n : {1, 3}) {
    Engine<Gpt2> engine(random_checkpoint(tiny(), 1), EngineOptions{.threads = 1});
    const Completion expected = engine.complete(request(n));
    int failures = 0;
    for (long k = 0;; ++k) {
      Request r = request(n);
      allocations_left = k;
      try {
        const RequestId id = engine.submit(std::move(r));
        allocations_left = -1;
        engine.cancel(id);
        engine.step();
        break;
      } catch (const std::bad_alloc&) {
        allocations_left = -1;
      }
      ++failures;
      BOOST_TEST_REQUIRE(engine.idle());
      const Completion answer = engine.complete(request(n));
      BOOST_TEST_REQUIRE(answer.ids == expected.ids);
      BOOST_TEST_REQUIRE(answer.others.size() == expected.others.size());
      BOOST_TEST_REQUIRE(engine.cache_stats().used_tokens == 0);
    }
    BOOST_TEST(failures > 5 * n);
  }
}

BOOST_AUTO_TEST_CASE(a_plan_that_throws_is_made_again) {
  int plans = 0, steps = 0;
  Faulty engine(random_checkpoint(tiny(), 1), throws_at(3, 0, plans, steps));
  const RequestId id = engine.submit(request());
  Completion answer;
  int thrown = 0;
  for (int i = 0; i < 100 && !engine.idle(); ++i) {
    try {
      for (const Event& event : engine.step()) {
        BOOST_TEST(event.request == id);
        answer.add(event, false);
      }
    } catch (const std::runtime_error&) {
      ++thrown;
    }
  }
  BOOST_TEST(thrown == 1);
  plans = steps = 1000;
  BOOST_TEST(answer.ids == engine.complete(request()).ids);
}

BOOST_AUTO_TEST_CASE(a_step_that_cannot_be_booked_fails_its_requests_and_no_others) {
  int plans = 0, steps = 0;
  Throws policy = throws_at(0, 2, plans, steps);
  policy.max_batch = 1;
  Faulty engine(random_checkpoint(tiny(), 1), policy);
  const RequestId first = engine.submit(request()), second = engine.submit(request());
  Completion failed, whole;
  for (int i = 0; i < 100 && !engine.idle(); ++i) {
    try {
      for (const Event& event : engine.step()) (event.request == first ? failed : whole).add(event, false);
    } catch (const std::runtime_error&) {
      BOOST_TEST(i == 1);
    }
  }
  BOOST_TEST(engine.idle());
  BOOST_TEST(failed.error == "step: served");
  BOOST_TEST(failed.ids.size() == 1U);
  BOOST_TEST(whole.ids.size() == 8U);
  BOOST_TEST(!engine.cancel(second));
  BOOST_TEST(engine.cache_stats().used_tokens == 0);
}

BOOST_AUTO_TEST_CASE(complete_leaves_nothing_behind_when_it_throws) {
  int plans = 0, steps = 0;
  Faulty engine(random_checkpoint(tiny(), 1), throws_at(3, 0, plans, steps));
  BOOST_CHECK_THROW(engine.complete(request()), std::runtime_error);
  BOOST_TEST(engine.idle());
  BOOST_TEST(engine.cache_stats().used_tokens == 0);
  BOOST_TEST(engine.complete(request()).ids.size() == 8U);
}
