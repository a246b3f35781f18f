// The engine as a whole: one attention policy gives the same bits whatever the cache, scheduler, threads, chunks and
// neighbours; requests end as they should, and alone.
#include <tenon/tenon.h>

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <random>

#include "tiny.h"

BOOST_AUTO_TEST_SUITE(engine_engine)

using namespace tenon;

namespace {

const char* const kTales = TENON_SOURCE_DIR "/examples/models/tales";

std::vector<Request> mixed_requests(int count, std::uint32_t seed, int longest = 90) {
  std::mt19937 random(seed);
  const auto draw = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::vector<Request> requests;
  for (int i = 0; i < count; ++i) {
    Request r;
    for (int j = draw(longest); j >= 0; --j) r.input_ids.push_back(draw(301));
    r.options.max_new_tokens = 1 + draw(25);
    r.options.temperature = draw(2) ? 0.0f : 0.9f;
    r.options.seed = random();
    r.options.ignore_eos = true;
    r.options.top_logprobs = 3;
    if (draw(3) == 0) r.options.logits_at = {0, static_cast<int>(r.input_ids.size()) - 1};
    r.options.nll = draw(3) == 0;
    requests.push_back(std::move(r));
  }
  return requests;
}

bool same_floats(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

void require_same(const Completion& a, const Completion& b) {
  BOOST_REQUIRE_EQUAL(a.error, b.error);
  BOOST_REQUIRE(a.ids == b.ids);
  BOOST_REQUIRE(a.reason == b.reason);
  BOOST_REQUIRE_EQUAL(a.text, b.text);
  BOOST_REQUIRE(same_floats(a.logprobs, b.logprobs));
  BOOST_REQUIRE_EQUAL(a.top_logprobs.size(), b.top_logprobs.size());
  for (std::size_t i = 0; i < a.top_logprobs.size(); ++i) {
    for (std::size_t k = 0; k < a.top_logprobs[i].size(); ++k) {
      BOOST_REQUIRE_EQUAL(a.top_logprobs[i][k].id, b.top_logprobs[i].at(k).id);
      BOOST_REQUIRE(a.top_logprobs[i][k].logprob == b.top_logprobs[i].at(k).logprob);
    }
  }
  BOOST_REQUIRE_EQUAL(a.scores != nullptr, b.scores != nullptr);
  if (!a.scores) return;
  BOOST_REQUIRE(a.scores->nll_mean == b.scores->nll_mean);
  BOOST_REQUIRE_EQUAL(a.scores->logits.size(), b.scores->logits.size());
  for (std::size_t i = 0; i < a.scores->logits.size(); ++i) {
    BOOST_REQUIRE_EQUAL(a.scores->logits[i].first, b.scores->logits[i].first);
    BOOST_REQUIRE(same_floats(a.scores->logits[i].second, b.scores->logits[i].second));
  }
}

template <class E, class S>
void require_answers(const std::vector<Completion>& alone, const std::vector<Request>& requests, S scheduler,
                     EngineOptions options) {
  E engine(random_checkpoint(tiny_gpt2(), 5), scheduler, options);
  engine.set_draining(true);
  const auto answers = engine.complete(requests);
  for (std::size_t i = 0; i < answers.size(); ++i) require_same(alone[i], answers[i]);
  BOOST_TEST(engine.pending() == 0);
  BOOST_TEST(engine.cache_stats().used_tokens == 0);
}

template <class Attend>
std::vector<Completion> each_alone(const std::vector<Request>& requests) {
  Engine<Gpt2, Attention<Attend>> engine(random_checkpoint(tiny_gpt2(), 5), EngineOptions{.threads = 1});
  std::vector<Completion> alone;
  for (const auto& request : requests) alone.push_back(engine.complete(request));
  return alone;
}

template <class Attend>
void neighbours_change_nothing() {
  const auto requests = mixed_requests(24, 11);
  const auto alone = each_alone<Attend>(requests);
  using Paged = Engine<Gpt2, Attention<Attend>, Scheduler<AnyScheduler>>;
  using Contiguous = Engine<Gpt2, Attention<Attend>, Cache<ContiguousKV>, Scheduler<AnyScheduler>>;
  using None = Engine<Gpt2, Attention<Attend>, Cache<NoCache>, Scheduler<AnyScheduler>>;
  using Paged64 = Engine<Gpt2, Attention<Attend>, Cache<PagedKVOf<64>>, Scheduler<AnyScheduler>>;
  const auto continuous = [](int batch) { return AnyScheduler(ContinuousPolicy{.max_batch = batch}); };
  require_answers<Paged>(alone, requests, continuous(8), {.threads = 2});
  require_answers<Paged>(alone, requests, continuous(24), {.token_budget = 7, .threads = 3});
  require_answers<Paged>(alone, requests, continuous(24), {.token_budget = 64, .threads = 1});
  require_answers<Paged>(alone, requests, AnyScheduler(SequentialPolicy{}), {.token_budget = 33, .threads = 2});
  require_answers<Paged>(alone, requests, AnyScheduler(StaticPolicy{.n = 5}), {.threads = 4});
  require_answers<Paged64>(alone, requests, continuous(16), {.token_budget = 50, .threads = 2});
  require_answers<Contiguous>(alone, requests, continuous(9), {.token_budget = 17, .threads = 2});
  require_answers<None>(alone, requests, continuous(5), {.threads = 2});
}

}  // namespace

BOOST_AUTO_TEST_CASE(flash_neighbours_change_nothing) { neighbours_change_nothing<FlashAttention>(); }
BOOST_AUTO_TEST_CASE(direct_neighbours_change_nothing) { neighbours_change_nothing<DirectAttention>(); }

BOOST_AUTO_TEST_CASE(a_cache_that_forces_preemption_changes_nothing) {
  const auto requests = mixed_requests(16, 12);
  const auto alone = each_alone<FlashAttention>(requests);
  Engine<Gpt2> engine(random_checkpoint(tiny_gpt2(), 5), EngineOptions{.cache_tokens = 160, .threads = 2});
  const auto answers = engine.complete(requests);
  for (std::size_t i = 0; i < answers.size(); ++i) require_same(alone[i], answers[i]);
  BOOST_TEST(engine.stats().preemptions > 0u);
}

// The two attentions sum in other orders: within 1e-5 of each other, the greedy tokens equal while margins exceed that.
// The twin shows that the bound is not met by anything: another seed of weights breaks it.
BOOST_AUTO_TEST_CASE(direct_and_flash_agree_closely) {
  auto requests = mixed_requests(6, 13, 300);
  for (auto& r : requests) {
    r.options = {.max_new_tokens = 0};
    r.options.logits_at = {static_cast<int>(r.input_ids.size()) - 1};
  }
  const auto largest_difference = [&](std::uint64_t other_seed) {
    const auto flash = each_alone<FlashAttention>(requests);
    Engine<Gpt2, Attention<DirectAttention>> direct(random_checkpoint(tiny_gpt2(), other_seed));
    float worst = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const auto other = direct.complete(requests[i]);
      const auto &a = flash[i].scores->logits[0].second, &b = other.scores->logits[0].second;
      for (std::size_t j = 0; j < a.size(); ++j) worst = std::max(worst, std::abs(a[j] - b[j]));
    }
    return worst;
  };
  BOOST_TEST(largest_difference(5) < 1e-5f);
  BOOST_TEST(largest_difference(6) > 1e-3f);
}

