#include "tenon/lab/replay.h"

#include <boost/test/unit_test.hpp>
#include <map>
#include <set>

#include "tenon/cache/paged.h"
#include "tenon/schedule/any_scheduler.h"
#include "tenon/schedule/continuous.h"
#include "tenon/schedule/fair.h"
#include "tenon/schedule/sequential.h"
#include "tenon/schedule/static.h"

BOOST_AUTO_TEST_SUITE(lab_replay)

using namespace tenon;
using namespace tenon::lab;
using namespace std::chrono_literals;

namespace {

using Nanoseconds = std::chrono::nanoseconds;

// 10 ms per step, 1 ms per row, nothing for context: times that are easy to add up.
constexpr StepCost kPlain{.step = 10e-3, .row = 1e-3, .context = 0};

// 32 prompts of 7 tokens. Every eighth request generates 100 tokens, the others 10.
Trace experiment_6() {
  Trace trace(32, {.prompt_tokens = 7, .new_tokens = 10});
  for (std::size_t i = 0; i < trace.size(); i += 8) trace[i].new_tokens = 100;
  return trace;
}

struct Ran {
  Nanoseconds begin{}, end{};
  std::vector<std::pair<SeqId, int>> slices;
  friend bool operator==(const Ran&, const Ran&) = default;
};

std::vector<std::pair<SeqId, int>> slices_of(const Plan& plan) {
  std::vector<std::pair<SeqId, int>> slices;
  for (const Plan::Slice& slice : plan.slices) slices.emplace_back(slice.seq, slice.tokens);
  return slices;
}

// The steps of replay(): times and slices.
template <class P>
std::vector<Ran> replayed(P policy, const Trace& trace, const ReplayOptions& options) {
  std::vector<Ran> steps;
  replay(policy, trace, options, [&](const StepSeen& step) {
    steps.push_back({step.begin, step.end, slices_of(step.plan)});
  });
  return steps;
}

// The steps of a hand-written server loop with the real queue and ledger. All tokens differ from one another.
template <class P>
std::vector<Ran> served(P policy, const Trace& trace, const ReplayOptions& options) {
  auto ledger = PagedKV::ledger({.layers = 1, .heads = 1, .head_dim = 1, .positions = options.cache_tokens},
                                options.cache_tokens);
  RequestQueue<P> queue(policy);
  std::vector<Ran> steps;
  std::size_t next = 0;
  TokenId token = 0;
  for (TimePoint now{}; next < trace.size() || !queue.empty();) {
    for (; next < trace.size() && TimePoint{} + trace[next].arrival <= now; ++next) {
      std::vector<TokenId> prompt(static_cast<std::size_t>(trace[next].prompt_tokens));
      for (TokenId& t : prompt) t = ++token;
      queue.add({.tokens = prompt,
                 .max_new_tokens = trace[next].new_tokens,
                 .arrival = TimePoint{} + trace[next].arrival,
                 .adapter = trace[next].adapter,
                 .priority = trace[next].priority},
                ledger);
    }
    queue.set_draining(next == trace.size());
    const Plan plan = queue.plan(ledger, options.token_budget, now);
    if (plan.slices.empty()) {
      const TimePoint later = now + options.nap;
      now = next < trace.size() && (queue.empty() || TimePoint{} + trace[next].arrival < later)
                ? TimePoint{} + trace[next].arrival
                : later;
      continue;
    }
    long long context = 0;
    std::vector<SeqId> picks;
    for (const auto& slice : plan.slices) {
      context += queue.sequence(slice.seq).cached + slice.tokens;
      if (queue.ends_known_tokens(slice)) picks.push_back(slice.seq);
    }
    const TimePoint begin = now;
    now += options.cost(plan.rows, context);
    queue.commit(plan, ledger);
    for (const SeqId seq : picks) {
      queue.append(seq, ++token);
      if (queue.sequence(seq).remaining() == 0) queue.finish(seq, ledger);
    }
    steps.push_back({begin - TimePoint{}, now - TimePoint{}, slices_of(plan)});
  }
  return steps;
}

// Checks what every schedule must satisfy.
void check(const ReplayResult& result, const Trace& trace) {
  std::map<int, std::vector<Stay>> stays_of, on_slot;
  for (const Stay& s : result.stays) {
    BOOST_TEST(s.begin < s.end);
    BOOST_TEST(s.first_step <= s.last_step);
    stays_of[s.request].push_back(s);
    on_slot[s.slot].push_back(s);
  }
  for (const auto& [slot, stays] : on_slot) {
    for (std::size_t i = 1; i < stays.size(); ++i) BOOST_TEST((stays[i - 1].end <= stays[i].begin));
  }
  std::uint64_t preemptions = 0;
  BOOST_TEST_REQUIRE(result.requests.size() == trace.size());
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const RequestResult& r = result.requests[i];
    const auto& stays = stays_of[static_cast<int>(i)];
    BOOST_TEST_REQUIRE(stays.size() == static_cast<std::size_t>(r.preemptions) + 1);
    BOOST_CHECK(r.arrival == trace[i].arrival && r.arrival <= r.admitted && r.admitted < r.first_token &&
                r.first_token <= r.finished);
    BOOST_CHECK(stays.front().begin == r.admitted && stays.back().end == r.finished);
    preemptions += static_cast<std::uint64_t>(r.preemptions);
  }
  BOOST_TEST(result.preemptions == preemptions);
  BOOST_CHECK(result.busy <= result.end);
}

}  // namespace

