#define BOOST_TEST_MODULE schedule_queue
#include "tenon/schedule/queue.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <map>
#include <new>

#include "tenon/cache/contiguous.h"
#include "tenon/cache/no_cache.h"
#include "tenon/cache/paged.h"
#include "tenon/cache/store.h"
#include "tenon/cache/window.h"
#include "tenon/device/cpu.h"
#include "tenon/schedule/continuous.h"
#include "tenon/schedule/sequential.h"
#include "tenon/schedule/static.h"
#include "tenon/testing/scheduler_laws.h"

using namespace tenon;
using tenon::testing::CountingLedger;
using tenon::testing::fake_next_token;
using tenon::testing::fake_step;
using tenon::testing::Random;

// Counts allocations, for the test that a decode step makes none.
// Not inlined, or g++ 12 takes free for a mismatch of new.
static long allocations = 0;
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace {

std::vector<TokenId> text(int n, TokenId first = 0) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back(first + i);
  return tokens;
}

std::map<SeqId, int> granted(const Plan& plan) {
  std::map<SeqId, int> all;
  for (const auto& slice : plan.slices) all[slice.seq] = slice.tokens;
  return all;
}

// Commits a step and appends a token to every sequence at its last known token. Ends no sequence.
template <class Q, class L>
void advance(Q& queue, L& ledger, const Plan& plan) {
  const auto slices = plan.slices;
  std::vector<SeqId> ended;
  for (const auto& slice : slices) {
    if (queue.ends_known_tokens(slice)) ended.push_back(slice.seq);
  }
  queue.commit(plan, ledger);
  for (const SeqId seq : ended) queue.append(seq, 1);
}

using Granted = std::map<SeqId, int>;

}  // namespace

BOOST_AUTO_TEST_CASE(refuses_what_could_never_finish) {
  CountingLedger ledger(100);
  RequestQueue<ContinuousPolicy> queue;
  BOOST_CHECK_EXCEPTION(queue.add({.tokens = {}, .max_new_tokens = 1}, ledger), Error,
                        [](const Error& e) { return e.where() == "prompt"; });
  BOOST_CHECK_EXCEPTION(queue.add({.tokens = text(1), .max_new_tokens = -1}, ledger), Error,
                        [](const Error& e) { return e.where() == "max_new_tokens"; });
  BOOST_CHECK_EXCEPTION(queue.add({.tokens = text(60), .max_new_tokens = 42}, ledger), Error, [](const Error& e) {
    return e.kind() == Error::Kind::capacity &&
           e.what() == std::string(
                           "prompt: 60 tokens and max_new_tokens 42 need 101 tokens of cache; a sequence can "
                           "have 100");
  });
  BOOST_CHECK_THROW(queue.add({.tokens = text(101), .max_new_tokens = 0}, ledger), Error);
  BOOST_CHECK_THROW(queue.add({.tokens = text(3), .max_new_tokens = 2147483647}, ledger), Error);
  BOOST_TEST(queue.empty());

  // The last token is never fed back: exactly the capacity is enough.
  const SeqId seq = queue.add({.tokens = text(60), .max_new_tokens = 41}, ledger);
  int steps = 0;
  for (; !queue.empty(); ++steps) fake_step(queue, ledger, queue.plan(ledger, 512, {}), [](const Sequence&) {});
  BOOST_TEST(steps == 41);
  BOOST_TEST(!queue.contains(seq));
  BOOST_TEST(ledger.free_tokens() == 100);
}

// A newcomer keeps the room of a plan that threw, and gives all of it back at its end.
template <class L>
void plan_after_a_throw(L ledger) {
  struct Throws {
    bool now = true;
    void plan(const QueueState& state, PlanWriter& out) {
      for (const Candidate& c : state.waiting) out.take(c.seq, c.pending);
      if (std::exchange(now, false)) throw std::bad_alloc();
    }
  };
  const int free = ledger.free_tokens();
  RequestQueue<Throws> queue;
  const SeqId seq = queue.add({.tokens = text(20), .max_new_tokens = 4}, ledger);
  BOOST_CHECK_THROW(queue.plan(ledger, 64, {}), std::bad_alloc);
  const int held = ledger.free_tokens();
  BOOST_TEST(queue.plan(ledger, 64, {}).rows == 20);
  BOOST_TEST(ledger.free_tokens() == held);
  BOOST_TEST(queue.cancel(seq, ledger));
  BOOST_TEST(ledger.free_tokens() == free);
}