BOOST_AUTO_TEST_CASE(the_default_model_tells_its_tale) {
  Engine<Gpt2> engine(load_checkpoint(kTales));
  const auto answer = engine.complete({.prompt = "The rain in Spain falls", .options = {.max_new_tokens = 15}});
  BOOST_TEST(answer.text == " in the air, and the sun was a great cloud of the sun.");
  BOOST_TEST(to_string(answer.reason) == "length");
}

BOOST_AUTO_TEST_CASE(generate_is_a_range_and_other_requests_run_beside_it) {
  Engine<Gpt2> engine(load_checkpoint(kTales));
  const RequestId other = engine.submit({.prompt = "Alice", .options = {.max_new_tokens = 5}});
  std::string text;
  int tokens = 0;
  for (const auto& token : engine.generate("The rain in Spain falls", {.max_new_tokens = 15})) {
    text += token.text;
    ++tokens;
  }
  BOOST_TEST(text == " in the air, and the sun was a great cloud of the sun.");
  BOOST_TEST(tokens == 15);
  int others = 0;
  for (const Event& event : engine.step()) others += event.request == other;
  BOOST_TEST(others == 6);  // five tokens and the end
  BOOST_TEST(engine.idle());
}

BOOST_AUTO_TEST_CASE(leaving_the_loop_cancels) {
  Engine<Gpt2> engine(load_checkpoint(kTales));
  for (const auto& token : engine.generate("The rain", {.max_new_tokens = 500})) {
    if (token.id >= 0) break;
  }
  BOOST_TEST(engine.idle());
  BOOST_TEST(engine.cache_stats().used_tokens == 0);
}