BOOST_AUTO_TEST_CASE(experiment_6_takes_400_130_and_100_steps) {
  const Trace trace = experiment_6();
  BOOST_TEST(replay(StaticPolicy{.n = 8}, trace).steps == 400U);
  BOOST_TEST(replay(ContinuousPolicy{.max_batch = 8}, trace).steps == 130U);
  BOOST_TEST(replay(ContinuousPolicy{.max_batch = 8, .order = Order::longest_first}, trace).steps == 100U);
  BOOST_TEST(replay(SequentialPolicy{}, trace).steps == 680U);
}

BOOST_AUTO_TEST_CASE(replay_takes_the_steps_of_the_real_queue) {
  const Trace trace =
      random_trace({.requests = 300, .rate = 8, .adapters = 4, .prompt = Length::uniform(1, 200), .seed = 5});
  for (const int cache_tokens : {1024, 1 << 16}) {
    ReplayOptions options{.token_budget = 64, .cache_tokens = cache_tokens};
    const auto equal = [&](auto policy) {
      const auto a = replayed(policy, trace, options), b = served(policy, trace, options);
      BOOST_TEST(a.size() == b.size());
      BOOST_CHECK(a == b);
    };
    equal(ContinuousPolicy{.max_batch = 16});
    equal(ContinuousPolicy{.max_batch = 16, .order = Order::longest_first});
    equal(FairPolicy{.max_batch = 16});
    equal(StaticPolicy{.n = 8, .max_wait = 70ms});
    equal(SequentialPolicy{});
    equal(AnyScheduler(FairPolicy{.max_batch = 3}));
  }
}

BOOST_AUTO_TEST_CASE(times_of_one_request_by_hand) {
  const Trace trace = {{.arrival = 2s, .prompt_tokens = 30, .new_tokens = 3}};
  const auto result = replay(ContinuousPolicy{}, trace, {.token_budget = 20, .cost = kPlain});
  BOOST_TEST(result.steps == 4U);  // 20 and 10 rows of the prompt, then one row for each of two tokens
  BOOST_TEST(result.rows == 32U);
  const RequestResult& r = result.requests[0];
  BOOST_CHECK(r.admitted == 2s);
  BOOST_CHECK(r.first_token == 2s + 30ms + 20ms);
  BOOST_CHECK(r.finished == r.first_token + 2 * 11ms);
  BOOST_CHECK(result.busy == 72ms);
  BOOST_CHECK(result.end == 2072ms);
  BOOST_TEST_REQUIRE(result.stays.size() == 1U);
  BOOST_CHECK(
      (result.stays[0] == Stay{.slot = 0, .request = 0, .begin = 2s, .end = 2072ms, .first_step = 0, .last_step = 3}));
}

