// Adapters in the engine: every answer is the one that the request gets alone, whatever runs beside it, however rows
// are grouped, and whatever the cache, the weight format and the family.
#include <boost/test/unit_test.hpp>

#include <string>
#include <thread>
#include <vector>

#include "../io/scratch.h"
#include "tenon/tenon.h"
#include "tenon/testing/random_adapter.h"

BOOST_AUTO_TEST_SUITE(engine_adapters)

using namespace tenon;
using tenon::test::Scratch;

namespace {

const std::string kTales = std::string(TENON_SOURCE_DIR) + "/examples/models/tales";

std::string tales(const char* name) { return kTales + "/adapters/" + name; }

const ModelFiles& tales_files() {
  static const ModelFiles files = load_checkpoint(kTales);
  return files;
}

Request request(std::string prompt, std::vector<AdapterUse> adapters, std::uint64_t seed = 0) {
  return {.prompt = std::move(prompt),
          .adapters = std::move(adapters),
          .options = {.max_new_tokens = 12,
                      .temperature = seed ? 0.9f : 0.0f,
                      .seed = seed,
                      .ignore_eos = true,
                      .nll = true,
                      .logits_hash = true}};
}

// Plain requests, each adapter, compositions; prompts in common, so that prefixes would be shared if they could.
std::vector<Request> mixed() {
  std::vector<Request> all;
  const std::vector<std::vector<AdapterUse>> sets = {{},
                                                     {{tales("weather")}},
                                                     {{tales("shakespeare")}},
                                                     {{tales("characters")}},
                                                     {{tales("weather"), 0.7f}, {tales("shakespeare"), 0.5f}},
                                                     {{tales("weather"), -0.25f}}};
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < sets.size(); ++i) {
      all.push_back(request(round == 1 ? "Once upon a time there was" : "The king said to the weather and the wind",
                            sets[i], static_cast<std::uint64_t>(round) * 7));
    }
  }
  return all;
}

struct Got {
  std::vector<TokenId> ids;
  std::optional<std::uint64_t> hash;
  std::optional<double> nll;
  friend bool operator==(const Got&, const Got&) = default;
};

Got got_of(const Completion& c) {
  BOOST_REQUIRE_MESSAGE(c.error.empty(), c.error);
  return {c.ids, c.logits_hash, c.scores ? c.scores->nll_mean : std::nullopt};
}

template <class E>
std::vector<Got> together(E&& engine, const std::vector<Request>& requests) {
  std::vector<Got> answers;
  for (const Completion& c : engine.complete(requests)) answers.push_back(got_of(c));
  return answers;
}

template <class E>
std::vector<Got> alone(E&& engine, const std::vector<Request>& requests) {
  std::vector<Got> answers;
  for (const Request& r : requests) answers.push_back(got_of(engine.complete(r)));
  return answers;
}

}  // namespace

BOOST_AUTO_TEST_CASE(neighbours_and_ways_to_add_change_nothing) {
  const auto requests = mixed();
  const auto truth = alone(Engine<Gpt2>(tales_files(), {.threads = 1, .prefix_reuse = false}), requests);
  BOOST_TEST((together(Engine<Gpt2>(tales_files()), requests) == truth));
  BOOST_TEST((together(Engine<Gpt2, Adapter<GatheredLoRA>>(tales_files(), EngineOptions{.token_budget = 7}),
                       requests) == truth));
  BOOST_TEST(
      (together(Engine<Gpt2, Adapter<LoopedLoRA>>(tales_files(), EngineOptions{.token_budget = 33, .threads = 3}),
                requests) == truth));
  BOOST_TEST((together(Engine<Gpt2, Cache<ContiguousKV>>(tales_files()), requests) == truth));
  BOOST_TEST((together(Engine<Gpt2, Cache<NoCache>>(tales_files()), requests) == truth));
  Engine<Gpt2, Scheduler<FairPolicy>> tight(tales_files(), EngineOptions{.token_budget = 16, .cache_tokens = 96});
  BOOST_TEST((together(tight, requests) == truth));
  BOOST_TEST(tight.stats().preemptions > 0u);
}

