// Random mixes for engines of every kind. invariance_formats*.cpp list engines of each family. Every weight format,
// element, cache and attention is in at least one of them. Requests of each family draw adapters and constraints.
#pragma once
#include <boost/test/unit_test.hpp>

#include "../io/scratch.h"
#include "mixes.h"
#include "tenon/testing/random_adapter.h"

namespace tenon::invariance {

// A constraint: `tokens` ids of one parity.
struct Parity {
  std::vector<std::uint32_t> row;
  int left;

  Parity(int vocab, bool odd, int tokens)
      : row(static_cast<std::size_t>(vocab + 31) / 32, odd ? 0xaaaaaaaau : 0x55555555u), left(tokens) {
    if (vocab % 32 != 0) row.back() &= (1u << (vocab % 32)) - 1;
  }
  std::span<const std::uint32_t> mask() const { return row; }
  void advance(TokenId) { --left; }
  bool must_end() const { return left == 0; }
};

template <class Model>
ModelConfig config_of() {
  if constexpr (std::is_same_v<Model, GptBigCode>) return small(GptBigCode::starcoder(), 6, 1, 10);
  if constexpr (std::is_same_v<Model, Llama>) {
    ModelConfig c = small(Llama::one_billion(), 6, 2, 18);
    c.rotary = {RotaryScaling::llama3, 500, 8, 1, 4, 32};
    return c;
  }
  if constexpr (std::is_same_v<Model, Mistral>) {
    ModelConfig c = small(Mistral::seven_billion(), 9, 3, 12);
    c.window = 21;
    return c;
  }
  if constexpr (std::is_same_v<Model, Bloom>) return small(Bloom::small(), 3, 3, 20);
  return tiny();
}

// Adapters of the family, one of each kind, written once.
inline constexpr int kPlainAdapters = 3, kAdapters = 11;
template <class Model>
std::string adapter_of(int number) {
  static const test::Scratch scratch;
  static const bool written = [] {
    using testing::RandomKind;
    const AdapterSites all = adapter_sites(Model::tensors(config_of<Model>()), Model::name_prefix);
    const testing::RandomAdapter adapters[kAdapters] = {{.rank = 1},
                                                        {.rank = 4},
                                                        {.rank = 17},
                                                        {.rank = 4, .invocation = {3}},
                                                        {.rank = 3, .kind = RandomKind::dora},
                                                        {.rank = 17, .kind = RandomKind::dora},
                                                        {.kind = RandomKind::ia3},
                                                        {.rank = 2, .kind = RandomKind::vectors},
                                                        {.rank = 3, .kind = RandomKind::tables},
                                                        {.rank = 2, .kind = RandomKind::dora_tables},
                                                        {.rank = 1, .kind = RandomKind::rows}};
    for (int i = 0; i < kAdapters; ++i) {
      testing::RandomAdapter adapter = adapters[i];
      adapter.alpha = 4;
      adapter.seed = static_cast<std::uint64_t>(i);
      const bool replaces = adapter.kind == RandomKind::vectors;
      testing::write_adapter(scratch / std::to_string(i), all.sites, adapter,
                             replaces ? all.vectors : std::vector<AdapterVector>{}, all.base);
    }
    return true;
  }();
  (void)written;
  return (scratch / std::to_string(number)).string();
}

// Some requests run under an adapter, or two plain ones, some under a constraint.
template <class Model>
void dress(Random& random, Request& request) {
  if (chance(random, 2)) {
    const int number = random.between(0, kAdapters - 1);
    request.adapters = {{adapter_of<Model>(number)}};
    if (number < kPlainAdapters && chance(random, 2)) request.adapters.push_back({adapter_of<Model>(1), -0.5f});
  }
  if (request.options.min_new_tokens == 0 && chance(random, 4)) {
    request.constraint = constraint_of(Parity(config_of<Model>().vocab, chance(random, 2), random.between(1, 9)),
                                       config_of<Model>().vocab);
  }
}

// Axes: Weights<P>, Head<P> and Attention<P>, where they are not the defaults.
template <class Model, class CacheP, class... Axes>
std::unique_ptr<AnyEngine> make_format(const Setup& s) {
  using E = Engine<Model, Scheduler<AnyScheduler>, Cache<CacheP>, Adapter<AnyLoRA>, Draft<KnownTexts>, Axes...>;
  auto box = std::make_unique<EngineBox<E>>(random_checkpoint(config_of<Model>(), s.weights), s.scheduler, s.options);
  box->engine().adapter_policy() = AnyLoRA(s.lora);
  return box;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr std::uint64_t kMixesOfAFormat = 2;
#else
inline constexpr std::uint64_t kMixesOfAFormat = 8;
#endif

// Mixes of one kind of engine: what each request gets alone, in one piece, by one thread, from an engine of that kind.
template <Keep kKeep, class Model, class CacheP, class... Axes>
void add_format(std::uint64_t number, Totals& all) {
  constexpr std::array kCaches = {kKeep};
  constexpr std::array kElements = {Kv::float32};  // the engine has its own
  constexpr std::array kTags = {Attend::flash};    // and its own
  const Choices choices{1,
                        [](int) { return config_of<Model>().vocab; },
                        kCaches,
                        kElements,
                        kTags,
                        dress<Model>,
                        "test_engine --run_test='engine_invariance_formats*': mix"};
  const Totals totals = run_mixes(number * kMixesOfOnePool, kMixesOfAFormat, make_format<Model, CacheP, Axes...>,
                                  /*quiet=*/false, choices);
  BOOST_TEST(totals.equal == kMixesOfAFormat, "engine " << number);
  BOOST_TEST(totals.bits == 0u, "engine " << number);
  all.preemptions += totals.preemptions;
  all.hit_tokens += totals.hit_tokens;
  all.adapted += totals.adapted;
  all.constrained += totals.constrained;
  all.failed += totals.failed;
  all.drafted += totals.drafted;
  all.accepted += totals.accepted;
}

inline void check_happened(const Totals& all) {
  BOOST_TEST(all.preemptions > 0u);
  BOOST_TEST(all.hit_tokens > 0u);
  BOOST_TEST(all.adapted > 100u);
  BOOST_TEST(all.constrained > 50u);
  BOOST_TEST(all.failed > 0u);
  BOOST_TEST(all.accepted > 100u);
  BOOST_TEST(all.drafted > all.accepted + 100);
}

}  // namespace tenon::invariance
