// Several answers to one request, shared prefixes, held requests: what the engine adds to the queue's sharing.
#include <tenon/tenon.h>

#include <boost/test/unit_test.hpp>
#include <map>
#include <numeric>
#include <random>

#include "tiny.h"

BOOST_AUTO_TEST_SUITE(engine_choices)

using namespace tenon;

namespace {

using Paged = Engine<Gpt2, Scheduler<AnyScheduler>>;

Paged engine(EngineOptions options = {}, int max_batch = 32) {
  options.draft_tokens = 0;  // the tests count steps and rows
  return Paged(random_checkpoint(tiny_gpt2(), 5), AnyScheduler(ContinuousPolicy{.max_batch = max_batch}), options);
}

std::vector<TokenId> text(int n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(static_cast<std::size_t>(n));
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 300);
  return tokens;
}

// Sampled, with everything that can be compared.
Request request(int prompt, unsigned seed, int fresh = 12) {
  Request r{.input_ids = text(prompt, seed)};
  r.options = {.max_new_tokens = fresh, .temperature = 1.2f, .seed = seed, .ignore_eos = true, .top_logprobs = 2};
  r.options.logits_hash = true;
  return r;
}

void require_same(const Choice& a, const Choice& b) {
  BOOST_TEST_REQUIRE(a.ids == b.ids);
  BOOST_TEST_REQUIRE(a.logprobs == b.logprobs);
  BOOST_REQUIRE(a.logits_hash == b.logits_hash);
  BOOST_REQUIRE(a.reason == b.reason);
}