// Twin of the above: the answers could have differed.
BOOST_AUTO_TEST_CASE(adapters_change_answers) {
  const auto requests = mixed();
  const auto answers = alone(Engine<Gpt2>(tales_files()), requests);
  for (std::size_t i = 0; i < 6; ++i) {
    for (std::size_t j = 0; j < i; ++j) BOOST_TEST((answers[i].hash != answers[j].hash), i << " and " << j);
  }
}

BOOST_AUTO_TEST_CASE(rounded_weights_keep_the_promise_too) {
  const auto requests = mixed();
  const auto check = [&](auto weights) {
    using E = Engine<Gpt2, Weights<decltype(weights)>>;
    BOOST_TEST((together(E(tales_files()), requests) ==
                alone(E(tales_files(), {.threads = 1, .prefix_reuse = false}), requests)));
  };
  check(ZeroPointInt8{});
  check(ZeroPointInt8Act8{});
  check(GroupInt4{});
}

BOOST_AUTO_TEST_CASE(a_plain_request_is_what_an_engine_without_adapters_gives) {
  const auto requests = mixed();
  const auto answers = together(Engine<Gpt2>(tales_files()), requests);
  Engine<Gpt2, Adapter<NoAdapter>> plain(tales_files());
  for (std::size_t i = 0; i < requests.size(); i += 6) BOOST_TEST((got_of(plain.complete(requests[i])) == answers[i]));
  const Completion refused = plain.complete(requests[1]);
  BOOST_TEST(refused.error.find("adapter") != std::string::npos, refused.error);
  Request with_lease = requests[0];
  with_lease.lease = Engine<Gpt2>(tales_files()).lease(requests[1].adapters);
  BOOST_TEST(plain.complete(with_lease).error.find("adapter") != std::string::npos);
  Engine<Gpt2> other(tales_files());  // whose adapters are its own, be its model the same
  BOOST_TEST(other.complete(with_lease).error.find("lease") != std::string::npos);
  with_lease.lease = other.lease(requests[1].adapters);
  BOOST_TEST(Engine<Gpt2>(tales_files()).complete(with_lease).error.find("lease") != std::string::npos);
  BOOST_TEST(other.complete(with_lease).error.empty());
}

BOOST_AUTO_TEST_CASE(a_composition_of_one_is_that_one_and_order_is_the_users) {
  Engine<Gpt2> engine(tales_files());
  const auto weather = alone(engine, {request("The sky", {{tales("weather")}})});
  BOOST_TEST((alone(engine, {request("The sky", {{tales("weather"), 1.0f}})}) == weather));
  // Twice a half, as one chain of twice the ranks: near, and not the same arithmetic.
  const auto halves = alone(engine, {request("The sky", {{tales("weather"), 0.5f}, {tales("weather"), 0.5f}})});
  BOOST_TEST(std::abs(*halves[0].nll - *weather[0].nll) < 1e-4);
}

// Rows that a family stores in an order of its own. The twin: the plain model is far.
BOOST_AUTO_TEST_CASE(an_adapter_of_every_family_is_where_its_weights_are) {
  const auto check = [](auto family, ModelConfig config) {
    using Family = decltype(family);
    Scratch scratch;
    testing::write_adapter(scratch / "a", adapter_sites(Family::tensors(config), Family::name_prefix).sites,
                           {.rank = 3, .seed = 1});
    const ModelFiles files = random_checkpoint(config, 5);
    const auto logits = [](auto&& engine, std::vector<AdapterUse> adapters) {
      Request r{.input_ids = {1, 5, 9, 2},
                .adapters = std::move(adapters),
                .options = {.max_new_tokens = 0, .logits_at = {3}}};
      const Completion c = engine.complete(r);
      BOOST_REQUIRE_MESSAGE(c.error.empty(), c.error);
      return c.scores->logits[0].second;
    };
    const auto distance = [](const std::vector<float>& a, const std::vector<float>& b) {
      float worst = 0;
      for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
      return static_cast<double>(worst);
    };
    const std::string folder = (scratch / "a").string();
    Engine<Family> engine(files);
    const auto added = logits(engine, {{folder}}), plain = logits(engine, {});
    const auto merged = logits(Engine<Family, Adapter<MergedLoRA>>(files, EngineOptions{.merged = {{folder}}}), {});
    BOOST_TEST(distance(added, merged) < 1e-3 * distance(added, plain), Family::model_type);
  };
  ModelConfig c;
  c.layers = 2, c.hidden = 32, c.heads = 4, c.kv_heads = 4, c.head_dim = 8, c.inner = 64, c.vocab = 50,
  c.positions = 32;
  const auto with = [&](std::string_view type, int kv_heads) {
    ModelConfig own = c;
    own.model_type = type;
    own.kv_heads = kv_heads;
    return own;
  };
  check(Gpt2{}, with(Gpt2::model_type, 4));
  check(GptBigCode{}, with(GptBigCode::model_type, 1));
  ModelConfig sloped = with(Bloom::model_type, 4);
  sloped.position_kind = PositionKind::alibi;
  check(Bloom{}, sloped);
  ModelConfig rotary = with(Llama::model_type, 2);
  rotary.norm_kind = NormKind::rms, rotary.position_kind = PositionKind::rotary, rotary.mlp_kind = MlpKind::gated;
  rotary.activation = Activation::silu;
  rotary.rotary = {RotaryScaling::none, 10000};
  check(Llama{}, rotary);
  rotary.model_type = Mistral::model_type;
  rotary.window = 3;
  check(Mistral{}, rotary);
}

