#include "tenon/schedule/fair.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <set>

#include "tenon/schedule/any_scheduler.h"
#include "tenon/schedule/continuous.h"
#include "tenon/testing/scheduler_laws.h"

BOOST_AUTO_TEST_SUITE(schedule_fair)

using namespace tenon;
using namespace std::chrono_literals;
using tenon::testing::CountingLedger;
using tenon::testing::fake_step;
using tenon::testing::Random;

namespace {

// A policy, and beside it what it was told that each adapter was served.
template <class P>
struct Recorder {
  P policy = {};
  std::map<int, double> service = {};

  void plan(const QueueState& state, PlanWriter& out) { policy.plan(state, out); }
  SeqId victim(const QueueState& state) { return policy.victim(state); }
  void served(std::span<const Served> step) {
    for (const Served& s : step) service[s.adapter] += s.prompt_tokens + 2.0 * s.new_tokens;
    if constexpr (KeepsAccounts<P>) policy.served(step);
  }
};

using Granted = std::vector<SeqId>;

template <class P = FairPolicy>
struct Bench {
  explicit Bench(P policy, int cache = 1 << 20) : ledger(cache), queue(Recorder<P>{std::move(policy)}) {}

  SeqId add(int adapter, int prompt, int fresh, int priority = 0, int client = 0) {
    const SeqId seq = queue.add({.tokens = std::vector<TokenId>(static_cast<std::size_t>(prompt), 7),
                                 .max_new_tokens = fresh,
                                 .arrival = now,
                                 .adapter = adapter,
                                 .priority = priority,
                                 .client = client},
                                ledger);
    adapters[seq] = adapter;
    return seq;
  }
  // Who ran, in the order in which they were granted.
  Granted step(int budget = 1 << 20) {
    const Plan& plan = queue.plan(ledger, budget, now);
    Granted ran;
    for (const auto& slice : plan.slices) ran.push_back(slice.seq);
    fake_step(queue, ledger, plan, [](const Sequence&) {});
    return ran;
  }
  bool waits(int adapter) const {
    return std::any_of(adapters.begin(), adapters.end(), [&](const auto& each) {
      return each.second == adapter && queue.contains(each.first) &&
             queue.sequence(each.first).state == Sequence::State::waiting;
    });
  }
  // Tokens that the running requests come to, when they are done.
  int whole_batch() const {
    int sum = 0;
    for (const auto& [seq, adapter] : adapters) {
      if (!queue.contains(seq) || queue.sequence(seq).state != Sequence::State::running) continue;
      sum += queue.sequence(seq).prompt_tokens + queue.sequence(seq).max_new_tokens;
    }
    return sum;
  }
  double served(int adapter) { return queue.policy().service[adapter]; }
  // Adapters that are remembered, of the one client here.
  std::size_t remembered() const {
    const detail::TokenCounters* of_client = queue.policy().policy.counters.adapters_of(0);
    return of_client ? of_client->remembered() : 0;
  }

  TimePoint now{};
  CountingLedger ledger;
  RequestQueue<Recorder<P>> queue;
  std::map<SeqId, int> adapters;
};

// By how much the service of adapters 0 and 1 drifts apart in any interval in which both have requests waiting, beside
// the paper's U. Adapter 0 sends ten requests for every one of adapter 1.
struct Drift {
  double most = 0, bound = 0;
  int steps = 0;
  std::uint64_t preemptions = 0;
};
template <class P>
Drift drift(P policy, std::uint64_t seed, int prompt_0, int prompt_1, int budget = 1 << 20, int cache = 1 << 20) {
  Bench<P> b(policy, cache);
  Random random(seed);
  for (int i = 0; i < 1100; ++i) {
    const int adapter = i % 11 == 10 ? 1 : 0;
    b.add(adapter, random.between(1, adapter == 1 ? prompt_1 : prompt_0), random.between(1, 40));
  }
  Drift drift;
  int whole = 0;
  double lowest = 0, highest = 0;
  for (; b.waits(0) && b.waits(1); ++drift.steps) {
    b.step(budget);
    whole = std::max(whole, b.whole_batch());
    const double ahead = b.served(0) - b.served(1);
    lowest = std::min(lowest, ahead);
    highest = std::max(highest, ahead);
    drift.most = std::max({drift.most, ahead - lowest, highest - ahead});
  }
  drift.preemptions = b.queue.stats().preemptions;
  drift.bound = std::max(1.0 * std::max(prompt_0, prompt_1), 2.0 * whole);
  return drift;
}

}  // namespace

