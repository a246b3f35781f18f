// A device that picks tokens itself is a step ahead of the host: the answers are those of one that is not.
#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "../io/scratch.h"
#include "../ops/draw_reference.h"
#include "invariance.h"
#include "tenon/tenon.h"
#include "tenon/testing/random.h"
#include "tenon/testing/random_adapter.h"
#include "tiny.h"

namespace tenon::test {

struct AheadState {
  int steps = 0, drawn = 0;  // whose tokens the device has picked; rows of them that were drawn
  int on_the_way = 0, most_on_the_way = 0;
  int fail_wait = 0, fail_pick = 0;  // the call that throws, counted down to 0
  TokenId spoil = 0;                 // is added to what is picked
};

// A CPU that hands its picks over as late as a GPU does. Tests make it fail, and read its counters, by `now`.
struct AheadCpu : Cpu {
  using Cpu::Cpu;
  static constexpr bool runs_asynchronously = true;
  static inline AheadState now;

  class Later {
   public:
    std::vector<std::byte> values;
    bool waits = false;
    const std::byte* wait() {
      if (std::exchange(waits, false)) --now.on_the_way;
      if (now.fail_wait > 0 && --now.fail_wait == 0) throw std::runtime_error("the device fails");
      return values.data();
    }
  };
  template <class T>
  void fetch_later(const T* from, std::size_t count, Later& to) {
    if (count == 0) return;
    const auto bytes = std::as_bytes(std::span(from, count));
    to.values.assign(bytes.begin(), bytes.end());
    if (!std::exchange(to.waits, true)) ++now.on_the_way;  // else its picks were never read
    now.most_on_the_way = std::max(now.most_on_the_way, now.on_the_way);
    ++now.steps;
  }
};

template <class W>
void head_pick(AheadCpu& device, const HeadPickArgs<W>& args) {
  if (AheadCpu::now.fail_pick > 0 && --AheadCpu::now.fail_pick == 0) throw std::runtime_error("no memory to pick");
  std::vector<int> counts;
  for (const PickRow& row : args.rows) counts.push_back(row.best);
  std::vector<std::vector<TokenLogit>> best(counts.size());
  head_best(device, HeadBestArgs<W>{args.hidden, args.weight, args.vocab, counts.data(), best.data()});
  for (std::size_t i = 0; i < best.size(); ++i) {
    std::sort(best[i].begin(), best[i].end(), ranks_before);
    args.picks[i] = picked(best[i], args.rows[i]);
    if (args.picks[i] >= 0) args.picks[i] += AheadCpu::now.spoil;
    AheadCpu::now.drawn += args.rows[i].temperature != 0;
  }
}

}  // namespace tenon::test

BOOST_AUTO_TEST_SUITE(engine_ahead)

using namespace tenon;
using test::AheadCpu;
using testing::Random;

