// Engines that choose their cache, its element, and their attention at run time have the bits and the fingerprints of
// engines that have them as types.
#include <boost/test/unit_test.hpp>

#include "invariance.h"

BOOST_AUTO_TEST_SUITE(engine_any_cache)

using namespace tenon;
using namespace tenon::invariance;

namespace {

std::vector<Request> requests() {
  Random random(3);
  std::vector<Request> drawn;
  for (const int length : {1, 16, 17, 100}) {
    drawn.push_back(whole_request(random_text(random, length), 6));
    drawn.back().options.logits_hash = true;
    drawn.back().options.n = 2;  // forks copy blocks
  }
  for (int i = 0; i < 4; ++i)  // texts with one prefix
    drawn.push_back(plain_request(drawn[3].input_ids, 30 + i));
  return drawn;
}

// Engines whose cache is Of<E>, as a type and chosen at run time: its element alone, and the cache itself.
template <template <class> class Of, class AttentionP, class E>
void agree(Kv kv, CacheKind kind) {
  Setup s;
  s.kv = kv;
  s.cache = kind;
  s.attend = std::is_same_v<AttentionP, DirectAttention> ? Attend::direct : Attend::flash;
  s.scheduler = ContinuousPolicy{};
  s.options = {.token_budget = 50, .cache_tokens = 192, .threads = 2};  // too few for all at once
  const auto typed = make<AttentionP, Of<E>>(s);
  const auto expected = run_all(*typed, requests());
  if (is_paged(kind)) {
    BOOST_TEST(typed->stats().prefix_hit_tokens > 0u, to_string(s));
    BOOST_TEST(typed->stats().preemptions > 0u, to_string(s));
  }
  for (const auto& chosen : {make<AnyAttention, AnyElementKV<Of>>(s), make<AnyAttention, AnyKV>(s)}) {
    BOOST_TEST(chosen->fingerprint() == typed->fingerprint(), to_string(s));
    BOOST_TEST(chosen->cache_stats().bytes == typed->cache_stats().bytes, to_string(s));
    BOOST_TEST(chosen->cache_stats().capacity_tokens == typed->cache_stats().capacity_tokens, to_string(s));
    const Differences d = compare(expected, run_all(*chosen, requests()));
    BOOST_TEST(d.bits() == 0u, to_string(s) << ": " << d.bits() << " bits differ, first " << d.first());
    // Forks, prefixes and preemptions are those of the type, too.
    BOOST_TEST(chosen->stats().steps == typed->stats().steps, to_string(s));
    BOOST_TEST(chosen->stats().rows == typed->stats().rows, to_string(s));
    BOOST_TEST(chosen->stats().prefix_hit_tokens == typed->stats().prefix_hit_tokens, to_string(s));
    BOOST_TEST(chosen->stats().preemptions == typed->stats().preemptions, to_string(s));
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(bits_and_fingerprints_are_those_of_the_types) {
  agree<PagedOf, FlashAttention, float>(Kv::float32, CacheKind::paged16);
  agree<PagedOf, FlashAttention, bfloat16>(Kv::bfloat16, CacheKind::paged16);
  agree<PagedOf, FlashAttention, float16>(Kv::float16, CacheKind::paged16);
  agree<PagedOf, FlashAttention, std::int8_t>(Kv::int8, CacheKind::paged16);
  agree<PagedOf, DirectAttention, std::int8_t>(Kv::int8, CacheKind::paged16);
  agree<PagedBy32, FlashAttention, float>(Kv::float32, CacheKind::paged32);
  agree<PagedBy64, DirectAttention, bfloat16>(Kv::bfloat16, CacheKind::paged64);
  agree<ContiguousKVOf, FlashAttention, std::int8_t>(Kv::int8, CacheKind::contiguous);
  agree<WindowOf, FlashAttention, float>(Kv::float32, CacheKind::window);
  agree<NoCacheOf, DirectAttention, float16>(Kv::float16, CacheKind::none);
}

// A model whose layers see windows: the cache drops what no row sees any more.
BOOST_AUTO_TEST_CASE(windows_are_those_of_the_type) {
  ModelConfig config = small(Mistral::seven_billion(), 4, 2, 6);
  config.window = 21;
  Setup s;
  s.cache = CacheKind::window;
  s.scheduler = ContinuousPolicy{};
  s.options = {.token_budget = 50, .cache_tokens = 256, .threads = 2};
  const auto typed = make<FlashAttention, WindowKV, Mistral>(s, config);
  const auto chosen = make<AnyAttention, AnyKV, Mistral>(s, config);
  BOOST_TEST(chosen->fingerprint() == typed->fingerprint());
  BOOST_TEST(chosen->cache_stats().capacity_tokens == typed->cache_stats().capacity_tokens);
  const Differences d = compare(run_all(*typed, requests()), run_all(*chosen, requests()));
  BOOST_TEST(d.bits() == 0u, d.bits() << " bits differ, first " << d.first());
  BOOST_TEST(chosen->stats().steps == typed->stats().steps);
  BOOST_TEST(chosen->stats().preemptions == typed->stats().preemptions);
}

// The comparison above can fail: the elements have different bits.
BOOST_AUTO_TEST_CASE(elements_differ) {
  const auto answers = [](Kv kv) {
    Setup s;
    s.kv = kv;
    return run_all(*make<AnyAttention, AnyElementKV<PagedOf>>(s), requests());
  };
  BOOST_TEST(compare(answers(Kv::float32), answers(Kv::float16)).bits() > 0u);
  BOOST_TEST(compare(answers(Kv::bfloat16), answers(Kv::float16)).bits() > 0u);
}

BOOST_AUTO_TEST_CASE(a_cache_of_one_type_refuses_another_element_or_kind) {
  const auto refused = [](const EngineOptions& options, const std::string& field) {
    BOOST_CHECK_EXCEPTION(
        (Engine<Gpt2, Cache<PagedKV>>(random_checkpoint(tiny(), 5), options)), Error,
        [&](const Error& e) { return e.kind() == Error::Kind::invalid_request && e.where() == field; });
  };
  refused({.cache_element = KvType::int8, .threads = 1}, "cache_element");
  refused({.cache_kind = CacheKind::contiguous, .threads = 1}, "cache_kind");
}

BOOST_AUTO_TEST_SUITE_END()
