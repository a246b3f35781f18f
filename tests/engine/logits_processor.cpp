// Request::logits_processor: where it stands among the other processors, and that the promise holds with it.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "../core/random.h"
#include "tenon/tenon.h"
#include "tiny.h"

BOOST_AUTO_TEST_SUITE(engine_logits_processor)

using namespace tenon;

namespace {

using Tokens = std::span<const TokenId>;
constexpr float kBanned = -std::numeric_limits<float>::infinity();

struct Neutral {
  void operator()(std::span<float>, Tokens, Tokens) const {}
};
// Bans what the text holds already, and every second token after a token of odd id.
struct NoRepeats {
  void operator()(std::span<float> logits, Tokens prompt, Tokens generated) const {
    const TokenId last = generated.empty() ? prompt.back() : generated.back();
    if (last % 2 == 1)
      for (std::size_t i = 0; i < logits.size(); i += 2) logits[i] = kBanned;
    for (const TokenId id : generated) logits[static_cast<std::size_t>(id)] = kBanned;
  }
};
static_assert(LogitsProcessor<Neutral> && LogitsProcessor<NoRepeats> && LogitsProcessor<AnyLogitsProcessor>);
static_assert(!LogitsProcessor<int> && !LogitsProcessor<void (*)(std::span<float>)>);

// Even tokens alone.
struct Even {
  std::vector<std::uint32_t> row = std::vector<std::uint32_t>(10, 0x55555555u);
  std::span<const std::uint32_t> mask() const { return row; }
  void advance(TokenId) {}
  bool must_end() const { return false; }
};

ModelFiles files() { return random_checkpoint(tiny_gpt2(), 9); }

// All ways to pick a token.
std::vector<Request> requests(const AnyLogitsProcessor& processor, int count = 28) {
  test::Random random(3);
  std::vector<Request> all;
  for (int i = 0; i < count; ++i) {
    Request r{.logits_processor = processor};
    for (int t = 0; t < 3 + i; ++t) r.input_ids.push_back(random.below(300));
    r.options = {.max_new_tokens = 12,
                 .temperature = i % 3 == 0 ? 0.0f : 0.6f + 0.1f * static_cast<float>(i % 5),
                 .top_k = i % 3 == 1 ? 1 + 11 * i % 40 : 0,
                 .top_p = i % 4 == 1 ? 0.8f : 1.0f,
                 .min_p = i % 5 == 2 ? 0.05f : 0.0f,
                 .typical_p = i % 7 == 4 ? 0.6f : 1.0f,
                 .repetition_penalty = i % 5 == 3 ? 1.2f : 1.0f,
                 .frequency_penalty = i % 6 == 5 ? 0.3f : 0.0f,
                 .seed = static_cast<std::uint64_t>(i),
                 .ignore_eos = true,
                 .top_logprobs = i % 4 == 2 ? 2 : -1,
                 .logits_hash = i % 2 == 0};
    if (i % 8 == 6) r.options.n = 3;
    if (i % 8 == 7) r.options.n = 2, r.options.best_of = 4;
    if (i % 9 == 4) r.options.logit_bias = {{5, 2.0f}, {8, -1.0f}};
    if (i % 10 == 7) r.constraint = constraint_of(Even{}, 301);
    all.push_back(std::move(r));
  }
  return all;
}

bool alike(const Choice& a, const Choice& b) {
  const auto same_top = [](const auto& x, const auto& y) {
    return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(),
                                              [](auto& s, auto& t) { return s.id == t.id && s.logprob == t.logprob; });
  };
  return a.ids == b.ids && a.reason == b.reason && a.logprobs == b.logprobs && a.logits_hash == b.logits_hash &&
         std::equal(a.top_logprobs.begin(), a.top_logprobs.end(), b.top_logprobs.begin(), b.top_logprobs.end(),
                    same_top);
}
void check_alike(const std::vector<Completion>& a, const std::vector<Completion>& b, const std::string& what) {
  BOOST_TEST_REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    BOOST_TEST(a[i].error == "");
    bool same = alike(a[i], b[i]) && a[i].others.size() == b[i].others.size();
    for (std::size_t c = 0; same && c < a[i].others.size(); ++c) same = alike(a[i].others[c], b[i].others[c]);
    BOOST_TEST(same, what << ", request " << i);
  }
}