// Choice i, asked for alone.
Choice choice_alone(Request r, int choice) {
  r.options.seed = choice_seed(r.options.seed, choice);
  r.options.n = 1;
  r.options.best_of = 0;
  return engine({.prefix_reuse = false}).complete(r);
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_choice_is_the_answer_to_a_request_of_its_own) {
  for (const int prompt : {1, 2, 15, 16, 17, 45}) {
    for (const EngineOptions& options :
         {EngineOptions{}, EngineOptions{.token_budget = 7}, EngineOptions{.prefix_reuse = false}}) {
      Request r = request(prompt, 3);
      r.options.n = 4;
      Paged e = engine(options);
      const Completion all = e.complete(r);
      BOOST_TEST_REQUIRE(all.others.size() == 3U);
      require_same(all, choice_alone(r, 0));
      for (int i = 1; i < 4; ++i) require_same(all.others[static_cast<std::size_t>(i - 1)], choice_alone(r, i));
      BOOST_TEST(all.ids != all.others[0].ids);
      BOOST_TEST(e.cache_stats().used_tokens == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(choices_share_the_blocks_of_their_prompt) {
  Request r = request(100, 4, 3);
  r.options.n = 8;
  Paged e = engine({.cache_tokens = 320});
  e.submit(r);
  e.step();
  e.step();
  BOOST_TEST(e.stats().running == 8);
  // 6 shared blocks of 16, and a seventh for each; nothing like 8 x 101 tokens.
  BOOST_TEST(e.cache_stats().used_tokens == 16 * (6 + 8));
  BOOST_TEST(e.stats().rows == 100U + 8U);
  BOOST_TEST(e.stats().prefix_hit_tokens == 0U);  // of what strangers left, that is
  BOOST_TEST(e.stats().preemptions == 0U);
}

BOOST_AUTO_TEST_CASE(choices_survive_a_cache_too_small_for_them) {
  Request r = request(60, 5, 40);
  r.options.n = 6;
  Paged e = engine({.cache_tokens = 200});
  const Completion all = e.complete(r);
  BOOST_TEST(e.stats().preemptions > 0U);
  require_same(all, choice_alone(r, 0));
  for (int i = 1; i < 6; ++i) require_same(all.others[static_cast<std::size_t>(i - 1)], choice_alone(r, i));
}

BOOST_AUTO_TEST_CASE(other_caches_give_the_same_choices) {
  Request r = request(33, 6);
  r.options.n = 3;
  const Completion paged = engine().complete(r);
  const auto same = [&](auto other) {
    const Completion all = other.complete(r);
    require_same(all, paged);
    for (std::size_t i = 0; i < 2; ++i) require_same(all.others[i], paged.others[i]);
  };
  same(Engine<Gpt2, Cache<ContiguousKV>>(random_checkpoint(tiny_gpt2(), 5)));
  same(Engine<Gpt2, Cache<NoCache>>(random_checkpoint(tiny_gpt2(), 5)));
}

BOOST_AUTO_TEST_CASE(the_last_event_of_a_request_says_so) {
  Paged e = engine();
  Request r = request(9, 7, 3);
  r.options.n = 3;
  r.options.nll = true;
  const RequestId id = e.submit(r);
  std::map<int, int> tokens, ends;
  int last = 0, scores = 0;
  while (!e.idle()) {
    for (const Event& event : e.step()) {
      BOOST_TEST(event.request == id);
      BOOST_TEST(last == 0);
      last += event.last;
      (event.kind == Event::Kind::token ? tokens : ends)[event.choice]++;
      scores += event.scores != nullptr;
    }
  }
  BOOST_TEST(last == 1);
  BOOST_TEST(scores == 1);  // the prompt is scored once
  BOOST_TEST((tokens == std::map<int, int>{{0, 3}, {1, 3}, {2, 3}}));
  BOOST_TEST((ends == std::map<int, int>{{0, 1}, {1, 1}, {2, 1}}));
}

BOOST_AUTO_TEST_CASE(best_of_gives_the_likeliest) {
  Request r = request(9, 8, 5);
  r.options.n = 2;
  r.options.best_of = 6;
  r.options.top_logprobs = 0;
  std::vector<Choice> alone;
  for (int i = 0; i < 6; ++i) alone.push_back(choice_alone(r, i));
  const auto mean = [](const Choice& a) { return std::accumulate(a.logprobs.begin(), a.logprobs.end(), 0.0) / 5; };
  std::stable_sort(alone.begin(), alone.end(), [&](const Choice& a, const Choice& b) { return mean(a) > mean(b); });
  const Completion best = engine().complete(r);
  BOOST_TEST_REQUIRE(best.others.size() == 1U);
  require_same(best, alone[0]);
  require_same(best.others[0], alone[1]);
  // Log-probabilities were needed to choose; who did not ask for them does not see them.
  r.options.top_logprobs = -1;
  Paged e = engine();
  e.submit(r);
  int lasts = 0;
  while (!e.idle()) {
    for (const Event& event : e.step()) {
      BOOST_TEST(event.logprob == 0.0f);
      BOOST_TEST(event.choice < 2);
      lasts += event.last;
    }
  }
  BOOST_TEST(lasts == 1);
}

// A deadline in the middle: answers that have ended rank before those cut short, and these before empty ones.
BOOST_AUTO_TEST_CASE(best_of_prefers_whole_answers) {
  Paged e = engine({}, 1);  // one sequence at a time
  Request r = request(9, 8, 5);
  r.options.n = 2;
  r.options.best_of = 3;
  const RequestId id = e.submit(r);
  for (int i = 0; i < 7; ++i) e.step();  // the first has ended, the second has begun, the third has nothing
  BOOST_TEST(e.cancel(id, FinishReason::deadline));
  Completion best;
  for (const Event& event : e.step()) best.add(event, false);
  BOOST_TEST_REQUIRE(best.others.size() == 1U);
  BOOST_TEST(best.ids.size() == 5U);
  BOOST_TEST(to_string(best.reason) == "length");
  BOOST_TEST(best.others[0].ids.size() == 2U);
  BOOST_TEST(to_string(best.others[0].reason) == "deadline");
}

BOOST_AUTO_TEST_CASE(cancelling_ends_all_choices) {
  for (const int best_of : {0, 3}) {
    Paged e = engine();
    Request r = request(9, 9, 50);
    r.options.n = 2;
    r.options.best_of = best_of;
    const RequestId id = e.submit(r);
    for (int i = 0; i < 4; ++i) e.step();
    BOOST_TEST(e.cancel(id, FinishReason::deadline));
    BOOST_TEST(!e.cancel(id));
    int ends = 0, last = 0;
    for (const Event& event : e.step()) {
      if (event.kind != Event::Kind::finished) continue;
      BOOST_TEST(to_string(event.reason) == "deadline");
      ++ends;
      last += event.last;
    }
    BOOST_TEST(ends == 2);
    BOOST_TEST(last == 1);
    BOOST_TEST(e.idle());
    BOOST_TEST(e.cache_stats().used_tokens == 0);
  }
}

BOOST_AUTO_TEST_CASE(one_failing_choice_ends_its_request_and_no_other) {
  Paged e = engine();
  Request bad = request(9, 9), good = request(9, 9);
  bad.options.n = 3;
  for (TokenId id = 0; id < 301; ++id) bad.options.logit_bias.emplace_back(id, -INFINITY);
  const auto both = e.complete(std::vector<Request>{bad, good});
  BOOST_TEST(to_string(both[0].reason) == "error");
  require_same(both[1], choice_alone(good, 0));
  BOOST_TEST(e.idle());
  BOOST_TEST(e.cache_stats().used_tokens == 0);
}

BOOST_AUTO_TEST_CASE(fields_of_choices_are_refused_by_name) {
  Paged e = engine();
  const auto refused = [&](auto change, const std::string& field) {
    Request r = request(9, 9);
    change(r.options);
    BOOST_CHECK_EXCEPTION(e.submit(r), Error, [&](const Error& error) { return error.where() == field; });
  };
  refused([](Options& o) { o.n = 0; }, "n");
  refused([](Options& o) { o.n = 129; }, "n");
  refused([](Options& o) { o.n = 3, o.best_of = 2; }, "best_of");
  refused([](Options& o) { o.best_of = -1; }, "best_of");
  refused([](Options& o) { o.best_of = 129; }, "best_of");
  Request two = request(9, 9);
  two.options.n = 2;
  BOOST_CHECK_THROW(e.generate(two), Error);
  BOOST_TEST(e.idle());
}

// Hits and misses of the prefix cache, told by the counters; the answers are the same either way.
BOOST_AUTO_TEST_CASE(prefixes_are_shared_within_a_salt) {
  Paged e = engine();
  const auto hits = [&](const Request& r) {
    const auto before = e.stats().prefix_hit_tokens;
    require_same(e.complete(r), choice_alone(r, 0));
    return e.stats().prefix_hit_tokens - before;
  };
  Request r = request(50, 10);
  BOOST_TEST(hits(r) == 0U);
  BOOST_TEST(hits(r) == 48U);
  r.options.cache_salt = "tenant";
  BOOST_TEST(hits(r) == 0U);
  BOOST_TEST(hits(r) == 48U);
  r.options.cache_salt = "tenan";
  BOOST_TEST(hits(r) == 0U);
  r.options.cache_salt = "";
  r.options.logits_at = {20};
  BOOST_TEST(hits(r) == 16U);
  r.options.logits_at = {};
  r.options.nll = true;
  BOOST_TEST(hits(r) == 0U);
  // Generated tokens are found, too: the next turn of a conversation.
  r.options.nll = false;
  Request turn = r;
  const auto first = e.complete(r);
  turn.input_ids.insert(turn.input_ids.end(), first.ids.begin(), first.ids.end());
  turn.input_ids.push_back(5);
  BOOST_TEST(hits(turn) == 48U);
  Paged off = engine({.prefix_reuse = false});
  off.complete(r);
  off.complete(r);
  BOOST_TEST(off.stats().prefix_hit_tokens == 0U);
}

BOOST_AUTO_TEST_CASE(a_held_request_goes_on_as_if_nothing_had_been) {
  Paged e = engine();
  const Request r = request(30, 11, 20), other = request(30, 12, 20);
  const RequestId id = e.submit(r), neighbour = e.submit(other);
  Completion held, beside;
  const auto step = [&] {
    for (const Event& event : e.step()) (event.request == id ? held : beside).add(event, true);
  };
  for (int i = 0; i < 5; ++i) step();
  BOOST_TEST(e.hold(id));
  BOOST_TEST(!e.hold(id));
  const auto before = held.ids.size();
  for (int i = 0; i < 5; ++i) step();
  BOOST_TEST(held.ids.size() == before);
  BOOST_TEST(beside.ids.size() == 10U);
  BOOST_TEST(e.resume(id));
  BOOST_TEST(!e.resume(id));
  BOOST_TEST(!e.resume(4711));
  while (!e.idle()) step();
  BOOST_TEST(!e.hold(neighbour));
  require_same(held, choice_alone(r, 0));
  require_same(beside, choice_alone(other, 0));
}

BOOST_AUTO_TEST_CASE(capacity_in_bytes) {
  Paged e = engine({.cache_bytes = 1 << 20});
  const CacheStats stats = e.cache_stats();
  BOOST_TEST(stats.bytes <= std::size_t{1} << 20);
  Paged one_more = engine({.cache_tokens = stats.capacity_tokens + 1});
  BOOST_TEST(one_more.cache_stats().bytes > std::size_t{1} << 20);
  BOOST_CHECK_THROW(engine({.cache_tokens = 320, .cache_bytes = 1 << 20}), Error);
}

BOOST_AUTO_TEST_CASE(occupancy_is_counted) {
  Paged e = engine({}, 4);
  std::vector<Request> requests(8, request(5, 13, 10));
  e.complete(requests);
  BOOST_TEST(e.stats().steps == 20U);
  BOOST_TEST(e.stats().sequences == 80U);
  BOOST_TEST(e.stats().running == 0);
  BOOST_TEST(e.stats().waiting == 0);
}

BOOST_AUTO_TEST_SUITE_END()