// Another order of the same sums: near, and another numeric class. The twin: the plain model is far.
BOOST_AUTO_TEST_CASE(merged_into_the_weights_is_nearly_the_same) {
  const std::string prompt = "The clouds over the hills were dark";
  const auto nll = [&](auto&& engine, std::vector<AdapterUse> adapters) {
    return *alone(engine, {request(prompt, std::move(adapters))})[0].nll;
  };
  const double added = nll(Engine<Gpt2>(tales_files()), {{tales("weather"), 0.5f}});
  Engine<Gpt2, Adapter<MergedLoRA>> merged(tales_files(), EngineOptions{.merged = {{tales("weather"), 0.5f}}});
  BOOST_TEST(std::abs(nll(merged, {}) - added) < 1e-5);
  BOOST_TEST(std::abs(nll(Engine<Gpt2>(tales_files()), {}) - added) > 1e-2);
  Engine<Gpt2, Adapter<MergedLoRA>, Weights<ZeroPointInt8>> rounded(
      tales_files(), EngineOptions{.merged = {{tales("weather"), 0.5f}}});
  BOOST_TEST(std::abs(nll(rounded, {}) - added) < 0.05);
  BOOST_CHECK_THROW(Engine<Gpt2>(tales_files(), EngineOptions{.merged = {{tales("weather")}}}), Error);
}

BOOST_AUTO_TEST_CASE(prefixes_are_shared_under_the_same_adapters_only) {
  const std::string prompt =
      "It was a dark and stormy night, and the rain fell upon the old house by the sea, where nobody lived";
  Engine<Gpt2> engine(tales_files());
  const auto hits = [&](std::vector<AdapterUse> adapters) {
    const auto before = engine.stats().prefix_hit_tokens;
    got_of(engine.complete({.prompt = prompt, .adapters = std::move(adapters), .options = {.max_new_tokens = 2}}));
    return engine.stats().prefix_hit_tokens - before;
  };
  BOOST_TEST(hits({{tales("weather")}}) == 0u);
  BOOST_TEST(hits({}) == 0u);
  BOOST_TEST(hits({{tales("shakespeare")}}) == 0u);
  BOOST_TEST(hits({{tales("weather"), 0.5f}}) == 0u);
  BOOST_TEST(hits({{tales("weather")}}) > 0u);
  BOOST_TEST(hits({{tales("weather"), 0.5f}}) > 0u);
  BOOST_TEST(hits({}) > 0u);
}

BOOST_AUTO_TEST_CASE(a_bad_adapter_fails_its_own_request_alone) {
  Engine<Gpt2> engine(tales_files());
  const auto answers =
      engine.complete({request("One", {{tales("weather")}}), request("Two", {{tales("nobody")}}), request("Three", {}),
                       request("Four", {{tales("weather"), std::numeric_limits<float>::infinity()}})});
  BOOST_TEST(answers[0].error.empty());
  BOOST_TEST(answers[1].error.find("adapter_config.json") != std::string::npos, answers[1].error);
  BOOST_TEST(answers[2].error.empty());
  BOOST_TEST(answers[3].error.find("finite") != std::string::npos, answers[3].error);
}