BOOST_AUTO_TEST_CASE(attention_costs_what_it_reads) {
  const StepCost cost{.step = 0, .row = 0, .context = 1e-3};
  const Trace trace = {{.prompt_tokens = 30, .new_tokens = 3}};
  BOOST_CHECK(replay(ContinuousPolicy{}, trace, {.cost = cost}).end == 30ms + 31ms + 32ms);
}

BOOST_AUTO_TEST_CASE(a_static_batch_departs_at_the_first_plan_after_its_wait) {
  const Trace trace = {{.arrival = 1s, .prompt_tokens = 5, .new_tokens = 1},
                       {.arrival = 100s, .prompt_tokens = 5, .new_tokens = 1}};
  for (const auto& [nap, departs] : std::map<Nanoseconds, Nanoseconds>{{200us, 50ms}, {7ms, 56ms}}) {
    const auto result = replay(StaticPolicy{.n = 2, .max_wait = 50ms}, trace, {.nap = nap});
    BOOST_CHECK(result.requests[0].admitted == 1s + departs);
    BOOST_CHECK(result.requests[1].admitted == 100s);  // no other request will arrive
  }
  const auto open = replay(StaticPolicy{.n = 2, .max_wait = 50ms}, trace, {.drains = false});
  BOOST_CHECK(open.requests[1].admitted == 100s + 50ms);
  // The clock steps of a long wait are longer, and the departure is late by at most a thousandth of the wait.
  const auto hours = replay(StaticPolicy{.n = 3, .max_wait = 2h}, trace, {.drains = false});
  BOOST_CHECK(hours.requests[0].admitted >= 1s + 2h && hours.requests[0].admitted <= 1s + 2h + 8s);
}

BOOST_AUTO_TEST_CASE(every_schedule_keeps_its_books) {
  const Trace trace =
      random_trace({.requests = 400, .rate = 20, .adapters = 6, .new_tokens = Length::uniform(1, 90), .seed = 2});
  std::uint64_t preemptions = 0;
  for (const int cache_tokens : {640, 4096, 1 << 18}) {
    const ReplayOptions options{.token_budget = 128, .cache_tokens = cache_tokens};
    const auto one = [&](auto policy) {
      const ReplayResult result = replay(policy, trace, options);
      check(result, trace);
      preemptions += result.preemptions;
      BOOST_CHECK(result == replay(policy, trace, options));  // bit for bit
    };
    one(ContinuousPolicy{});
    one(FairPolicy{.max_batch = 8});
    one(StaticPolicy{.n = 6});
    one(SequentialPolicy{});
  }
  BOOST_TEST(preemptions > 100U);
}

BOOST_AUTO_TEST_CASE(shared_prefixes_are_found_in_the_cache) {
  const Trace trace =
      random_trace({.requests = 50, .rate = 1, .adapters = 2, .prompt = Length::fixed(20), .prefix_tokens = 160});
  const auto with = replay(ContinuousPolicy{}, trace),
             without = replay(ContinuousPolicy{}, trace, {.prefix_reuse = false});
  // All requests but the first of each adapter, because keys depend on the adapter.
  BOOST_TEST(with.prefix_hit_tokens == 48U * 160U);
  BOOST_TEST(without.prefix_hit_tokens == 0U);
  BOOST_TEST(with.rows + with.prefix_hit_tokens == without.rows);
  const Trace alone = random_trace({.requests = 50, .rate = 1, .prompt = Length::fixed(180)});
  BOOST_TEST(replay(ContinuousPolicy{}, alone).prefix_hit_tokens == 0U);
}

BOOST_AUTO_TEST_CASE(refuses_what_the_cache_could_never_hold_and_goes_on) {
  const Trace trace = {{.prompt_tokens = 1 << 30, .new_tokens = 1},
                       {.prompt_tokens = 100, .new_tokens = 29},
                       {.prompt_tokens = 100, .new_tokens = 30}};
  const auto result = replay(ContinuousPolicy{}, trace, {.cache_tokens = 128});
  BOOST_TEST(result.requests[0].refused);
  BOOST_TEST(!result.requests[1].refused);
  BOOST_TEST(result.requests[2].refused);
  BOOST_TEST(result.steps == 29U);
}