BOOST_AUTO_TEST_CASE(stop_strings_stop_ids_and_the_models_end) {
  Engine<Gpt2> engine(load_checkpoint(kTales));
  const auto stopped =
      engine.complete({.prompt = "The rain in Spain falls", .options = {.max_new_tokens = 40, .stop = {" sun was"}}});
  BOOST_TEST(stopped.text == " in the air, and the");
  BOOST_TEST(to_string(stopped.reason) == "stop");
  const TokenId comma = engine.tokenizer()->encode(",").front();
  const auto at_id =
      engine.complete({.prompt = "The rain in Spain falls", .options = {.max_new_tokens = 40, .stop_ids = {comma}}});
  BOOST_TEST(at_id.ids.back() == comma);
  BOOST_TEST(at_id.text == " in the air");
  BOOST_TEST(to_string(at_id.reason) == "stop");
  const TokenId end = engine.config().eos.front();
  Options wants_end{.max_new_tokens = 8, .logit_bias = {{end, 1e4f}}};
  BOOST_TEST(engine.complete({.prompt = "Hello", .options = wants_end}).ids == std::vector<TokenId>{end});
  wants_end.ignore_eos = true;
  BOOST_TEST(engine.complete({.prompt = "Hello", .options = wants_end}).ids == std::vector<TokenId>(8, end));
}

// The end may come right after min_new_tokens tokens, and not before. Otherwise the answer is the one without a least
// length.
BOOST_AUTO_TEST_CASE(no_end_before_the_fewest_tokens) {
  Engine<Gpt2> engine(load_checkpoint(kTales));
  const TokenId end = engine.config().eos.front(), comma = engine.tokenizer()->encode(",").front();
  Options o{.max_new_tokens = 8, .min_new_tokens = 5, .logit_bias = {{end, 1e4f}}};
  const auto ids = engine.complete({.prompt = "Hello", .options = o}).ids;
  BOOST_REQUIRE_EQUAL(ids.size(), 6u);
  BOOST_TEST(ids.back() == end);
  BOOST_TEST(std::count(ids.begin(), ids.end(), end) == 1);
  o.logit_bias = {};
  const auto plain =
      engine.complete({.prompt = "Hello", .options = {.max_new_tokens = 8, .logit_bias = {{end, -INFINITY}}}}).ids;
  BOOST_TEST(engine.complete({.prompt = "Hello", .options = o}).ids == plain);
  o = {.max_new_tokens = 12, .min_new_tokens = 9, .logit_bias = {{comma, 1e4f}}, .stop_ids = {comma}};
  const auto stopped = engine.complete({.prompt = "Hello", .options = o}).ids;
  BOOST_REQUIRE_EQUAL(stopped.size(), 10u);
  BOOST_TEST(std::count(stopped.begin(), stopped.end(), comma) == 1);
}