BOOST_AUTO_TEST_CASE(the_room_of_a_plan_that_threw_is_not_lost) {
  plan_after_a_throw(CountingLedger(100));
  plan_after_a_throw(BlockLedger<4>(25, 100));
  plan_after_a_throw(WindowLedger<16>(8, 64, 20));
}

BOOST_AUTO_TEST_CASE(a_prompt_beyond_the_budget_runs_in_chunks) {
  CountingLedger ledger(100);
  RequestQueue<SequentialPolicy> queue;
  const SeqId seq = queue.add({.tokens = text(20), .max_new_tokens = 2}, ledger);
  BOOST_TEST(queue.waiting() == 1);
  for (const int expected : {7, 7, 6, 1}) {
    const Plan& plan = queue.plan(ledger, 7, TimePoint{} + std::chrono::seconds(3));
    BOOST_TEST_REQUIRE(plan.slices.size() == 1U);
    BOOST_TEST(plan.rows == expected);
    BOOST_TEST(plan.slices[0].tokens == expected);
    BOOST_TEST(queue.ends_known_tokens(plan.slices[0]) == (expected < 7));
    BOOST_TEST(ledger.free_tokens() == 100 - queue.sequence(seq).reserved);
    BOOST_TEST(queue.sequence(seq).reserved == queue.sequence(seq).cached + expected);
    advance(queue, ledger, plan);
  }
  const Sequence& s = queue.sequence(seq);
  BOOST_TEST(s.cached == 21);
  BOOST_TEST(s.known() == 22);
  BOOST_TEST(s.generated() == 2);
  BOOST_TEST(s.remaining() == 0);
  BOOST_CHECK(s.admitted == TimePoint{} + std::chrono::seconds(3));
  BOOST_TEST(queue.stats().steps == 4U);
  BOOST_TEST(queue.stats().rows == 21U);
  BOOST_TEST(queue.stats().sequences == 4U);
  queue.finish(seq, ledger);
  BOOST_TEST(queue.empty());
  BOOST_TEST(ledger.free_tokens() == 100);
  BOOST_CHECK_THROW(queue.finish(seq, ledger), Error);
  BOOST_CHECK_THROW(queue.sequence(seq), Error);
}

BOOST_AUTO_TEST_CASE(grants_all_that_fits_if_not_all_that_is_wished) {
  // 5 blocks; the first sequence takes 2, so 48 tokens are free for a prompt of 60: no policy but a rash one asks.
  struct Rash {
    void plan(const QueueState& state, PlanWriter& out) const {
      for (const Candidate& c : state.running) out.take(c.seq, c.pending);
      for (const Candidate& c : state.waiting) out.take(c.seq, c.pending);
    }
  };
  auto ledger = PagedKV::ledger({1, 1, 4, 80}, 80);
  RequestQueue<Rash> queue;
  queue.add({.tokens = text(17), .max_new_tokens = 4}, ledger);
  queue.add({.tokens = text(60), .max_new_tokens = 4}, ledger);
  const Plan& plan = queue.plan(ledger, 512, {});
  BOOST_TEST((granted(plan) == Granted{{0, 17}, {1, 48}}));
  BOOST_TEST(ledger.free_tokens() == 0);
}

BOOST_AUTO_TEST_CASE(the_last_admitted_is_preempted_and_the_oldest_never) {
  CountingLedger ledger(30);
  RequestQueue<ContinuousPolicy> queue;
  for (int i = 0; i < 3; ++i) queue.add({.tokens = text(9), .max_new_tokens = 10, .arrival = {}}, ledger);
  advance(queue, ledger, queue.plan(ledger, 512, {}));
  BOOST_TEST(queue.running() == 3);
  advance(queue, ledger, queue.plan(ledger, 512, {}));  // 30 of 30
  BOOST_TEST(ledger.free_tokens() == 0);
  const Plan& plan = queue.plan(ledger, 512, {});
  BOOST_TEST((granted(plan) == Granted{{0, 1}, {1, 1}}));
  BOOST_TEST(queue.running() == 2);
  BOOST_TEST(queue.waiting() == 1);
  BOOST_TEST(queue.stats().preemptions == 1U);
  const Sequence& victim = queue.sequence(2);
  BOOST_TEST(victim.cached == 0);
  BOOST_TEST(victim.reserved == 0);
  BOOST_TEST(victim.preemptions == 1);
  BOOST_TEST(victim.pending() == 11);  // prompt and what it has generated: nothing is lost
  BOOST_TEST(ledger.free_tokens() == 8);
  // It does not come back before it fits whole, and then before anybody who arrived later.
  queue.add({.tokens = text(1), .max_new_tokens = 1}, ledger);
  for (int i = 0; i < 3; ++i) {
    advance(queue, ledger, queue.plan(ledger, 512, {}));
    BOOST_TEST(queue.running() == 2);
  }
  queue.cancel(1, ledger);
  BOOST_TEST((granted(queue.plan(ledger, 512, {})) == Granted{{0, 1}, {2, 11}, {3, 1}}));
}