template <class... Choices>
std::vector<Completion> run(const std::vector<Request>& all, int batch = 32, EngineOptions options = {.threads = 2}) {
  return Engine<Gpt2, Choices...>{files(), ContinuousPolicy{.max_batch = batch}, options}.complete(all);
}

Completion answer(Request r) { return run<>({std::move(r)}).front(); }

Request greedy(AnyLogitsProcessor processor, int tokens = 10) {
  return {.input_ids = {1, 2, 3},
          .logits_processor = std::move(processor),
          .options = {.max_new_tokens = tokens, .ignore_eos = true, .top_logprobs = 1, .logits_hash = true}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(one_that_changes_nothing_changes_nothing) {
  check_alike(run<>(requests(Neutral{})), run<>(requests({})), "float32");
  check_alike(run<Head<Int8Exact>>(requests(Neutral{})), run<>(requests({})), "an exact head");
  check_alike(run<Weights<ZeroPointInt8>>(requests(Neutral{})), run<Weights<ZeroPointInt8>>(requests({})), "int8");
}

BOOST_AUTO_TEST_CASE(one_of_an_empty_function_is_empty) {
  using Call = void(std::span<float>, std::span<const TokenId>, std::span<const TokenId>);
  const AnyLogitsProcessor function = std::function<Call>(), pointer = static_cast<Call*>(nullptr);
  BOOST_TEST(!function);
  BOOST_TEST(!pointer);
  BOOST_TEST(bool(AnyLogitsProcessor(Neutral{})));
  BOOST_TEST(answer(greedy(function)).error == "");
}

BOOST_AUTO_TEST_CASE(a_ban_is_kept_alone_and_in_any_batch) {
  std::vector<Request> all = requests(NoRepeats{});
  for (Request& each : all) each.constraint = nullptr;  // even tokens alone: the ban may leave none
  std::vector<Completion> alone;
  for (const Request& each : all) alone.push_back(run<>({each}, 1, {.threads = 1, .prefix_reuse = false}).front());
  for (std::size_t i = 0; i < all.size(); ++i) {
    TokenId last = all[i].input_ids.back();
    for (const TokenId id : alone[i].ids) {
      BOOST_TEST((last % 2 == 0 || id % 2 == 1), "request " << i);
      BOOST_TEST(std::count(alone[i].ids.begin(), alone[i].ids.end(), id) == 1);
      last = id;
    }
  }
  check_alike(run<>(all), alone, "together");
  check_alike(run<>(all, 5, {.token_budget = 7, .threads = 3}), alone, "chunks");
  check_alike(run<Cache<ContiguousKV>>(all, 7), alone, "contiguous");
  check_alike(run<Head<Int8Exact>>(all), alone, "an exact head");
  Engine<Gpt2> small(files(), ContinuousPolicy{.max_batch = 16}, {.cache_tokens = 128, .threads = 1});
  check_alike(small.complete(all), alone, "a small cache");
  BOOST_TEST(small.stats().preemptions > 0u);
  Service<Engine<Gpt2>> service(files());
  for (std::size_t i = 0; i < all.size(); i += 5)
    BOOST_TEST((service.submit(all[i]).wait().ids == alone[i].ids), "service, request " << i);
  std::vector<Request> beside = requests({});
  const std::size_t own = beside.size();
  beside.insert(beside.end(), all.begin(), all.end());
  const auto mixed = run<>(beside, 64);
  check_alike({mixed.begin() + static_cast<std::ptrdiff_t>(own), mixed.end()}, alone, "beside others");
  check_alike({mixed.begin(), mixed.begin() + static_cast<std::ptrdiff_t>(own)}, run<>(requests({})), "the others");
}

// Adding to logits is what logit_bias does, so it must come at the same place: after the raw logits were hashed, before
// the penalties.
BOOST_AUTO_TEST_CASE(it_comes_before_the_penalties) {
  struct Adds {
    void operator()(std::span<float> logits, Tokens, Tokens) const { logits[7] += 3, logits[11] -= 2; }
  };
  std::vector<Request> added = requests(Adds{}), biased = requests({});
  for (std::size_t i = 0; i < added.size(); ++i) {
    for (Request* each : {&added[i], &biased[i]}) {
      each->options.logit_bias.clear();
      each->options.repetition_penalty = 1.5f;
      each->options.presence_penalty = 0.25f;
    }
    biased[i].options.logit_bias = {{7, 3.0f}, {11, -2.0f}};
  }
  check_alike(run<>(added), run<>(biased), "penalties");
}

BOOST_AUTO_TEST_CASE(masks_come_after_it_and_what_is_reported_is_raw) {
  struct WantsOdd {
    void operator()(std::span<float> logits, Tokens, Tokens) const {
      for (std::size_t i = 1; i < logits.size(); i += 2) logits[i] = std::numeric_limits<float>::infinity();
    }
  };
  Request masked = greedy(WantsOdd{});
  masked.constraint = constraint_of(Even{}, 301);
  for (const TokenId id : answer(masked).ids) BOOST_TEST(id % 2 == 0);
  const Completion free = answer(greedy(WantsOdd{}, 1)), plain = answer(greedy({}, 1));
  BOOST_TEST(free.ids == std::vector<TokenId>{1});  // the first of equals
  BOOST_TEST((free.logits_hash == plain.logits_hash));
  BOOST_TEST(free.top_logprobs[0][0].id == plain.ids[0]);
  BOOST_TEST(free.top_logprobs[0][0].logprob == plain.logprobs[0]);
}

BOOST_AUTO_TEST_CASE(it_sees_the_prompt_and_what_its_own_choice_has_written) {
  struct Seen {
    std::mutex mutex;
    std::map<std::vector<TokenId>, std::vector<TokenId>> generated;  // its prompt
  };
  const auto seen = std::make_shared<Seen>();
  Request r = greedy([seen](std::span<float> logits, Tokens prompt, Tokens generated) {
    if (logits.size() != 301) throw std::logic_error("not a row of logits");
    const std::lock_guard lock(seen->mutex);
    seen->generated[{generated.begin(), generated.end()}] = {prompt.begin(), prompt.end()};
  });
  r.options.n = 3, r.options.temperature = 1;
  const Completion got = answer(r);
  std::size_t different = 0;
  std::vector<Choice> choices = got.others;
  choices.push_back(got);
  for (const Choice& choice : choices) {
    for (std::size_t n = 0; n < choice.ids.size(); ++n) {
      const std::vector<TokenId> before(choice.ids.begin(), choice.ids.begin() + static_cast<std::ptrdiff_t>(n));
      BOOST_TEST_REQUIRE(seen->generated.contains(before));
      BOOST_TEST(seen->generated[before] == r.input_ids);
    }
    different += choice.ids != got.ids;
  }
  BOOST_TEST(different == 2u);
  BOOST_TEST(seen->generated.size() <= 30u);
}

BOOST_AUTO_TEST_CASE(an_error_of_the_processor_fails_only_its_own_request) {
  const auto throwing = [](auto what) {
    return [what](std::span<float>, Tokens, Tokens generated) {
      if (generated.size() == 2) throw what;
    };
  };
  const auto filled = [](float value) {
    return [value](std::span<float> logits, Tokens, Tokens) { std::fill(logits.begin() + 4, logits.end(), value); };
  };
  const auto banned = [](std::span<float> logits, Tokens, Tokens) { std::fill(logits.begin(), logits.end(), kBanned); };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<Request> all = requests({}, 6);
  const auto expected = run<>(all);
  all.push_back(greedy(throwing(std::runtime_error("mine"))));
  all.push_back(greedy(throwing(Error(Error::Kind::unsupported, "mine", "is tired"))));
  all.push_back(greedy(throwing(7)));
  all.push_back(greedy(filled(nan)));
  all.push_back(greedy(banned));
  const auto answers = run<>(all);
  check_alike({answers.begin(), answers.begin() + 6}, expected, "neighbours");
  BOOST_TEST(answers[6].error == "mine");
  BOOST_TEST(answers[6].ids.size() == 2u);
  BOOST_TEST(answers[7].error == "mine: is tired");
  BOOST_TEST(answers[8].error == "threw something that is no std::exception");
  BOOST_TEST(answers[9].error == "logits_processor: wrote NaN for token 4");
  BOOST_TEST(answers[10].error.find("no token is allowed at position 3 by the mask, the logits processor") !=
             std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