namespace {

static_assert(PicksAhead<AheadCpu, Float32::View> && !PicksAhead<Cpu, Float32::View>);

template <class D, class... Choices>
using Of = Engine<Gpt2, Device<D>, Choices...>;

ModelFiles files() { return random_checkpoint(tiny_gpt2(), 9); }

// Greedy or drawn among few, of all lengths; a third end before that, at a token that comes anyway.
std::vector<Request> of_the_best(int count) {
  std::vector<Request> all;
  Random random(3);
  for (int i = 0; i < count; ++i) {
    Request r;
    for (int t = random.between(1, i % 9 == 4 ? 90 : 20); t > 0; --t) r.input_ids.push_back(random.between(0, 298));
    r.options = {.max_new_tokens = i % 10 == 7 ? 0 : random.between(1, 30), .ignore_eos = true};
    if (i % 8 == 3) r.options.n = 2;
    if (i % 4 == 1)
      r.options.temperature = 0.5f + 0.1f * static_cast<float>(i % 7),
      r.options.top_k = std::array{1, 5, 40, 256}[static_cast<std::size_t>(i / 4 % 4)];
    if (i % 12 == 1) r.options.top_p = 0.6f;
    if (i % 16 == 5) r.options.min_p = 0.1f;
    r.options.seed = static_cast<std::uint64_t>(i);
    all.push_back(std::move(r));
  }
  Of<Cpu> engine{files(), {}, {.threads = 1}};
  const auto answers = engine.complete(all);
  for (std::size_t i = 0; i < all.size(); i += 3) {
    const auto& ids = answers[i].ids;
    if (!ids.empty()) all[i].options.stop_ids = {ids[ids.size() / 2]};
  }
  return all;
}

bool alike(const Completion& a, const Completion& b) {
  bool same = a.error == b.error && a.ids == b.ids && a.reason == b.reason && a.logprobs == b.logprobs &&
              a.logits_hash == b.logits_hash && a.others.size() == b.others.size();
  for (std::size_t i = 0; same && i < a.others.size(); ++i) same = a.others[i].ids == b.others[i].ids;
  return same;
}
void check_alike(const std::vector<Completion>& a, const std::vector<Completion>& b, const std::string& what) {
  BOOST_TEST_REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    BOOST_TEST(alike(a[i], b[i]), what << ", request " << i << " " << a[i].error);
}

// All of them, of an engine of which exactly one step throws.
template <class E>
std::map<RequestId, Completion> answers_around_one_failure(E& engine, const std::vector<Request>& requests) {
  std::map<RequestId, Completion> answers;
  for (const Request& r : requests) engine.submit(r);
  int thrown = 0;
  while (!engine.idle()) {
    try {
      for (const Event& event : engine.step()) answers[event.request].add(event, false);
    } catch (const std::runtime_error&) {
      ++thrown;
    }
  }
  BOOST_TEST(thrown == 1);
  return answers;
}

// One that was cancelled begins as the whole one does.
bool as_far_as_it_goes(const Choice& a, const Choice& whole) {
  if (a.reason != FinishReason::cancelled) return a.ids == whole.ids && a.reason == whole.reason;
  return a.ids.size() <= whole.ids.size() && std::equal(a.ids.begin(), a.ids.end(), whole.ids.begin());
}

template <class... Choices>
void check(const std::vector<Request>& requests, EngineOptions options, AnyScheduler scheduler,
           const std::string& what) {
  options.threads = 2;
  const auto expected = Of<Cpu, Scheduler<AnyScheduler>, Choices...>{files(), scheduler, options}.complete(requests);
  AheadCpu::now = {};
  Of<AheadCpu, Scheduler<AnyScheduler>, Choices...> engine{files(), scheduler, options};
  check_alike(engine.complete(requests), expected, what);
  BOOST_TEST(AheadCpu::now.most_on_the_way == 2, what);
  BOOST_TEST(AheadCpu::now.drawn > 5, what);
  BOOST_TEST(engine.cache_stats().used_tokens == 0, what);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_step_ahead_gives_the_same_answers) {
  const std::vector<Request> requests = of_the_best(60);
  for (const int batch : {1, 3, 16, 64}) {
    check(requests, {}, ContinuousPolicy{.max_batch = batch}, "batch of " + std::to_string(batch));
    check(requests, {.token_budget = 9}, ContinuousPolicy{.max_batch = batch},
          "small steps, batch of " + std::to_string(batch));
  }
  check(requests, {}, FairPolicy{.max_batch = 5}, "fair");
  check(requests, {}, SequentialPolicy{}, "sequential");
  check(requests, {}, StaticPolicy{.n = 4, .max_wait = std::chrono::hours(24)}, "static");
  check<Cache<ContiguousKV>>(requests, {}, ContinuousPolicy{.max_batch = 7}, "contiguous");
  check<Cache<NoCache>>(requests, {}, ContinuousPolicy{.max_batch = 7}, "no cache");
  check<Weights<ZeroPointInt8>, Attention<DirectAttention>>(requests, {.prefix_reuse = false},
                                                            ContinuousPolicy{.max_batch = 7}, "int8");
}

// Room for few: texts are sent back and read again, some while one of their tokens is only on the device.
BOOST_AUTO_TEST_CASE(a_cache_that_is_full_changes_no_answer) {
  const std::vector<Request> requests = of_the_best(40);
  for (const int tokens : {128, 160, 256}) {
    const EngineOptions options{.cache_tokens = tokens, .threads = 1};
    const auto expected = Of<Cpu>{files(), ContinuousPolicy{.max_batch = 16}, options}.complete(requests);
    AheadCpu::now = {};
    Of<AheadCpu> engine{files(), ContinuousPolicy{.max_batch = 16}, options};
    check_alike(engine.complete(requests), expected, std::to_string(tokens) + " tokens");
    BOOST_TEST(engine.stats().preemptions > 0u);
    BOOST_TEST(AheadCpu::now.most_on_the_way == 2);
    BOOST_TEST(engine.cache_stats().used_tokens == 0);
  }
}

// Steps of which some row is drawn, scored or hashed here end before the next; others beside them in turn.
BOOST_AUTO_TEST_CASE(steps_that_the_host_must_end_come_between) {
  std::vector<Request> requests = of_the_best(60);
  for (std::size_t i = 0; i < requests.size(); i += 7) {
    Options& o = requests[i].options;
    o.seed = i;
    if (i % 2 == 0)
      o.temperature = 0.8f, o.repetition_penalty = 1.2f;
    else
      o.prompt_logprobs = 2, o.logits_hash = true;
    if (i % 3 == 0) o.top_logprobs = 2;
    if (i % 5 == 0) o.min_new_tokens = std::min(3, o.max_new_tokens);
    if (i % 4 == 3) o.temperature = 1, o.top_k = 9, o.typical_p = 0.8f;
    if (i % 2 == 1) {
      requests[i].logits_processor = [](std::span<float> logits, std::span<const TokenId>,
                                        std::span<const TokenId> generated) {
        for (const TokenId id : generated) logits[static_cast<std::size_t>(id)] -= 1;
      };
    }
  }
  for (const std::size_t i : {11u, 22u, 26u}) {
    requests[i].options = {
        .max_new_tokens = 20, .temperature = 2, .top_k = 30, .typical_p = 0.3f, .seed = i, .ignore_eos = true};
  }
  requests[3].logits_processor = [](std::span<float> logits, std::span<const TokenId>, std::span<const TokenId>) {
    std::swap(logits[1], logits[2]);  // greedy or of few candidates, and of the whole row all the same
  };
  for (const int batch : {1, 2, 3, 5})
    check(requests, {.token_budget = 30}, ContinuousPolicy{.max_batch = batch},
          "mixed, batch of " + std::to_string(batch));
}

BOOST_AUTO_TEST_CASE(adapters_live_as_long_as_a_step_reads_them) {
  std::vector<Request> requests = of_the_best(24);
  const test::Scratch folder;
  for (int a = 0; a < 4; ++a) {
    testing::write_adapter(folder / std::to_string(a),
                           adapter_sites(Gpt2::tensors(tiny_gpt2()), Gpt2::name_prefix).sites,
                           {.rank = a + 2, .seed = static_cast<std::uint64_t>(a)});
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (i % 5 != 0) requests[i].adapters = {{(folder / std::to_string(i % 4)).string()}};
  }
  EngineOptions options;
  options.adapters.count = 2;
  check(requests, options, ContinuousPolicy{.max_batch = 6}, "two slots for four adapters");
}

// Between two steps requests are held, resumed or cancelled. Tokens that the device has picked for them meanwhile are
// dropped.
BOOST_AUTO_TEST_CASE(who_leaves_between_two_steps_is_left_out) {
  std::vector<Request> requests = of_the_best(30);
  requests[5].options.temperature = requests[17].options.temperature = 0.7f;
  const auto expected = Of<Cpu>{files(), {}, {.threads = 1}}.complete(requests);
  int cancelled = 0, held = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    AheadCpu::now = {};
    Of<AheadCpu> engine{
        files(), ContinuousPolicy{.max_batch = 8}, {.cache_tokens = seed % 2 == 0 ? 0 : 256, .threads = 1}};
    std::map<RequestId, std::size_t> number;
    std::map<RequestId, Completion> answers;
    std::vector<RequestId> open, on_hold;
    for (std::size_t next = 0; next < requests.size() || !engine.idle();) {
      for (int i = random.between(0, 2); i > 0 && next < requests.size(); --i) {
        const RequestId id = engine.submit(requests[next]);
        number[id] = next++;
        open.push_back(id);
      }
      const auto any = [&](std::vector<RequestId>& from) {
        return from[static_cast<std::size_t>(random.between(0, static_cast<int>(from.size()) - 1))];
      };
      if (!open.empty() && random.between(0, 5) == 0) {
        const RequestId id = any(open);
        if (engine.hold(id)) on_hold.push_back(id), ++held;
      }
      if (!open.empty() && random.between(0, 12) == 0 && engine.cancel(any(open))) ++cancelled;
      if (!on_hold.empty() && (random.between(0, 2) == 0 || engine.pending() == static_cast<int>(on_hold.size()))) {
        const RequestId id = any(on_hold);
        engine.resume(id);
        std::erase(on_hold, id);
      }
      for (const Event& event : engine.step()) {
        if (answers[event.request].add(event, false))
          std::erase(open, event.request), std::erase(on_hold, event.request);
      }
    }
    for (const auto& [id, answer] : answers) {
      const Completion& whole = expected[number[id]];
      const auto what = "seed " + std::to_string(seed) + ", request " + std::to_string(number[id]) + " " + answer.error;
      BOOST_TEST(as_far_as_it_goes(answer, whole), what);
      for (std::size_t i = 0; i < answer.others.size(); ++i)
        BOOST_TEST(as_far_as_it_goes(answer.others[i], whole.others[i]), what);
    }
    BOOST_TEST(answers.size() == requests.size());
    BOOST_TEST(AheadCpu::now.most_on_the_way == 2);
    BOOST_TEST(engine.cache_stats().used_tokens == 0);
  }
  BOOST_TEST((cancelled > 20 && held > 60), cancelled << " cancelled, " << held << " held");
}