BOOST_AUTO_TEST_CASE(fair_policy_keeps_the_laws) {
  const FairPolicy hasty{.max_batch = 2, .token_budget = 16, .patience = 0s};
  BOOST_TEST(testing::scheduler_laws(FairPolicy{}) == testing::Violations{}, boost::test_tools::per_element());
  BOOST_TEST(testing::scheduler_laws(hasty) == testing::Violations{}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(service_drifts_no_further_apart_than_the_papers_bound) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    for (const auto& [prompt_0, prompt_1] : {std::pair{30, 30}, {30, 300}, {300, 30}}) {
      const Drift fair = drift(FairPolicy{.max_batch = 8}, seed, prompt_0, prompt_1);
      BOOST_TEST(fair.steps > 100);
      BOOST_TEST(fair.most <= 2 * fair.bound);
      // First come, first served does not keep it: the test can fail.
      const Drift first_come = drift(ContinuousPolicy{.max_batch = 8}, seed, prompt_0, prompt_1);
      BOOST_TEST(first_come.most > 2 * first_come.bound);
    }
  }
}

BOOST_AUTO_TEST_CASE(chunks_add_at_most_a_prompt_at_each_end_of_the_interval) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const Drift fair = drift(FairPolicy{.max_batch = 8}, seed, 300, 100, 24);
    BOOST_TEST(fair.most <= 2 * fair.bound + 2 * 300);
  }
}

BOOST_AUTO_TEST_CASE(preemption_changes_nothing_about_the_bound) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const Drift fair = drift(FairPolicy{.max_batch = 8}, seed, 60, 60, 1 << 20, 250);
    BOOST_TEST(fair.preemptions > 50U);
    BOOST_TEST(fair.most <= 2 * fair.bound);
  }
}

BOOST_AUTO_TEST_CASE(a_light_client_is_served_next_before_many_waiting) {
  Bench b(FairPolicy{.max_batch = 2});
  for (int i = 0; i < 1000; ++i) b.add(0, 5, 5);
  for (int i = 0; i < 20; ++i) b.step();
  const SeqId late = b.add(1, 5, 5);
  int steps = 1;
  while (b.queue.sequence(late).state == Sequence::State::waiting) {
    b.step();
    BOOST_TEST_REQUIRE(++steps < 10);  // the next seat that falls free
  }
  Bench first_come(ContinuousPolicy{.max_batch = 2});
  for (int i = 0; i < 1000; ++i) first_come.add(0, 5, 5);
  for (int i = 0; i < 20; ++i) first_come.step();
  const SeqId last = first_come.add(1, 5, 5);
  for (int i = 0; i < 100; ++i) first_come.step();
  BOOST_CHECK(first_come.queue.sequence(last).state == Sequence::State::waiting);
}

BOOST_AUTO_TEST_CASE(one_plan_counts_what_it_has_admitted) {
  Bench b(FairPolicy{.max_batch = 6});
  for (int i = 0; i < 6; ++i) b.add(0, 10, 4);
  for (int i = 0; i < 3; ++i) b.add(1, 10, 4);
  for (int i = 0; i < 3; ++i) b.add(-1, 10, 4);
  BOOST_TEST((b.step() == Granted{0, 6, 9, 1, 7, 10}));
  BOOST_TEST(b.served(0) == 24);
  BOOST_TEST(b.served(-1) == 24);  // no adapter: a tenant like any other
}

