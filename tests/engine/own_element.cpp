// Keys and values in an element of a user's own: every answer is, bit for bit, what the request gives alone, whatever
// the cache, the batch, the chunks and the threads. An element that stores what a built-in one stores gives its bits.
#define BOOST_TEST_MODULE engine_own_element
#include <boost/test/unit_test.hpp>

#include "../core/own_elements.h"
#include "mixes.h"
#include "tenon/testing/laws.h"

using namespace tenon;
using namespace tenon::invariance;

namespace {

// Any of the engines with elements E, whatever the setup says of elements.
template <class E>
std::unique_ptr<AnyEngine> make_with(const Setup& s) {
  return s.attend == Attend::flash ? make_with_cache<FlashAttention, E>(s) : make_with_cache<DirectAttention, E>(s);
}

std::vector<Request> requests() {
  Random random(3);
  std::vector<Request> drawn;
  for (const int length : {1, 15, 16, 17, 40, 100, 260}) {
    drawn.push_back(whole_request(random_text(random, length), 6));
    drawn.back().options.logits_hash = true;
  }
  return drawn;
}

template <class AttentionP, class E>
std::vector<Completion> answers(int shape) {
  Setup s{.shape = shape, .scheduler = ContinuousPolicy{}};
  s.options = {.token_budget = 50, .threads = 2};
  return run_all(*make<AttentionP, PagedKVOf<16, E>>(s), requests());
}

template <class AttentionP, class BuiltIn, class Own>
void same_bits() {
  for (int shape = 0; shape < kShapes; ++shape) {
    const Differences d = compare(answers<AttentionP, BuiltIn>(shape), answers<AttentionP, Own>(shape));
    BOOST_TEST(d.bits() == 0u, d.bits() << " bits differ, first " << d.first());
  }
}

template <class P>
void obeys_laws() {
  for (const auto& broken : testing::cache_laws<P>()) BOOST_ERROR(broken);
  for (const auto& broken : testing::sharing_laws<P>()) BOOST_ERROR(broken);
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_own_element_gives_the_bits_of_the_built_in_one_that_it_stores) {
  same_bits<FlashAttention, float, own::Whole>();
  same_bits<FlashAttention, bfloat16, own::UpperHalf>();
  same_bits<DirectAttention, float, own::Whole>();
}

BOOST_AUTO_TEST_CASE(random_mixes_give_what_each_request_gives_alone) {
  const Totals totals = run_mixes(7, 64, make_with<own::Nibble>);
  BOOST_TEST(totals.equal == totals.mixes);
  BOOST_TEST(totals.bits == 0u);
  BOOST_TEST(totals.preemptions > 0u);  // all of it happened
  BOOST_TEST(totals.hit_tokens > 0u);
  BOOST_TEST(totals.failed > 0u);
}

BOOST_AUTO_TEST_CASE(caches_of_an_own_element_obey_the_laws) {
  obeys_laws<PagedKVOf<16, own::Nibble>>();
  obeys_laws<PagedKVOf<64, own::UpperHalf>>();
  obeys_laws<ContiguousKVOf<own::Nibble>>();
  obeys_laws<NoCacheOf<own::Nibble>>();
  obeys_laws<WindowKVOf<16, own::Nibble>>();
}

BOOST_AUTO_TEST_CASE(an_element_is_part_of_the_fingerprint) {
  const auto fingerprint = [](const auto& engine) { return engine->fingerprint(); };
  const Setup s;
  const auto whole = fingerprint(make<FlashAttention, PagedKVOf<16, own::Whole>>(s));
  BOOST_TEST(whole != fingerprint(make<FlashAttention, PagedKVOf<16, own::Nibble>>(s)));
  BOOST_TEST(whole == fingerprint(make<FlashAttention, ContiguousKVOf<own::Whole>>(s)));
}
