// Engines that choose the element of their cache, and their attention, at run time have the bits and the fingerprints
// of engines that have them as types.
#include <boost/test/unit_test.hpp>

#include "invariance.h"

BOOST_AUTO_TEST_SUITE(engine_any_element)

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
  return drawn;
}

// Engines whose cache is Of<E>, as a type and at run time.
template <template <class> class Of, class AttentionP, class E>
void agree(Kv kv) {
  Setup s;
  s.kv = kv;
  s.attend = std::is_same_v<AttentionP, DirectAttention> ? Attend::direct : Attend::flash;
  s.scheduler = ContinuousPolicy{};
  s.options = {.token_budget = 50, .threads = 2};
  const auto typed = make<AttentionP, Of<E>>(s), chosen = make<AnyAttention, AnyElementKV<Of>>(s);
  BOOST_TEST(chosen->fingerprint() == typed->fingerprint(), to_string(s));
  BOOST_TEST(chosen->cache_stats().bytes == typed->cache_stats().bytes, to_string(s));
  const Differences d = compare(run_all(*typed, requests()), run_all(*chosen, requests()));
  BOOST_TEST(d.bits() == 0u, to_string(s) << ": " << d.bits() << " bits differ, first " << d.first());
}

}  // namespace

BOOST_AUTO_TEST_CASE(bits_and_fingerprints_are_those_of_the_types) {
  agree<PagedOf, FlashAttention, float>(Kv::float32);
  agree<PagedOf, FlashAttention, bfloat16>(Kv::bfloat16);
  agree<PagedOf, FlashAttention, float16>(Kv::float16);
  agree<PagedOf, FlashAttention, std::int8_t>(Kv::int8);
  agree<PagedOf, DirectAttention, std::int8_t>(Kv::int8);
  agree<PagedBy64, DirectAttention, bfloat16>(Kv::bfloat16);
  agree<ContiguousKVOf, FlashAttention, std::int8_t>(Kv::int8);
  agree<NoCacheOf, DirectAttention, float16>(Kv::float16);
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

BOOST_AUTO_TEST_CASE(a_cache_with_an_element_of_its_own_refuses_another) {
  EngineOptions options{.threads = 1};
  options.cache_element = KvType::int8;
  BOOST_CHECK_EXCEPTION(
      (Engine<Gpt2, Cache<PagedKV>>(random_checkpoint(tiny(), 5), options)), Error,
      [](const Error& e) { return e.kind() == Error::Kind::invalid_request && e.where() == "cache_element"; });
}

BOOST_AUTO_TEST_SUITE_END()
