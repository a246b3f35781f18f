// LedgerRef: every ledger by reference, with the refinements that it has.
#include "tenon/schedule/ledger_ref.h"

#include <boost/test/unit_test.hpp>
#include <numeric>
#include <vector>

#include "tenon/cache/any_cache.h"
#include "tenon/testing/scheduler_laws.h"

BOOST_AUTO_TEST_SUITE(schedule_ledger_ref)

using namespace tenon;

namespace {

struct Refinements {
  bool reuses = false, forks = false, trims = false, shrinks = false;
  bool frees_at_once = false;  // what it shrinks by is free for others
};

// The same calls on two equal ledgers, one of them through a copy of a reference.
template <class L>
void check(L ledger, L twin, const Refinements& has) {
  LedgerRef first = ledger;
  LedgerRef ref = first;  // refers to the ledger, not to `first`
  std::vector<TokenId> text(40);
  std::iota(text.begin(), text.end(), 0);
  BOOST_TEST(ref.forks() == has.forks);
  BOOST_TEST(ref.shrinks() == has.shrinks);
  BOOST_TEST(ref.capacity_tokens() == twin.capacity_tokens());
  BOOST_TEST(ref.grow(1, 40) == twin.grow(1, 40));
  BOOST_TEST(ref.free_tokens() == twin.free_tokens());
  if (!has.trims) BOOST_TEST(ref.held_at_most(100) == 100);
  const int before = ref.free_tokens();
  ref.shrink(1, 3);
  if constexpr (ShrinksSequences<L>)
    if (has.shrinks) twin.shrink(1, 3);
  BOOST_TEST(ref.free_tokens() == twin.free_tokens());
  BOOST_TEST((ref.free_tokens() > before) == has.frees_at_once);
  if (has.shrinks) BOOST_TEST((ref.grow(1, 37) && twin.grow(1, 37)));
  ref.publish(1, text, "");
  if constexpr (ReusesPrefixes<L>) twin.publish(1, text, "");
  BOOST_TEST((ref.match(text, "").tokens > 0) == has.reuses);
  BOOST_TEST(ref.fork(1, 2, 33) == has.forks);
  ref.release(2);
  ref.release(1);
  twin.release(1);
  BOOST_TEST(ref.free_tokens() == twin.free_tokens());
  BOOST_TEST((ref.reuse(3, text, "") > 0) == has.reuses);
  ref.release(3);
  ref.forget_prefixes();
  BOOST_TEST(ref.match(text, "").tokens == 0);
}

KvShape shape_of(CacheKind kind, int window) {
  KvShape shape{1, 1, 4, 64};
  shape.kind = kind;
  shape.window = window;
  return shape;
}

}  // namespace

BOOST_AUTO_TEST_CASE(has_the_refinements_of_its_ledger) {
  check(testing::CountingLedger(128), testing::CountingLedger(128), {});
  check(BlockLedger<4>(32, 64), BlockLedger<4>(32, 64),
        {.reuses = true, .forks = true, .shrinks = true, .frees_at_once = true});
  check(WindowLedger<16>(8, 64, 20), WindowLedger<16>(8, 64, 20), {.trims = true});
}

BOOST_AUTO_TEST_CASE(has_the_refinements_of_a_ledger_that_was_chosen) {
  const auto of = [](CacheKind kind, int window) { return AnyKV::ledger(shape_of(kind, window), 128); };
  const Refinements paged{.reuses = true, .forks = true, .shrinks = true, .frees_at_once = true};
  check(of(CacheKind::paged16, 0), of(CacheKind::paged16, 0), paged);
  check(of(CacheKind::paged32, 0), of(CacheKind::paged32, 0), paged);
  check(of(CacheKind::contiguous, 0), of(CacheKind::contiguous, 0), {.shrinks = true});
  check(of(CacheKind::window, 20), of(CacheKind::window, 20), {.trims = true});
}

BOOST_AUTO_TEST_CASE(a_ring_bounds_what_a_text_holds) {
  WindowLedger<16> ring(8, 64, 20);
  AnyLedger chosen = AnyKV::ledger(shape_of(CacheKind::window, 20), 128);
  BOOST_TEST(LedgerRef(ring).held_at_most(1000) == ring.held_at_most(1000));
  BOOST_TEST(LedgerRef(chosen).held_at_most(1000) == chosen.held_at_most(1000));
  BOOST_TEST(ring.held_at_most(1000) < 1000);
}

BOOST_AUTO_TEST_SUITE_END()