// A launch that fails takes nothing with it: the step before it ends, and the next goes on with everybody.
BOOST_AUTO_TEST_CASE(a_launch_that_fails_is_made_again) {
  const std::vector<Request> requests = of_the_best(12);
  const auto expected = Of<Cpu>{files(), {}, {.threads = 1}}.complete(requests);
  for (int at = 1; at <= 12; ++at) {
    AheadCpu::now = {.fail_pick = at};
    Of<AheadCpu> engine{files(), {}, {.threads = 1}};
    const auto answers = answers_around_one_failure(engine, requests);
    std::size_t i = 0;
    BOOST_TEST_REQUIRE(answers.size() == expected.size());
    for (const auto& [id, answer] : answers) BOOST_TEST(alike(answer, expected[i++]), "failing launch " << at);
  }
}

// Where the device fails, so do the requests whose tokens it had, and no later request.
BOOST_AUTO_TEST_CASE(a_device_that_fails_takes_what_it_had) {
  const std::vector<Request> requests = of_the_best(12);
  const auto expected = Of<Cpu>{files(), {}, {.threads = 1}}.complete(requests);
  AheadCpu::now = {.fail_wait = 4};
  Of<AheadCpu> engine{files(), {}, {.threads = 1}};
  const auto answers = answers_around_one_failure(engine, requests);
  int failed = 0;
  std::size_t i = 0;
  for (const auto& [id, answer] : answers) {
    if (!answer.error.empty())
      ++failed;
    else
      BOOST_TEST(alike(answer, expected[i]));
    if (!answer.error.empty()) BOOST_TEST(answer.error == "step: the device fails");
    ++i;
  }
  BOOST_TEST(failed > 5);
  BOOST_TEST(engine.cache_stats().used_tokens == 0);
  check_alike(engine.complete(requests), expected, "afterwards");
}