BOOST_AUTO_TEST_CASE(weights_say_what_tokens_cost) {
  // Where prompts cost nothing, the adapter that reads a lot and writes little goes before the one that writes.
  for (const auto& [input, expected] : std::map<double, Granted>{{1, {0, 1, 3, 2}}, {0, {0, 1, 2, 3}}}) {
    Bench b(FairPolicy{.max_batch = 1, .input_weight = input});
    b.add(0, 2, 3);
    b.add(1, 90, 1);
    b.add(1, 90, 1);
    b.add(0, 2, 1);
    Granted order;
    while (!b.queue.empty()) {
      for (const SeqId seq : b.step()) {
        if (order.empty() || order.back() != seq) order.push_back(seq);
      }
    }
    BOOST_TEST((order == expected));
  }
}

BOOST_AUTO_TEST_CASE(within_an_adapter_priority_then_arrival_then_patience) {
  Bench b(FairPolicy{.max_batch = 1, .patience = 30s});
  b.add(0, 2, 1);
  b.add(0, 2, 1, 5);
  b.add(0, 2, 1, 5);
  BOOST_TEST((b.step() == Granted{1}));
  b.now += 30s;
  b.add(0, 2, 1, 9);
  BOOST_TEST((b.step() == Granted{0}));
  BOOST_TEST((b.step() == Granted{2}));
  BOOST_TEST((b.step() == Granted{3}));
}

BOOST_AUTO_TEST_CASE(clients_share_first_and_their_adapters_second) {
  // Client 1 names four adapters and client 2 one: each client gets half, and each adapter of client 1 an eighth.
  Bench b(FairPolicy{.max_batch = 1});
  for (int i = 0; i < 400; ++i) b.add(i % 4, 8, 1, 0, 1);
  for (int i = 0; i < 400; ++i) b.add(9, 8, 1, 0, 2);
  for (int i = 0; i < 160; ++i) b.step();
  BOOST_TEST(b.served(9) == 800);
  for (int adapter = 0; adapter < 4; ++adapter) BOOST_TEST(b.served(adapter) == 200);
  // Without clients each adapter is a tenant of the same rank: the test can fail.
  Bench alike(FairPolicy{.max_batch = 1});
  for (int i = 0; i < 400; ++i) alike.add(i % 4, 8, 1);
  for (int i = 0; i < 400; ++i) alike.add(9, 8, 1);
  for (int i = 0; i < 160; ++i) alike.step();
  BOOST_TEST(alike.served(9) == 320);
}

BOOST_AUTO_TEST_CASE(a_new_adapter_starts_level_with_the_others_of_its_client) {
  // Client 2 has been served little, which is no measure for client 1's adapters.
  Bench b(FairPolicy{.max_batch = 1});
  for (int i = 0; i < 200; ++i) b.add(0, 8, 1, 0, 1);
  for (int i = 0; i < 100; ++i) b.step();
  for (int i = 0; i < 200; ++i) b.add(5, 8, 1, 0, 2);
  for (int i = 0; i < 100; ++i) b.add(1, 8, 1, 0, 1);
  const double before = b.served(0);
  for (int i = 0; i < 80; ++i) b.step();
  BOOST_TEST(b.served(0) - before == 200);
  BOOST_TEST(b.served(1) == 200);
  BOOST_TEST(b.served(5) == 400);
}

BOOST_AUTO_TEST_CASE(a_client_that_runs_nothing_takes_a_guests_place_at_once) {
  Bench b(FairPolicy{.max_batch = 4, .guests = 1});
  for (int i = 0; i < 128; ++i) b.add(0, 5, 1000, 0, 1);
  for (int i = 0; i < 3; ++i) b.step();
  BOOST_TEST(b.queue.running() == 4);  // the guest's place is for guests alone
  const SeqId late = b.add(0, 5, 5, 0, 2), second = b.add(0, 5, 5, 0, 2);
  b.step();
  BOOST_CHECK(b.queue.sequence(late).state == Sequence::State::running);
  BOOST_CHECK(b.queue.sequence(second).state == Sequence::State::waiting);  // its client runs something
  BOOST_TEST(b.queue.running() == 5);
  Bench without(FairPolicy{.max_batch = 4});
  for (int i = 0; i < 128; ++i) without.add(0, 5, 1000, 0, 1);
  without.step();
  const SeqId waits = without.add(0, 5, 5, 0, 2);
  for (int i = 0; i < 100; ++i) without.step();
  BOOST_CHECK(without.queue.sequence(waits).state == Sequence::State::waiting);
}