// Prompt tokens have the log-probabilities that they would have as generated ones.
BOOST_AUTO_TEST_CASE(prompt_logprobs_are_those_of_the_same_tokens_generated) {
  Engine<Gpt2> engine(load_checkpoint(kTales));
  const auto ids = engine.tokenizer()->encode("Once upon a time");
  const auto written =
      engine.complete({.input_ids = ids, .options = {.max_new_tokens = 12, .ignore_eos = true, .top_logprobs = 3}});
  std::vector<TokenId> whole = ids;
  whole.insert(whole.end(), written.ids.begin(), written.ids.end());
  const auto scored =
      engine.complete({.input_ids = whole, .options = {.max_new_tokens = 0, .nll = true, .prompt_logprobs = 3}});
  const auto& prompt = scored.scores->prompt;
  BOOST_REQUIRE_EQUAL(prompt.size(), whole.size() - 1);
  double sum = 0;
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    BOOST_TEST(prompt[i].token.id == whole[i + 1]);
    BOOST_TEST(prompt[i].top.size() == 3u);
    sum -= static_cast<double>(prompt[i].token.logprob);
    if (i + 1 < ids.size()) continue;
    BOOST_TEST(prompt[i].token.logprob == written.logprobs[i + 1 - ids.size()]);
    BOOST_TEST(prompt[i].top.front().id == written.top_logprobs[i + 1 - ids.size()].front().id);
  }
  BOOST_TEST(std::abs(sum / static_cast<double>(prompt.size()) - *scored.scores->nll_mean) <
             1e-5);  // floats summed as doubles
  const auto alone = engine.complete({.input_ids = whole, .options = {.max_new_tokens = 0, .prompt_logprobs = 0}});
  BOOST_TEST(!alone.scores->nll_mean.has_value());
  BOOST_TEST(alone.scores->prompt.back().top.empty());
  BOOST_TEST(alone.scores->prompt.back().token.logprob == prompt.back().token.logprob);
}

// A stream can say what the prompt scored before the answer ends.
BOOST_AUTO_TEST_CASE(prompt_logprobs_come_with_the_first_token_and_with_the_end) {
  Engine<Gpt2> engine(load_checkpoint(kTales));
  for (const bool asked : {true, false}) {
    engine.submit(
        {.prompt = "Once upon a time",
         .options = {.max_new_tokens = 5, .ignore_eos = true, .nll = true, .prompt_logprobs = asked ? 0 : -1}});
    std::vector<std::shared_ptr<const Scores>> found;
    while (!engine.idle())
      for (const Event& event : engine.step()) found.push_back(event.scores);
    BOOST_REQUIRE_EQUAL(found.size(), 6u);
    BOOST_REQUIRE(found.back() != nullptr);
    BOOST_TEST((found.front() != nullptr) == asked);
    BOOST_TEST(std::count(found.begin(), found.end(), nullptr) == (asked ? 4 : 5));
    if (asked) BOOST_TEST(found.front()->prompt.size() == found.back()->prompt.size());
    if (asked) BOOST_TEST(*found.front()->nll_mean == *found.back()->nll_mean);
  }
}

BOOST_AUTO_TEST_CASE(nothing_new_only_scores) {
  Engine<Gpt2> engine(load_checkpoint(kTales));
  const auto answer = engine.complete({.prompt = "Once upon a time there was a king",
                                       .options = {.max_new_tokens = 0, .logits_at = {2, 0, 2}, .nll = true}});
  BOOST_TEST(answer.ids.empty());
  BOOST_REQUIRE(answer.scores != nullptr);
  BOOST_REQUIRE_EQUAL(answer.scores->logits.size(), 2u);
  BOOST_TEST(answer.scores->logits[0].first == 0);
  BOOST_TEST(answer.scores->logits[1].first == 2);
  BOOST_TEST(answer.scores->nll_mean.has_value());
  const auto one = engine.complete({.input_ids = {5}, .options = {.max_new_tokens = 0, .nll = true}});
  BOOST_TEST(!one.scores->nll_mean.has_value());
}