// A device knows their last tokens, and the host does not yet.
BOOST_AUTO_TEST_CASE(tokens_may_be_learned_after_the_next_plan) {
  CountingLedger ledger(15);
  RequestQueue<ContinuousPolicy> queue;
  const SeqId a = queue.add({.tokens = text(4), .max_new_tokens = 2}, ledger),
              b = queue.add({.tokens = text(8), .max_new_tokens = 8}, ledger);
  const auto commit = [&] {
    queue.commit(Plan(queue.plan(ledger, 512, {})), ledger);
    for (const SeqId seq : {a, b}) queue.append(seq, kUnknownToken);
  };
  commit();
  BOOST_TEST((granted(queue.plan(ledger, 512, {})) == Granted{{a, 1}, {b, 1}}));
  queue.learn(a, 7);
  queue.learn(b, 8);
  BOOST_TEST(queue.sequence(a).tokens.back() == 7);
  commit();
  // The first has all its tokens, so it is not shown. Its room comes back soon, so no sequence is preempted for room.
  BOOST_TEST((granted(queue.plan(ledger, 512, {})) == Granted{{b, 1}}));
  queue.learn(b, 9);
  queue.commit(Plan(queue.plan(ledger, 512, {})), ledger);
  queue.append(b, kUnknownToken);
  BOOST_TEST(ledger.free_tokens() == 0);
  BOOST_TEST(queue.plan(ledger, 512, {}).slices.empty());
  BOOST_TEST(queue.stats().preemptions == 0u);
  queue.finish(a, ledger);
  BOOST_TEST((granted(queue.plan(ledger, 512, {})) == Granted{{b, 1}}));
  BOOST_TEST((queue.sequence(b).tokens == std::vector<TokenId>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, kUnknownToken}));
}

BOOST_AUTO_TEST_CASE(a_policy_may_choose_the_victim_but_not_the_oldest) {
  struct Chooses : ContinuousPolicy {
    SeqId chosen = 0;
    SeqId victim(const QueueState&) const { return chosen; }
  };
  static_assert(ChoosesVictim<Chooses>);
  for (const auto& [chosen, expected] : std::map<SeqId, SeqId>{{1, 1}, {2, 2}, {0, 2}, {77, 2}}) {
    CountingLedger ledger(27);
    Chooses policy;
    policy.chosen = chosen;
    RequestQueue<Chooses> queue(policy);
    for (int i = 0; i < 3; ++i) queue.add({.tokens = text(9), .max_new_tokens = 10}, ledger);
    advance(queue, ledger, queue.plan(ledger, 512, {}));
    queue.plan(ledger, 512, {});
    BOOST_TEST(queue.running() == 2);
    BOOST_CHECK(queue.sequence(expected).state == Sequence::State::waiting);
  }
}

BOOST_AUTO_TEST_CASE(newcomers_are_sent_back_before_anybody_is_preempted) {
  struct NewcomersFirst {  // a policy as bad as can be
    void plan(const QueueState& state, PlanWriter& out) const {
      for (const Candidate& c : state.waiting) out.take(c.seq, c.pending);
      for (const Candidate& c : state.running) out.take(c.seq, c.pending);
    }
  };
  CountingLedger ledger(20);
  RequestQueue<NewcomersFirst> queue;
  queue.add({.tokens = text(10), .max_new_tokens = 8}, ledger);
  advance(queue, ledger, queue.plan(ledger, 512, {}));
  queue.add({.tokens = text(12), .max_new_tokens = 8}, ledger);
  BOOST_TEST((granted(queue.plan(ledger, 512, {})) == Granted{{0, 1}}));
  BOOST_TEST(queue.stats().preemptions == 0U);
  BOOST_TEST(ledger.free_tokens() == 9);  // nothing is held for who waits
  int ended = 0;
  for (int step = 0; step < 1000 && !queue.empty(); ++step) {
    fake_step(queue, ledger, queue.plan(ledger, 512, {}), [&](const Sequence&) { ++ended; });
  }
  BOOST_TEST(ended == 2);
}

