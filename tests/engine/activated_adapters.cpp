// Activated LoRA: an adapter that acts from the begin of the last occurrence of its invocation tokens in the prompt on.
// Rows before it are the plain model's, whose cached prefixes it shares.
#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "../io/scratch.h"
#include "tenon/tenon.h"

BOOST_AUTO_TEST_SUITE(engine_activated_adapters)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;

namespace {

const std::string kTales = std::string(TENON_SOURCE_DIR) + "/examples/models/tales";
const std::vector<TokenId> kInvocation = {17, 5, 140};

const ModelFiles& tales_files() {
  static const ModelFiles files = load_checkpoint(kTales);
  return files;
}

// A folder with an adapter of the model `tales`, which these tokens activate.
class Activated {
 public:
  explicit Activated(const std::string& name, const std::vector<TokenId>& invocation = kInvocation) {
    const std::filesystem::path from = kTales + "/adapters/" + name;
    std::filesystem::copy(from, scratch_.folder(), std::filesystem::copy_options::recursive);
    nlohmann::json config;
    std::ifstream(from / "adapter_config.json") >> config;
    config["alora_invocation_tokens"] = invocation;
    scratch_.write("adapter_config.json", config.dump());
  }
  std::string folder() const { return scratch_.folder().string(); }

 private:
  Scratch scratch_;
};

std::vector<TokenId> text(int tokens, int seed = 0) {
  std::vector<TokenId> ids;
  for (int i = 0; i < tokens; ++i) ids.push_back((i * 37 + seed * 11) % 200 + 20);
  return ids;
}
std::vector<TokenId> joined(std::initializer_list<std::vector<TokenId>> parts) {
  std::vector<TokenId> ids;
  for (const auto& part : parts) ids.insert(ids.end(), part.begin(), part.end());
  return ids;
}

Request request(std::vector<TokenId> ids, std::vector<AdapterUse> adapters, std::uint64_t seed = 0) {
  return {.input_ids = std::move(ids),
          .adapters = std::move(adapters),
          .options = {.max_new_tokens = 10,
                      .temperature = seed ? 0.9f : 0.0f,
                      .seed = seed,
                      .ignore_eos = true,
                      .logits_hash = true}};
}

struct Got {
  std::vector<TokenId> ids;
  std::optional<std::uint64_t> hash;
  friend bool operator==(const Got&, const Got&) = default;
};
Got got_of(const Completion& c) {
  BOOST_REQUIRE_MESSAGE(c.error.empty(), c.error);
  return {c.ids, c.logits_hash};
}
Got alone(const Request& r) {
  Engine<Gpt2> engine(tales_files(), {.threads = 1, .prefix_reuse = false});
  return got_of(engine.complete(r));
}

// Log-probabilities of the prompt's tokens.
std::vector<float> scores(std::vector<TokenId> ids, std::vector<AdapterUse> adapters) {
  Request r = request(std::move(ids), std::move(adapters));
  r.options.prompt_logprobs = 0;
  Engine<Gpt2> engine(tales_files(), {.threads = 1});
  const Completion c = engine.complete(r);
  BOOST_REQUIRE_MESSAGE(c.error.empty(), c.error);
  std::vector<float> all;
  for (const PromptLogprob& each : c.scores->prompt) all.push_back(each.token.logprob);
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(absent_tokens_leave_the_plain_model) {
  const Activated adapter("weather");
  for (const auto& ids : {text(20), joined({text(5), {17, 5}, text(4)}), std::vector<TokenId>{17, 5}})
    BOOST_TEST((alone(request(ids, {{adapter.folder()}})) == alone(request(ids, {}))));
}

BOOST_AUTO_TEST_CASE(tokens_at_the_begin_make_it_a_plain_lora) {
  const Activated adapter("weather");
  for (const auto& ids : {kInvocation, joined({kInvocation, text(20)})}) {
    const Got got = alone(request(ids, {{adapter.folder()}}));
    BOOST_TEST((got == alone(request(ids, {{kTales + "/adapters/weather"}}))));
    BOOST_TEST((got.hash != alone(request(ids, {})).hash));
  }
}

// The first tokens of the invocation are read by the adapter: they change what is said of the tokens after them.
BOOST_AUTO_TEST_CASE(it_acts_from_the_last_invocation_on) {
  const Activated adapter("shakespeare");
  const auto ids = joined({text(9), kInvocation, text(12, 1), kInvocation, text(7, 2)});
  const std::size_t from = 9 + 3 + 12;
  const std::vector<float> plain = scores(ids, {}), activated = scores(ids, {{adapter.folder()}}),
                           everywhere = scores(ids, {{kTales + "/adapters/shakespeare"}});
  BOOST_REQUIRE(plain.size() == activated.size());
  const std::size_t first = ids.size() - plain.size();  // the first token has no score
  for (std::size_t i = 0; i < plain.size(); ++i) {
    // Token i + first is scored by the row before it.
    BOOST_TEST((plain[i] == activated[i]) == (i + first - 1 < from), "token " << i + first);
    BOOST_TEST(plain[i] != everywhere[i]);
    BOOST_TEST(activated[i] != everywhere[i]);
  }
}

BOOST_AUTO_TEST_CASE(neighbours_and_ways_to_add_change_nothing) {
  const Activated weather("weather"), shakespeare("shakespeare", {30, 31});
  std::vector<Request> requests;
  for (int i = 0; i < 18; ++i) {
    const auto ids = joined({text(3 + 5 * (i % 4)), i % 3 == 0 ? kInvocation : std::vector<TokenId>{30, 31}, text(i)});
    const std::vector<std::vector<AdapterUse>> sets = {{},
                                                       {{weather.folder()}},
                                                       {{shakespeare.folder()}},
                                                       {{kTales + "/adapters/weather"}},
                                                       {{weather.folder(), 0.5f}}};
    requests.push_back(
        request(ids, sets[static_cast<std::size_t>(i) % sets.size()], static_cast<std::uint64_t>(i % 2)));
  }
  std::vector<Got> truth;
  for (const Request& r : requests) truth.push_back(alone(r));
  const auto together = [&](auto&& engine) {
    std::vector<Got> answers;
    for (const Completion& c : engine.complete(requests)) answers.push_back(got_of(c));
    return answers;
  };
  BOOST_TEST((together(Engine<Gpt2>(tales_files())) == truth));
  BOOST_TEST((together(Engine<Gpt2, Adapter<GatheredLoRA>>(tales_files(), EngineOptions{.token_budget = 7})) == truth));
  BOOST_TEST((together(Engine<Gpt2, Adapter<LoopedLoRA>>(tales_files(),
                                                         EngineOptions{.token_budget = 33, .threads = 3})) == truth));
  BOOST_TEST((together(Engine<Gpt2, Cache<ContiguousKV>>(tales_files())) == truth));
  BOOST_TEST((together(Engine<Gpt2, Cache<NoCache>>(tales_files())) == truth));
  Engine<Gpt2> tight(tales_files(), EngineOptions{.token_budget = 16, .cache_tokens = 96});
  BOOST_TEST((together(tight) == truth));
  BOOST_TEST(tight.stats().preemptions > 0u);
}

BOOST_AUTO_TEST_CASE(adapters_share_the_plain_prefix) {
  const Activated weather("weather"), shakespeare("shakespeare");
  const auto prefix = text(40);
  Engine<Gpt2> engine(tales_files());
  engine.complete(request(joined({prefix, text(5, 3)}), {}));
  const auto hits = [&](const Request& r) {
    const std::uint64_t before = engine.stats().prefix_hit_tokens;
    BOOST_TEST((got_of(engine.complete(r)) == alone(r)));
    return engine.stats().prefix_hit_tokens - before;
  };
  const auto ids = joined({prefix, kInvocation, text(30, 4)});
  BOOST_TEST(hits(request(ids, {{weather.folder()}})) == 32u);      // whole blocks of 16
  BOOST_TEST(hits(request(ids, {{shakespeare.folder()}})) == 32u);  // and no row of the other adapter
  BOOST_TEST(hits(request(ids, {{weather.folder()}})) == 32u);
  BOOST_TEST(hits(request(ids, {})) == 32u);  // nothing of the activated rows was published
  BOOST_TEST(hits(request(ids, {})) == 64u);
  BOOST_TEST(hits(request(ids, {{kTales + "/adapters/weather"}})) == 0u);
  // Its own prefix is shared, too, where it begins the prompt.
  const auto own = joined({kInvocation, prefix});
  BOOST_TEST(hits(request(own, {{weather.folder()}})) == 0u);
  BOOST_TEST(hits(request(own, {{weather.folder()}})) == 32u);
  BOOST_TEST(hits(request(own, {{shakespeare.folder()}})) == 0u);
}

BOOST_AUTO_TEST_CASE(choices_of_one_request_are_alike) {
  const Activated adapter("weather");
  Request r = request(joined({text(20), kInvocation, text(6)}), {{adapter.folder()}}, 5);
  r.options.n = 3;
  Engine<Gpt2> engine(tales_files());
  const Completion all = engine.complete(r);
  BOOST_REQUIRE_MESSAGE(all.error.empty(), all.error);
  // Without a cache nothing is forked.
  const Completion apart = Engine<Gpt2, Cache<NoCache>>(tales_files()).complete(r);
  BOOST_REQUIRE((all.others.size() == 2 && apart.others.size() == 2));
  for (std::size_t i = 0; i < 2; ++i) BOOST_TEST((all.others[i].ids == apart.others[i].ids));
  r.options.n = 1;
  BOOST_TEST((all.ids == alone(r).ids));
}

BOOST_AUTO_TEST_CASE(what_it_cannot_be_is_refused) {
  const Activated adapter("weather");
  Engine<Gpt2> engine(tales_files());
  const Completion sum = engine.complete(
      request(joined({text(4), kInvocation}), {{adapter.folder()}, {kTales + "/adapters/shakespeare"}}));
  BOOST_TEST(mentions(sum.error, {"alora_invocation_tokens", "alone"}), sum.error);
  const std::string merged =
      refusal([&] { Engine<Gpt2, Adapter<MergedLoRA>>(tales_files(), EngineOptions{.merged = {{adapter.folder()}}}); });
  BOOST_TEST(mentions(merged, {"alora_invocation_tokens", "merged"}), merged);
}

BOOST_AUTO_TEST_SUITE_END()