BOOST_AUTO_TEST_CASE(a_long_prompt_leaves_half_of_a_step_to_a_client_that_runs_nothing) {
  for (const int guests : {0, 1}) {
    Bench b(FairPolicy{.max_batch = 4, .guests = guests});
    const SeqId reads = b.add(0, 10'000, 5, 0, 1);
    for (int i = 0; i < 3; ++i) b.step(64);
    const SeqId late = b.add(0, 20, 5, 0, 2);
    b.step(64);
    BOOST_CHECK((b.queue.sequence(late).state == Sequence::State::running) == (guests > 0));
    BOOST_TEST(b.queue.sequence(reads).cached == (guests > 0 ? 3 * 64 + 32 : 4 * 64));
    b.step(64);
    BOOST_TEST(b.queue.sequence(reads).cached >=
               (guests > 0 ? 3 * 64 + 32 + 63 : 5 * 64));  // no client waits: it has all rows but one
  }
}

BOOST_AUTO_TEST_CASE(idleness_earns_no_credit) {
  Bench b(FairPolicy{.max_batch = 1});
  for (int i = 0; i < 50; ++i) b.add(0, 8, 1);
  for (int i = 0; i < 20; ++i) b.step();  // 0 was served 200, 1 nothing
  for (int i = 0; i < 50; ++i) b.add(1, 8, 1);
  for (int i = 0; i < 40; ++i) b.step();
  BOOST_TEST(b.served(1) == 200);  // half of what was to be had, and not all of it
  BOOST_TEST(b.served(0) == 400);
}

BOOST_AUTO_TEST_CASE(asking_for_less_than_a_share_earns_no_credit_either) {
  // Adapter 1 is never idle, but never waits: it writes one long text, or asks for a little in each step.
  for (const bool one_long_text : {true, false}) {
    Bench b(FairPolicy{.max_batch = 2});
    for (int i = 0; i < 300; ++i) b.add(0, 20, 1);
    if (one_long_text) b.add(1, 1, 100);
    for (int i = 0; i < 99; ++i) {
      if (!one_long_text) b.add(1, 1, 1);
      b.step();
      BOOST_TEST(!b.waits(1));
    }
    BOOST_TEST(b.served(0) > 5 * b.served(1));
    const double before_0 = b.served(0), before_1 = b.served(1);
    for (int i = 0; i < 100; ++i) b.add(1, 20, 1);
    for (int i = 0; i < 40; ++i) b.step();
    BOOST_TEST(std::abs((b.served(0) - before_0) - (b.served(1) - before_1)) < 50);
  }
}

BOOST_AUTO_TEST_CASE(a_client_at_an_empty_queue_starts_at_the_last_counter) {
  Bench b(FairPolicy{.max_batch = 1});
  for (int i = 0; i < 10; ++i) b.add(0, 8, 1);
  while (!b.queue.empty()) b.step();
  for (int i = 0; i < 4; ++i) b.add(1, 8, 1);
  for (int i = 0; i < 4; ++i) b.add(0, 8, 1);
  Granted order;
  while (!b.queue.empty()) order.push_back(b.step().front());
  BOOST_TEST((order == Granted{10, 14, 11, 15, 12, 16, 13, 17}));
}

BOOST_AUTO_TEST_CASE(a_plan_leaves_the_accounts_as_they_are) {
  FairPolicy once, often;
  const std::vector<Candidate> waiting = {{.seq = 0, .pending = 9, .adapter = 0},
                                          {.seq = 1, .pending = 9, .adapter = 1},
                                          {.seq = 2, .pending = 9, .adapter = 0},
                                          {.seq = 3, .pending = 9, .adapter = 1}};
  const auto ask = [&](FairPolicy& policy) {
    Plan plan;
    PlanWriter out(plan, 10,
                   {nullptr, [](void*, SeqId, int tokens, int budget) { return std::min(tokens, budget); },
                    [](void*, SeqId) { return 9; }});
    policy.plan({.running = {}, .waiting = waiting, .free_cache_tokens = 100}, out);
    return plan.slices.size();
  };
  const std::vector<Served> step = {{.seq = 0, .adapter = 0, .prompt_tokens = 9, .new_tokens = 1},
                                    {.seq = 1, .adapter = 1, .prompt_tokens = 1}};
  for (int round = 0; round < 3; ++round) {
    BOOST_TEST(ask(once) == 2U);
    for (int i = 0; i < 4; ++i) BOOST_TEST(ask(often) == 2U);
    once.served(step);
    often.served(step);
    for (const int adapter : {0, 1, 2})
      BOOST_TEST((once.counters.counter(0, adapter) == often.counters.counter(0, adapter)));
  }
  BOOST_TEST(once.counters.counter(0, 0).second == 33);
  BOOST_TEST(once.counters.counter(0, 0).first == 36);
}

BOOST_AUTO_TEST_CASE(work_done_again_is_nobodys_debt) {
  Bench b(FairPolicy{.max_batch = 8}, 120);
  for (int i = 0; i < 40; ++i) b.add(i % 3, 20, 30);
  while (!b.queue.empty()) b.step();
  BOOST_TEST(b.queue.stats().preemptions > 5U);
  BOOST_TEST(b.served(0) == 14 * 80);
  BOOST_TEST(b.served(1) == 13 * 80);
  BOOST_TEST(b.served(2) == 13 * 80);
}

BOOST_AUTO_TEST_CASE(the_victim_is_the_last_of_who_was_served_most_and_never_the_oldest) {
  FairPolicy policy;
  const std::vector<Served> step = {{.seq = 0, .adapter = 0, .prompt_tokens = 50},
                                    {.seq = 1, .adapter = 1, .prompt_tokens = 9}};
  policy.served(step);
  const auto victim = [&](std::vector<int> adapters) {
    std::vector<Candidate> running;
    for (const int adapter : adapters)
      running.push_back({.seq = static_cast<SeqId>(running.size()), .pending = 1, .adapter = adapter});
    return policy.victim({.running = running, .waiting = {}});
  };
  BOOST_TEST(victim({1, 0, 1, 0, 1}) == 3U);
  BOOST_TEST(victim({0, 1, 1}) == 2U);
  BOOST_TEST(victim({0, 0, 1}) == 1U);
  BOOST_TEST(victim({0}) == 0U);
}

BOOST_AUTO_TEST_CASE(remembers_no_more_adapters_than_it_must) {
  Bench b(FairPolicy{.max_batch = 4});
  std::size_t most = 0;
  for (int adapter = 0; adapter < 20000; ++adapter) {
    b.add(adapter, adapter % 7 + 1, adapter % 3 + 1);
    b.step();
    most = std::max(most, b.remembered());
    b.adapters.clear();
  }
  while (!b.queue.empty()) b.step();
  BOOST_TEST(most < 100U);

  // Thousands that take much and go, beside one that always wants a little more: the floor rises slowly, and what they
  // had in advance must be forgiven.
  Bench slow(FairPolicy{.max_batch = 4});
  for (int i = 0; i < 40; ++i) slow.add(0, 1, 1);
  most = 0;
  for (int adapter = 1; adapter < 5000; ++adapter) {
    for (int i = 0; i < 3; ++i) slow.add(0, 1, 1);
    slow.add(adapter, 20000, 1);
    slow.step();
    slow.adapters.clear();
    most = std::max(most, slow.remembered());
  }
  BOOST_TEST(most > 1000U);
  BOOST_TEST(most < 1100U);
}

BOOST_AUTO_TEST_CASE(any_scheduler_hands_the_accounts_through) {
  Bench b(AnyScheduler(FairPolicy{.max_batch = 1}));
  for (int i = 0; i < 30; ++i) b.add(0, 8, 1);
  for (int i = 0; i < 30; ++i) b.add(1, 8, 1);
  for (int i = 0; i < 20; ++i) b.step();
  BOOST_TEST(b.served(0) == 100);
  BOOST_TEST(b.served(1) == 100);
}

BOOST_AUTO_TEST_SUITE_END()