BOOST_AUTO_TEST_CASE(a_ledger_that_breaks_its_word_is_an_error_not_a_hang) {
  struct Liar : CountingLedger {
    using CountingLedger::CountingLedger;
    int calls = 0;
    bool grow(SeqId seq, int tokens) { return ++calls < 3 && CountingLedger::grow(seq, tokens); }
  } ledger(100);
  RequestQueue<ContinuousPolicy> queue;
  queue.add({.tokens = text(5), .max_new_tokens = 10}, ledger);
  advance(queue, ledger, queue.plan(ledger, 512, {}));
  advance(queue, ledger, queue.plan(ledger, 512, {}));
  BOOST_CHECK_EXCEPTION(queue.plan(ledger, 512, {}), Error,
                        [](const Error& e) { return e.kind() == Error::Kind::internal && e.where() == "cache"; });
}

BOOST_AUTO_TEST_CASE(a_cache_that_keeps_nothing_runs_whole_sequences) {
  CountingLedger ledger(40);
  RequestQueue<ContinuousPolicy> queue(ContinuousPolicy{}, /*keeps_tokens=*/false);
  for (const int n : {20, 15, 9}) queue.add({.tokens = text(n), .max_new_tokens = 3}, ledger);
  const Plan& plan = queue.plan(ledger, 7, {});  // a budget of 7 does not cut a sequence of 20
  BOOST_TEST((granted(plan) == Granted{{0, 20}}));
  advance(queue, ledger, plan);
  BOOST_TEST(ledger.free_tokens() == 40);
  BOOST_TEST(queue.sequence(0).cached == 0);
  // This step fails and is not committed: the next one, in which the second does not run, has all the room.
  BOOST_TEST((granted(queue.plan(ledger, 512, {})) == Granted{{0, 21}, {1, 15}}));
  advance(queue, ledger, queue.plan(ledger, 7, {}));
  BOOST_TEST(ledger.free_tokens() == 40);
  BOOST_TEST((granted(queue.plan(ledger, 512, {})) == Granted{{0, 22}, {1, 15}}));
}

BOOST_AUTO_TEST_CASE(a_sequence_runs_once_in_a_step) {
  struct Twice {
    void plan(const QueueState& state, PlanWriter& out) const {
      for (const Candidate& c : state.waiting) BOOST_TEST(out.take(c.seq, 4) == 4);
      for (const Candidate& c : state.waiting) BOOST_TEST(out.take(c.seq, 4) == 0);
      BOOST_TEST(out.take(4711, 4) == 0);
    }
  };
  CountingLedger ledger(40);
  RequestQueue<Twice> queue;
  queue.add({.tokens = text(20), .max_new_tokens = 3}, ledger);
  BOOST_TEST((granted(queue.plan(ledger, 512, {})) == Granted{{0, 4}}));
}

BOOST_AUTO_TEST_CASE(a_plan_that_is_not_committed_is_made_again) {
  CountingLedger ledger(64);
  RequestQueue<ContinuousPolicy> queue;
  queue.add({.tokens = text(30), .max_new_tokens = 5}, ledger);
  queue.add({.tokens = text(10), .max_new_tokens = 5}, ledger);
  const Granted first = granted(queue.plan(ledger, 24, {}));
  BOOST_TEST((first == Granted{{0, 24}}));
  for (int i = 0; i < 3; ++i) {
    BOOST_TEST((granted(queue.plan(ledger, 24, {})) == first));
    BOOST_TEST(ledger.free_tokens() == 40);
  }
}

BOOST_AUTO_TEST_CASE(cancel_in_any_state) {
  CountingLedger ledger(100);
  RequestQueue<ContinuousPolicy> queue(ContinuousPolicy{.max_batch = 2});
  for (int i = 0; i < 4; ++i) queue.add({.tokens = text(10), .max_new_tokens = 5}, ledger);
  advance(queue, ledger, queue.plan(ledger, 512, {}));
  BOOST_TEST(queue.cancel(3, ledger));  // waits
  BOOST_TEST(queue.cancel(0, ledger));  // runs
  BOOST_TEST(!queue.cancel(0, ledger));
  BOOST_TEST(!queue.cancel(4711, ledger));
  BOOST_TEST(ledger.free_tokens() == 90);
  const Plan& plan = queue.plan(ledger, 512, {});
  BOOST_TEST((granted(plan) == Granted{{1, 1}, {2, 10}}));
  BOOST_TEST(queue.cancel(2, ledger));  // in the middle of a step
  queue.commit(plan, ledger);
  BOOST_TEST(queue.sequence(1).cached == 11);
  BOOST_TEST(queue.cancel(1, ledger));
  BOOST_TEST(queue.empty());
  BOOST_TEST(queue.plan(ledger, 512, {}).slices.empty());
  BOOST_TEST(ledger.free_tokens() == 100);
  BOOST_TEST(queue.stats().added == 4U);
  BOOST_TEST(queue.stats().ended == 4U);
}