// Its request fails when the host reads the pick, a step later, and no other request does.
BOOST_AUTO_TEST_CASE(logits_that_are_not_finite_fail_their_own_request) {
  std::vector<Request> requests = of_the_best(12);
  for (Request& r : requests) {
    for (TokenId& id : r.input_ids) id %= invariance::kPoison;
    r.options.stop_ids.clear();
  }
  requests[4].input_ids.back() = invariance::kPoison;
  requests[9].input_ids.front() = invariance::kPoison;
  const auto expected = Of<Cpu, Head<invariance::PoisonedHead>>{files(), {}, {.threads = 1}}.complete(requests);
  AheadCpu::now = {};
  check_alike(Of<AheadCpu, Head<invariance::PoisonedHead>>{files(), {}, {.threads = 1}}.complete(requests), expected,
              "poisoned");
  BOOST_TEST(expected[4].error.find("not finite") != std::string::npos);
  BOOST_TEST(expected[9].error.find("not finite") != std::string::npos);
  BOOST_TEST(AheadCpu::now.most_on_the_way == 2);
}

BOOST_AUTO_TEST_CASE(every_step_is_reported_once) {
  std::vector<std::uint64_t> steps;
  int rows = 0;
  EngineOptions options{.threads = 1};
  options.on_step = [&](const StepReport& report) {
    steps.push_back(report.step);
    for (const StepRow& row : report.rows) rows += row.tokens;
    BOOST_TEST((report.begin <= report.end));
  };
  Of<AheadCpu> engine{files(), ContinuousPolicy{.max_batch = 3}, options};
  engine.complete(of_the_best(20));
  for (std::size_t i = 0; i < steps.size(); ++i) BOOST_TEST(steps[i] == i + 1);
  BOOST_TEST(static_cast<std::uint64_t>(rows) == engine.stats().rows);
}