BOOST_AUTO_TEST_CASE(refusals_name_the_field) {
  Engine<Gpt2> engine(random_checkpoint(tiny_gpt2(), 5));
  const auto refused = [&](Request request, const std::string& field) {
    try {
      engine.submit(std::move(request));
    } catch (const Error& error) {
      BOOST_TEST(error.where() == field);
      BOOST_TEST(engine.idle());
      return;
    }
    BOOST_ERROR("accepted a bad " + field);
  };
  refused({.prompt = "text"}, "prompt");
  refused({}, "prompt");
  refused({.prompt = "a", .input_ids = {1}}, "input_ids");
  refused({.input_ids = {301}}, "input_ids");
  refused({.input_ids = {-1}}, "input_ids");
  refused({.input_ids = {1}, .options = {.max_new_tokens = -1}}, "max_new_tokens");
  refused({.input_ids = {1}, .options = {.max_new_tokens = 321}}, "max_new_tokens");
  refused({.input_ids = {1}, .options = {.max_new_tokens = 2147483647}}, "max_new_tokens");
  refused({.input_ids = std::vector<TokenId>(321, 1)}, "max_new_tokens");
  refused({.input_ids = {1}, .options = {.temperature = -1}}, "temperature");
  refused({.input_ids = {1}, .options = {.top_k = -1}}, "top_k");
  refused({.input_ids = {1}, .options = {.top_p = 0}}, "top_p");
  refused({.input_ids = {1}, .options = {.logit_bias = {{301, 1.0f}}}}, "logit_bias");
  refused({.input_ids = {1}, .options = {.stop = {"x"}}}, "stop");
  refused({.input_ids = {1}, .options = {.stop_ids = {301}}}, "stop_ids");
  refused({.input_ids = {1}, .options = {.top_logprobs = 302}}, "top_logprobs");
  refused({.input_ids = {1}, .options = {.logits_at = {1}}}, "logits_at");
  refused({.input_ids = {1}, .options = {.max_new_tokens = 3, .min_new_tokens = 4}}, "min_new_tokens");
  refused({.input_ids = {1}, .options = {.min_new_tokens = -1}}, "min_new_tokens");
  refused({.input_ids = {1}, .options = {.prompt_logprobs = 302}}, "prompt_logprobs");
  refused({.input_ids = {1}, .options = {.finish_within_budget = true}}, "finish_within_budget");
  // The longest that fits: the last token is never fed back.
  BOOST_TEST(engine.complete({.input_ids = {1}, .options = {.max_new_tokens = 320, .ignore_eos = true}}).ids.size() ==
             320u);
}

// Banning every token leaves nothing to draw: that request fails, its neighbour's answer is as without it.
BOOST_AUTO_TEST_CASE(a_failing_request_fails_alone) {
  Engine<Gpt2> engine(random_checkpoint(tiny_gpt2(), 5));
  Request bad{.input_ids = {1, 2}};
  for (TokenId id = 0; id < 301; ++id) bad.options.logit_bias.emplace_back(id, -INFINITY);
  const Request good{.input_ids = {3, 4}, .options = {.max_new_tokens = 9, .ignore_eos = true}};
  const auto alone = engine.complete(good);
  const auto both = engine.complete(std::vector<Request>{bad, good});
  BOOST_TEST(to_string(both[0].reason) == "error");
  BOOST_TEST(both[0].error.find("no token is allowed") != std::string::npos);
  require_same(alone, both[1]);
}