template <class C>
void decode_steps_allocate_nothing_in(const KvShape& shape) {
  auto ledger = C::ledger(shape, 8192);
  RequestQueue<ContinuousPolicy> queue;
  queue.set_window(shape.window);
  for (int i = 0; i < 64; ++i) queue.add({.tokens = text(10), .max_new_tokens = 200}, ledger);
  for (int i = 0; i < 2; ++i) advance(queue, ledger, queue.plan(ledger, 512, {}));
  BOOST_TEST(queue.running() == 32);
  const long before = allocations;
  for (int i = 0; i < 100; ++i) {
    const Plan& plan = queue.plan(ledger, 512, {});
    queue.commit(plan, ledger);
    for (const auto& slice : plan.slices) queue.append(slice.seq, 1);
  }
  BOOST_TEST(allocations == before);
  BOOST_TEST(queue.sequence(0).generated() == 102);
}

BOOST_AUTO_TEST_CASE(decode_steps_allocate_nothing) {
  decode_steps_allocate_nothing_in<PagedKV>({1, 1, 4, 1024});
  decode_steps_allocate_nothing_in<WindowKV>({1, 1, 4, 1024, 40});
}

BOOST_AUTO_TEST_CASE(queues_move) {
  CountingLedger ledger(100);
  RequestQueue<ContinuousPolicy> queue;
  for (int i = 0; i < 2; ++i) queue.add({.tokens = text(10), .max_new_tokens = 5}, ledger);
  advance(queue, ledger, queue.plan(ledger, 512, {}));
  RequestQueue<ContinuousPolicy> moved = std::move(queue);
  int ended = 0;
  while (!moved.empty()) fake_step(moved, ledger, moved.plan(ledger, 512, {}), [&](const Sequence&) { ++ended; });
  BOOST_TEST(ended == 2);
}

// ---- The real queue, ledgers, views and policies with an engine that writes a tag into every cache slot: the hash of
// the text up to there. It reads all tags back before it accepts a token. Steps fail and requests are cancelled at
// random, and no answer may change.
template <class C, class P>
struct TagSimulation {
  KvShape shape;
  Cpu device{CpuOptions{.threads = 1}};
  CacheStore<C, Cpu> cache;
  RequestQueue<P> queue;
  Random random;
  std::map<SeqId, std::vector<TokenId>> expected;
  int finished = 0, cancelled = 0;

  TagSimulation(P policy, int tokens, int window, std::uint64_t seed)
      : shape{.layers = 1, .heads = 1, .head_dim = 1, .positions = 90, .window = window},
        cache(device, shape, tokens),
        queue(policy, C::keeps_tokens),
        random(seed) {
    queue.set_window(window);
  }

  static float tag(std::span<const TokenId> known) { return static_cast<float>(fake_next_token(known)) + 0.5f; }

  void submit(TimePoint now) {
    std::vector<TokenId> tokens;
    for (int n = random.between(1, 50); n > 0; --n) tokens.push_back(random.between(0, 99));
    const int fresh = random.between(1, 30);
    const SeqId seq = queue.add(
        {.tokens = tokens, .max_new_tokens = fresh, .arrival = now, .priority = random.between(0, 2)}, cache.ledger());
    for (int i = 0; i < fresh; ++i) tokens.push_back(fake_next_token(tokens));
    expected[seq] = tokens;
  }

  void step(const Plan& plan) {
    std::vector<SequenceRows> rows;
    int first = 0;
    for (const auto& slice : plan.slices) {
      rows.push_back({slice.seq, first, slice.tokens, queue.sequence(slice.seq).cached, static_cast<int>(rows.size())});
      first += slice.tokens;
    }
    const auto view = cache.view(device, rows);
    for (const auto& r : rows) {
      const std::span<const TokenId> known = queue.sequence(r.seq).tokens;
      for (int p = shape.window > 0 ? std::max(0, r.start - shape.window + 1) : 0; p < r.start + r.rows; ++p) {
        float& key = view.tile(0, r.slot, 0, p / kTilePositions).keys[p % kTilePositions];
        const float right = tag(known.first(static_cast<std::size_t>(p) + 1));
        if (p >= r.start) key = right;
        BOOST_TEST_REQUIRE(key == right);
      }
    }
    fake_step(queue, cache.ledger(), plan, [&](const Sequence& s) {
      ++finished;
      BOOST_TEST_REQUIRE((s.tokens == expected.at(s.seq)));
      expected.erase(s.seq);
    });
  }

