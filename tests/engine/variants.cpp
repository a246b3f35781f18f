// A variant of attention of a user's own keeps the promise under every cache, and its values are in the fingerprint.
#include <boost/test/unit_test.hpp>

#include "invariance.h"
#include "tenon/model/mistral.h"

BOOST_AUTO_TEST_SUITE(engine_variants)

using namespace tenon;
using namespace tenon::invariance;

namespace {

// A soft cap, and a mask that shows the nearest positions and every eighth before them.
struct CappedAndSparse {
  static constexpr bool materialises_scores = false;
  float cap = 2;
  int nearest = 24;

  float score(int, int, int, float s) const { return cap * std::tanh(s / cap); }
  bool mask(int query, int key) const { return query - key < nearest || key % 8 == 0; }
  std::array<double, 2> values() const { return {cap, static_cast<double>(nearest)}; }
};

ModelConfig windowed() {
  ModelConfig c = Mistral::seven_billion();
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 12;
  c.hidden = 48;
  c.inner = 50;
  c.vocab = 77;
  c.positions = 640;
  c.window = 70;
  c.rotary = {};
  c.eos = {3};
  return c;
}

template <class CacheP, class Model = Gpt2>
std::unique_ptr<AnyEngine> make_variant(const Setup& s, const CappedAndSparse& variant) {
  using E = Engine<Model, Scheduler<AnyScheduler>, Cache<CacheP>, Attention<CappedAndSparse>, Head<PoisonedHead>,
                   Device<ChosenCpu>>;
  ChosenCpu::next = {.threads = s.options.threads, .isa = s.isa};
  const ModelConfig config = std::is_same_v<Model, Gpt2> ? tiny(s.shape) : windowed();
  return std::make_unique<EngineBox<E>>(random_checkpoint(config, s.weights), s.scheduler, variant, s.options);
}

std::unique_ptr<AnyEngine> make_any(const Setup& s, const CappedAndSparse& variant = {}) {
  switch (s.cache) {
    case Keep::none:
      return make_variant<NoCache>(s, variant);
    case Keep::contiguous:
      return make_variant<ContiguousKV>(s, variant);
    case Keep::window:
      return make_variant<WindowKV, Mistral>(s, variant);
    default:
      return make_variant<PagedKV>(s, variant);
  }
}

std::vector<Request> some_requests(std::uint64_t seed) {
  Random random(seed);
  const auto shared = random_text(random, 100);
  std::vector<Request> requests;
  for (const int length : {1, 16, 63, 100, 257}) {
    auto text = shared;
    for (const TokenId id : random_text(random, 200)) text.push_back(id);
    text.resize(static_cast<std::size_t>(length));
    requests.push_back(plain_request(std::move(text), 20));
  }
  return requests;
}

std::vector<Completion> each_alone(AnyEngine& engine, const std::vector<Request>& requests) {
  std::vector<Completion> answers;
  for (const Request& request : requests) answers.push_back(alone(engine, request));
  return answers;
}

void check(const Setup& reference, std::initializer_list<Keep> caches) {
  const auto requests = some_requests(3);
  const auto expected = each_alone(*make_any(alone_in(reference)), requests);
  for (const Keep cache : caches) {
    for (const int budget : {1, 7, 1 << 20}) {  // 1: token by token
      for (const Isa isa : {Isa::portable, best_isa()}) {
        Setup setup = reference;
        setup.cache = cache;
        setup.isa = isa;
        setup.scheduler = ContinuousPolicy{.max_batch = 8};
        setup.options = {.token_budget = budget, .threads = 2};
        const auto engine = make_any(setup);
        BOOST_TEST_CONTEXT(to_string(setup)) {
          BOOST_TEST(compare(expected, run_all(*engine, requests)).bits() == 0u);
          BOOST_TEST(compare(expected, run_all(*engine, requests)).bits() == 0u);  // once more, over what the cache has
          if (is_paged(cache)) BOOST_TEST(engine->stats().prefix_hit_tokens > 300u);
        }
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_variant_keeps_the_promise_under_every_cache) {
  check({}, {Keep::none, Keep::contiguous, Keep::paged16});
}

BOOST_AUTO_TEST_CASE(a_variant_keeps_the_promise_over_a_cache_that_forgets) {
  const auto requests = some_requests(3);
  Setup setup{.cache = Keep::window, .scheduler = SequentialPolicy{}, .options = {.token_budget = 1, .threads = 1}};
  const auto expected = each_alone(*make_any(setup), requests);
  for (const int budget : {9, 1 << 20}) {
    setup.scheduler = ContinuousPolicy{.max_batch = 8};
    setup.options = {.token_budget = budget, .cache_tokens = 500, .threads = 3};
    BOOST_TEST(compare(expected, run_all(*make_any(setup), requests)).bits() == 0u);
  }
}

BOOST_AUTO_TEST_CASE(values_decide_answers_and_fingerprints) {
  const Setup setup{.options = {.threads = 1}};
  const std::vector<Request> requests = {plain_request(some_requests(3).back().input_ids, 4)};
  const auto answer = [&](const CappedAndSparse& variant) {
    const auto engine = make_any(setup, variant);
    return std::pair(run_all(*engine, requests).front().logits_hash.value(), engine->fingerprint());
  };
  const auto [hash, fingerprint] = answer({});
  BOOST_CHECK(answer({}) == std::pair(hash, fingerprint));
  for (const CappedAndSparse& other : {CappedAndSparse{.cap = 2.5f}, CappedAndSparse{.nearest = 23}}) {
    BOOST_CHECK(answer(other).first != hash);
    BOOST_CHECK(answer(other).second != fingerprint);
  }
}

BOOST_AUTO_TEST_SUITE_END()