// Nor is a row computed for those whose last token is only on the device.
BOOST_AUTO_TEST_CASE(ends_that_are_foreseen_cost_nothing) {
  std::vector<Request> requests = of_the_best(30);
  for (Request& r : requests) r.options.stop_ids.clear(), r.options.n = 1;
  const EngineOptions options{.threads = 1, .prefix_reuse = false, .draft_tokens = 0};  // a wrong guess costs a row
  Of<AheadCpu> ahead{files(), ContinuousPolicy{.max_batch = 7}, options};
  Of<Cpu> waiting{files(), ContinuousPolicy{.max_batch = 7}, options};
  check_alike(ahead.complete(requests), waiting.complete(requests), "no surprises");
  BOOST_TEST(ahead.stats().rows == waiting.stats().rows);
  BOOST_TEST(ahead.stats().launched_ahead > ahead.stats().steps / 2);
  BOOST_TEST(waiting.stats().launched_ahead == 0u);

  // Nor the prompt of one that writes nothing once more, where nothing is kept.
  Of<AheadCpu, Cache<NoCache>> nothing_kept{files(), ContinuousPolicy{.max_batch = 7}, options};
  Of<Cpu, Cache<NoCache>> waiting_too{files(), ContinuousPolicy{.max_batch = 7}, options};
  check_alike(nothing_kept.complete(requests), waiting_too.complete(requests), "nothing kept");
  BOOST_TEST(nothing_kept.stats().rows == waiting_too.stats().rows);
}

// Adapters of sequences that end after a launch live for two further launches: by then the device has ended that step.
BOOST_AUTO_TEST_CASE(adapters_that_have_retired) {
  AheadCpu device({.threads = 1});
  RetiredAdapters retired(RunsAsynchronously<AheadCpu>);
  auto set = std::make_shared<AdapterSet>();
  const std::weak_ptr<AdapterSet> there = set;
  retired.begin_step();
  retired.add(std::move(set));
  set.reset();
  retired.begin_step();
  BOOST_TEST(!there.expired());
  retired.begin_step();
  BOOST_TEST(there.expired());
  auto other = std::make_shared<AdapterSet>();
  const std::weak_ptr<AdapterSet> released = other;
  retired.add(std::exchange(other, nullptr));
  retired.release(device);
  BOOST_TEST(released.expired());
}

BOOST_AUTO_TEST_CASE(it_can_be_told_not_to) {
  AheadCpu::now = {};
  Of<AheadCpu>{files(), {}, {.threads = 1, .run_ahead = false}}.complete(of_the_best(5));
  BOOST_TEST(AheadCpu::now.steps == 0);
}

// The answer holds the tokens that the device has picked: the tests above would see another token.
BOOST_AUTO_TEST_CASE(another_token_is_seen) {
  std::vector<Request> requests = of_the_best(3);
  for (Request& r : requests) r.options = {.max_new_tokens = 8, .ignore_eos = true};
  const auto expected = Of<Cpu>{files(), {}, {.threads = 1}}.complete(requests);
  AheadCpu::now = {.spoil = 1};
  const auto spoiled = Of<AheadCpu>{files(), {}, {.threads = 1}}.complete(requests);
  AheadCpu::now = {};
  for (std::size_t i = 0; i < requests.size(); ++i) BOOST_TEST(!alike(spoiled[i], expected[i]));
}

// The token that only the device knows is picked again in the other engine.
BOOST_AUTO_TEST_CASE(a_request_moves_although_the_device_is_ahead) {
  AheadCpu::now = {};
  Of<AheadCpu> one{files(), {}, {.threads = 1}}, other{files(), {}, {.threads = 1}};
  for (const Request& request : of_the_best(12)) {
    const Completion whole = one.complete(request);
    bool ended = false;
    for (int steps = 0; !ended; ++steps) {
      Completion moved;
      const auto take = [&](auto& engine) {
        for (const Event& event : engine.step()) moved.add(event, false);
      };
      const RequestId id = one.submit(request);
      for (int i = 0; i < steps; ++i) take(one);
      ended = one.idle();
      if (!ended) {
        const Snapshot snapshot = one.snapshot(id);
        one.cancel(id, FinishReason::moved);
        while (!one.idle()) take(one);
        other.submit(request_of(snapshot));
        while (!other.idle()) take(other);
      }
      BOOST_TEST(alike(moved, whole), "after step " << steps);
    }
  }
  BOOST_TEST(one.stats().launched_ahead > 0u);
}

BOOST_AUTO_TEST_SUITE_END()