// An event says that its token is the last one, whatever ends the answer; the end says how long the request waited.
BOOST_AUTO_TEST_CASE(the_last_token_is_marked) {
  Engine<Gpt2> engine(load_checkpoint(kTales));
  const TokenId comma = engine.tokenizer()->encode(",").front();
  const auto before = Clock::now();
  for (const Options& options :
       {Options{.max_new_tokens = 5, .n = 2}, Options{.max_new_tokens = 40, .stop = {" sun was"}},
        Options{.max_new_tokens = 40, .stop_ids = {comma}}}) {
    std::vector<bool> ended(2, false);
    engine.submit({.prompt = "The rain in Spain falls", .options = options});
    while (!engine.idle()) {
      for (const Event& event : engine.step()) {
        const auto choice = static_cast<std::size_t>(event.choice);
        BOOST_TEST(ended[choice] == (event.kind == Event::Kind::finished));
        if (event.final) ended[choice] = true;
        if (event.kind == Event::Kind::finished) BOOST_TEST((event.started >= before && event.started <= Clock::now()));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(cancel_frees_at_once_and_says_so) {
  Engine<Gpt2> engine(random_checkpoint(tiny_gpt2(), 5));
  const RequestId id = engine.submit({.input_ids = {1, 2, 3}, .options = {.max_new_tokens = 100}});
  engine.step();
  BOOST_TEST(engine.cancel(id));
  BOOST_TEST(!engine.cancel(id));
  BOOST_TEST(engine.cache_stats().used_tokens == 0);
  const auto events = engine.step();
  BOOST_REQUIRE_EQUAL(events.size(), 1u);
  BOOST_TEST(to_string(events[0].reason) == "cancelled");
}

// Its token 900 is beyond the rows of this engine's table of embeddings.
BOOST_AUTO_TEST_CASE(a_request_that_another_engine_prepared_is_refused) {
  ModelConfig larger = tiny_gpt2();
  larger.vocab = 1000;
  Engine<Gpt2> engine(random_checkpoint(tiny_gpt2(), 5), EngineOptions{.threads = 1});
  Engine<Gpt2> twin(random_checkpoint(tiny_gpt2(), 5), EngineOptions{.threads = 1});
  Engine<Gpt2> other(random_checkpoint(larger, 5), EngineOptions{.threads = 1});
  const auto is_named = [](const Error& error) {
    return error.kind() == Error::Kind::invalid_request && error.where() == "request";
  };
  BOOST_CHECK_EXCEPTION(engine.enqueue(other.prepare({.input_ids = {900}})), Error, is_named);
  BOOST_CHECK_EXCEPTION(engine.enqueue(twin.prepare({.input_ids = {1}})), Error, is_named);
  BOOST_TEST(engine.idle());
  const PreparedRequest own = engine.prepare({.input_ids = {1}, .options = {.max_new_tokens = 1}});
  Engine<Gpt2> moved(std::move(engine));
  const RequestId id = moved.enqueue(own);
  BOOST_TEST(moved.cancel(id));
}

namespace {

struct CountingLedger : PagedKV::Ledger {
  explicit CountingLedger(const PagedKV::Ledger& base) : PagedKV::Ledger(base) {}
  int capacity_tokens() const {
    ++reads;
    return PagedKV::Ledger::capacity_tokens();
  }
  static inline int reads = 0;
};
struct CountingCache : PagedKV {
  using Ledger = CountingLedger;
  static Ledger ledger(const KvShape& shape, int tokens) { return Ledger(PagedKV::ledger(shape, tokens)); }
};

}  // namespace

// Steps change the ledger, and prepare() may run on another thread meanwhile.
BOOST_AUTO_TEST_CASE(prepare_does_not_read_the_ledger) {
  const Engine<Gpt2, Cache<CountingCache>> engine(random_checkpoint(tiny_gpt2(), 5),
                                                  EngineOptions{.cache_tokens = 32, .threads = 1});
  CountingLedger::reads = 0;
  engine.prepare({.input_ids = {1}, .options = {.max_new_tokens = 32}});
  BOOST_CHECK_THROW(engine.prepare({.input_ids = {1}, .options = {.max_new_tokens = 33}}), Error);
  BOOST_TEST(CountingLedger::reads == 0);
}

// n new tokens are n steps: the step that reads the prompt gives the first.
BOOST_AUTO_TEST_CASE(continuous_batching_takes_130_steps_where_static_takes_400) {
  std::vector<Request> requests;
  for (int i = 0; i < 32; ++i) {
    requests.push_back(
        {.input_ids = {1, 2, 3, 4, 5, 6, 7}, .options = {.max_new_tokens = i % 8 == 0 ? 100 : 10, .ignore_eos = true}});
  }
  const auto steps = [&](AnyScheduler scheduler) {
    Engine<Gpt2, Scheduler<AnyScheduler>> engine(random_checkpoint(tiny_gpt2(), 5), std::move(scheduler),
                                                 {.draft_tokens = 0});
    engine.complete(requests);
    return engine.stats().steps;
  };
  BOOST_TEST(steps(StaticPolicy{.n = 8}) == 400u);
  BOOST_TEST(steps(ContinuousPolicy{.max_batch = 8}) == 130u);
  BOOST_TEST(steps(ContinuousPolicy{.max_batch = 8, .order = Order::longest_first}) == 100u);
}

BOOST_AUTO_TEST_SUITE_END()