BOOST_AUTO_TEST_CASE(several_answers_share_their_adapter) {
  Engine<Gpt2> engine(tales_files());
  Request r = request("Once upon", {{tales("shakespeare")}}, 3);
  r.options.n = 3;
  r.options.nll = false;
  const Completion many = engine.complete(r);
  BOOST_REQUIRE(many.error.empty());
  BOOST_REQUIRE(many.others.size() == 2u);
  for (int choice = 0; choice < 3; ++choice) {
    Request one = r;
    one.options.n = 1;
    one.options.seed = choice_seed(3, choice);
    const auto truth = got_of(Engine<Gpt2, Cache<NoCache>>(tales_files()).complete(one));
    BOOST_TEST((choice == 0 ? many.ids : many.others[static_cast<std::size_t>(choice - 1)].ids) == truth.ids);
  }
  BOOST_TEST(engine.adapters().list().size() == 1u);
  BOOST_TEST(engine.adapters().list()[0].leases == 0);
}

BOOST_AUTO_TEST_CASE(with_room_for_few_adapters_requests_wait_and_answer_the_same) {
  auto requests = mixed();
  const auto truth = alone(Engine<Gpt2>(tales_files(), {.threads = 1}), requests);
  Engine<Gpt2> engine(tales_files(), {.adapters = {.count = 2}});
  requests.push_back(request("one more than there is room for, ever",
                             {{tales("weather")}, {tales("shakespeare")}, {tales("characters")}}));
  const auto answers = engine.complete(requests);
  for (std::size_t i = 0; i < truth.size(); ++i) BOOST_TEST((got_of(answers[i]) == truth[i]), i);
  BOOST_TEST(answers.back().error.find("adapters.count") != std::string::npos, answers.back().error);
  BOOST_TEST(engine.adapters().stats().evictions > 0u);
  BOOST_TEST(engine.adapters().stats().versions <= 2);
}

// More clients than there is room for: none is refused that may wait.
BOOST_AUTO_TEST_CASE(clients_of_a_service_wait_for_room) {
  const auto requests = mixed();
  const auto truth = alone(Engine<Gpt2>(tales_files(), {.threads = 1}), requests);
  Service<Engine<Gpt2>> service(tales_files(), EngineOptions{.adapters = {.count = 2}});
  std::vector<std::thread> clients;
  std::vector<int> right(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    clients.emplace_back([&, i] {
      auto stream = service.submit(requests[i], {.adapter_wait = std::chrono::minutes(5)});
      std::vector<TokenId> ids;
      while (auto event = stream.next()) {
        if (event->kind == Event::Kind::token) ids.push_back(event->token);
      }
      right[i] = ids == truth[i].ids;
    });
  }
  for (auto& client : clients) client.join();
  for (std::size_t i = 0; i < right.size(); ++i) BOOST_TEST(right[i] == 1, i);
}

BOOST_AUTO_TEST_CASE(a_service_reads_adapters_in_the_threads_that_submit) {
  const auto requests = mixed();
  const auto truth = alone(Engine<Gpt2>(tales_files(), {.threads = 1}), requests);
  auto owned = std::make_unique<Engine<Gpt2>>(tales_files());
  Engine<Gpt2>& engine = *owned;
  Service<Engine<Gpt2>> service(std::move(owned));
  std::vector<std::thread> clients;
  std::vector<int> right(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    clients.emplace_back([&, i] {
      Request mine = requests[i];
      if (i % 2 == 1) mine.lease = engine.lease(mine.adapters), mine.adapters.clear();
      auto stream = service.submit(std::move(mine));
      std::vector<TokenId> ids;
      while (auto event = stream.next()) {
        if (event->kind == Event::Kind::token) ids.push_back(event->token);
      }
      right[i] = ids == truth[i].ids;
    });
  }
  for (auto& client : clients) client.join();
  for (std::size_t i = 0; i < right.size(); ++i) BOOST_TEST(right[i] == 1, i);
}

BOOST_AUTO_TEST_SUITE_END()