  void run(int requests, int budget) {
    const int all = cache.ledger().free_tokens();
    TimePoint now{};
    int steps = 0;
    for (int to_come = requests; to_come > 0 || !queue.empty(); now += std::chrono::milliseconds(10)) {
      BOOST_TEST_REQUIRE(++steps < 100000);
      for (int n = random.between(0, 2); n > 0 && to_come > 0; --n, --to_come) submit(now);
      queue.set_draining(to_come == 0);
      const Plan& plan = queue.plan(cache.ledger(), budget, now);
      BOOST_TEST_REQUIRE((plan.rows <= budget || !C::keeps_tokens));
      if (random.between(0, 19) == 0) continue;  // the step throws
      if (!expected.empty() && random.between(0, 49) == 0) {
        const SeqId seq = std::next(expected.begin(), random.between(0, static_cast<int>(expected.size()) - 1))->first;
        const bool in_plan = granted(plan).contains(seq);
        if (!in_plan) {
          cancelled += queue.cancel(seq, cache.ledger());
          expected.erase(seq);
        }
      }
      step(plan);
    }
    BOOST_TEST(finished + cancelled == requests);
    BOOST_TEST(expected.empty());
    BOOST_TEST(cache.ledger().free_tokens() == all);
    BOOST_TEST(cache.stats().used_tokens == 0);
  }
};

template <class C>
std::uint64_t simulate(int tokens, int window = 0) {
  std::uint64_t preemptions = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    for (const int budget : {3, 16, 100, 512}) {
      const auto run = [&](auto policy) {
        TagSimulation<C, decltype(policy)> simulation(policy, tokens, window, seed);
        simulation.run(60, budget);
        preemptions += simulation.queue.stats().preemptions;
      };
      run(ContinuousPolicy{.max_batch = 8});
      run(ContinuousPolicy{.token_budget = 10, .order = Order::longest_first});
      run(StaticPolicy{.n = 5});
      run(SequentialPolicy{});
    }
  }
  return preemptions;
}

BOOST_AUTO_TEST_CASE(nobody_notices_preemption_chunks_failures_and_cancels) {
  BOOST_TEST(simulate<PagedKV>(96) > 100U);
  BOOST_TEST(simulate<PagedKVOf<32>>(160) > 100U);
  BOOST_TEST(simulate<PagedKV>(5000) == 0U);
  BOOST_TEST(simulate<ContiguousKV>(270) == 0U);
  BOOST_TEST(simulate<NoCache>(200) > 100U);
  BOOST_TEST(simulate<WindowKV>(96) > 100U);  // no window: as in a paged cache
  BOOST_TEST(simulate<WindowKV>(64, 20) > 100U);
  BOOST_TEST(simulate<WindowKVOf<32>>(160, 33) > 100U);
  BOOST_TEST(simulate<WindowKV>(5000, 20) == 0U);
  BOOST_TEST(simulate<PagedKV>(96, 20) > 100U);  // keeps positions that no row sees
}

BOOST_AUTO_TEST_CASE(a_child_needs_no_room_for_what_its_parent_has) {
  // Found by the simulation: 8 tokens are free, and the child needs one, not ten.
  BlockLedger<4> ledger(5, 20);
  RequestQueue<ContinuousPolicy> queue;
  queue.set_prefix_reuse(false);
  const SeqId parent = queue.add({.tokens = text(10), .max_new_tokens = 3}, ledger);
  const SeqId child = queue.add({.choice = 1, .tokens = text(10), .max_new_tokens = 3, .parent = parent}, ledger);
  const Plan& first = queue.plan(ledger, 512, {});
  BOOST_TEST((granted(first) == Granted{{parent, 10}}));
  advance(queue, ledger, first);
  BOOST_TEST(ledger.free_tokens() == 8);
  BOOST_TEST((granted(queue.plan(ledger, 512, {})) == Granted{{parent, 1}, {child, 1}}));
  BOOST_TEST(ledger.copies().size() == 1U);
}