BOOST_AUTO_TEST_CASE(service_counts_while_there_is_competition) {
  // Adapter 0 is alone for 21 + 11 ms. Both adapters have requests for steps of 22 ms and 12 ms. Then adapter 1 is
  // alone.
  const Trace trace = {{.prompt_tokens = 11, .new_tokens = 4, .adapter = 0},
                       {.arrival = 25ms, .prompt_tokens = 11, .new_tokens = 5, .adapter = 1}};
  const auto result = replay(ContinuousPolicy{}, trace, {.cost = kPlain});
  BOOST_TEST_REQUIRE(result.adapters.size() == 2U);
  BOOST_TEST(result.adapters[0].adapter == 0);
  BOOST_TEST(result.adapters[0].contended_service == 2 + 2);
  BOOST_TEST(result.adapters[1].contended_service == 11 + 2 + 2);
  BOOST_CHECK(result.adapters[0].contended == 34ms);
  BOOST_CHECK(result.adapters[1].contended == 34ms);
}

BOOST_AUTO_TEST_CASE(fair_shares_where_first_come_first_served_does_not) {
  const Trace trace = random_trace({.requests = 3000, .rate = 30, .adapters = 2, .zipf = 2, .seed = 4});
  const auto rates_of = [&](auto policy) {
    const auto result = replay(policy, trace);
    std::vector<double> rates;
    for (const AdapterResult& a : result.adapters)
      rates.push_back(a.contended_service / std::chrono::duration<double>(a.contended).count());
    return rates;
  };
  const auto fair = rates_of(FairPolicy{}), first_come = rates_of(ContinuousPolicy{});
  BOOST_TEST(fair[0] < 1.2 * fair[1]);
  BOOST_TEST(first_come[0] > 3 * first_come[1]);
}

BOOST_AUTO_TEST_CASE(accepts_own_policies_and_refuses_one_that_never_runs_anything) {
  struct Never {
    void plan(const QueueState&, PlanWriter&) const {}
  };
  const auto of = [](const Error& error) { return error.where() == "scheduler"; };
  BOOST_CHECK_EXCEPTION(replay(Never{}, {{.prompt_tokens = 1, .new_tokens = 1}}), Error, of);
  struct LastComeFirst {
    void plan(const QueueState& state, PlanWriter& out) const {
      for (const Candidate& c : state.running) out.take(c.seq, c.pending);
      if (state.running.empty()) out.take(state.waiting.back().seq, state.waiting.back().pending);
    }
  };
  const auto result =
      replay(LastComeFirst{}, {{.prompt_tokens = 1, .new_tokens = 1}, {.prompt_tokens = 1, .new_tokens = 1}});
  BOOST_CHECK(result.requests[1].finished < result.requests[0].finished);
}

BOOST_AUTO_TEST_CASE(refuses_wrong_options_by_name) {
  const auto refused = [](const ReplayOptions& options, const Trace& trace = {}) {
    try {
      replay(ContinuousPolicy{}, trace, options);
    } catch (const Error& error) {
      return error.where();
    }
    return std::string("accepted");
  };
  BOOST_TEST(refused({}) == "accepted");
  BOOST_TEST(refused({.token_budget = 0}) == "token_budget");
  BOOST_TEST(refused({.cache_tokens = 0}) == "cache_tokens");
  BOOST_TEST(refused({.cost = {.step = -1}}) == "cost");
  BOOST_TEST(refused({.nap = 0ns}) == "nap");
  BOOST_TEST(refused({}, {{.arrival = 2s}, {.arrival = 1s}}) == "trace");
}

BOOST_AUTO_TEST_CASE(a_million_tokens_replay_in_seconds) {
  const Trace trace = random_trace({.requests = 5000, .rate = 3, .adapters = 8});
  long long tokens = 0;
  for (const TraceRequest& r : trace) tokens += r.prompt_tokens + r.new_tokens;
  BOOST_TEST(tokens > 1'000'000);
  const auto begin = std::chrono::steady_clock::now();
  replay(FairPolicy{}, trace);
  BOOST_TEST(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() <
             10);  // seconds; leaves room for sanitizers
}

BOOST_AUTO_TEST_SUITE_END()
