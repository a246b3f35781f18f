// The cache that is chosen at run time has the hooks of the chosen one. tests/engine/any_cache.cpp compares answers.
#include "tenon/cache/any_cache.h"

#include <boost/test/unit_test.hpp>

#include "tenon/testing/cache_laws.h"
#include "tenon/testing/sharing_laws.h"

BOOST_AUTO_TEST_SUITE(cache_any_cache)

using namespace tenon;

namespace {

// AnyKV with the choice of C, a type of float32, as the laws ask for one cache.
template <CacheKind kind, class C>
struct Chosen {
  static constexpr bool keeps_tokens = C::keeps_tokens;
  using Ledger = AnyLedger;
  using View = typename C::View;

  static KvShape with(KvShape shape) {
    shape.kind = kind;
    return shape;
  }
  static Ledger ledger(const KvShape& shape, int tokens) { return AnyKV::ledger(with(shape), tokens); }
  static std::size_t bytes(const KvShape& shape, int tokens) { return AnyKV::bytes(with(shape), tokens); }
  static BlockLayout block_layout(const KvShape& shape, int tokens) { return AnyKV::block_layout(with(shape), tokens); }
  static std::size_t table_entries(const KvShape& shape, std::span<const SequenceRows> rows) {
    return AnyKV::table_entries(with(shape), rows);
  }
  static View view(const KvShape& shape, int tokens, const Ledger& ledger, std::span<const SequenceRows> rows,
                   void* storage, std::span<std::int32_t> table) {
    return std::get<View>(AnyKV::view(with(shape), tokens, ledger, rows, storage, table).view);
  }
};

constexpr KvShape kShape{.layers = 2, .heads = 3, .head_dim = 16, .positions = 500};

KvShape shape_of(CacheKind kind) {
  KvShape shape = kShape;
  shape.kind = kind;
  return shape;
}
AnyLedger ledger(CacheKind kind) { return AnyKV::ledger(shape_of(kind), 640); }

}  // namespace

BOOST_AUTO_TEST_CASE(keeps_what_the_chosen_cache_keeps) {
  BOOST_TEST(AnyKV::keeps(shape_of(CacheKind::paged16)));
  BOOST_TEST(AnyKV::keeps(shape_of(CacheKind::window)));
  BOOST_TEST(!AnyKV::keeps(shape_of(CacheKind::none)));
}

BOOST_AUTO_TEST_CASE(has_the_refinements_of_the_chosen_ledger) {
  BOOST_TEST((ledger(CacheKind::paged64).forks() && ledger(CacheKind::paged64).shrinks()));
  BOOST_TEST((!ledger(CacheKind::contiguous).forks() && ledger(CacheKind::contiguous).shrinks()));
  BOOST_TEST((!ledger(CacheKind::window).forks() && !ledger(CacheKind::window).shrinks()));
  BOOST_TEST((!ledger(CacheKind::none).forks() && !ledger(CacheKind::none).shrinks()));
}

BOOST_AUTO_TEST_CASE(finds_prefixes_only_where_the_chosen_ledger_does) {
  const std::vector<TokenId> text(40, 7);
  const auto found = [&](AnyLedger all) {
    BOOST_TEST(all.grow(1, 40));
    all.publish(1, text, "");
    return all.match(text, "").tokens;
  };
  BOOST_TEST(found(ledger(CacheKind::paged16)) == 32);
  BOOST_TEST(found(ledger(CacheKind::paged32)) == 32);
  BOOST_TEST(found(ledger(CacheKind::paged64)) == 0);
  BOOST_TEST(found(ledger(CacheKind::contiguous)) == 0);
  BOOST_TEST(found(ledger(CacheKind::window)) == 0);
}

BOOST_AUTO_TEST_CASE(shrinks_where_the_chosen_ledger_does) {
  const auto freed = [](CacheKind kind) {
    AnyLedger all = ledger(kind);
    BOOST_TEST(all.grow(1, 40));
    const int before = all.free_tokens();
    all.shrink(1, 10);
    return all.free_tokens() - before;
  };
  BOOST_TEST(freed(CacheKind::paged16) == 32);
  BOOST_TEST(freed(CacheKind::paged32) == 32);
  BOOST_TEST(freed(CacheKind::window) == 0);
  BOOST_TEST(freed(CacheKind::none) == 0);
}

BOOST_AUTO_TEST_CASE(trims_a_window_alone) {
  KvShape shape = shape_of(CacheKind::window);
  shape.window = 20;
  AnyLedger window = AnyKV::ledger(shape, 640);
  const WindowLedger<16> typed = WindowKV::ledger(shape, 640);
  BOOST_TEST(window.held_at_most(400) == typed.held_at_most(400));
  BOOST_TEST(window.held_at_most(400) < 100);
  const int all = window.free_tokens();
  for (int cached = 1; cached <= 400; ++cached) {  // a ring takes the text, whose blocks the window passes
    BOOST_REQUIRE(window.grow(1, 1));
    window.trim(1, cached - shape.window + 1);
  }
  BOOST_TEST(all - window.free_tokens() <= typed.held_at_most(400));

  AnyLedger paged = ledger(CacheKind::paged16);
  BOOST_TEST(paged.held_at_most(400) == 400);
  BOOST_TEST(paged.grow(1, 40));
  const int before = paged.free_tokens();
  paged.trim(1, 30);
  BOOST_TEST(paged.free_tokens() == before);
}

BOOST_AUTO_TEST_CASE(forks_and_forgets_where_the_chosen_ledger_does) {
  const std::vector<TokenId> text(40, 7);
  AnyLedger paged = ledger(CacheKind::paged16);
  BOOST_TEST(paged.grow(1, 40));
  BOOST_TEST(paged.fork(1, 2, 40));
  BOOST_TEST(paged.copies().size() == 1u);  // of the block that is not full
  paged.clear_copies();
  BOOST_TEST(paged.copies().empty());
  paged.publish(1, text, "");
  paged.release(1);
  paged.release(2);
  BOOST_TEST(paged.match(text, "").tokens == 32);
  paged.forget_prefixes();
  BOOST_TEST(paged.match(text, "").tokens == 0);

  AnyLedger contiguous = ledger(CacheKind::contiguous);
  BOOST_TEST(contiguous.grow(1, 40));
  BOOST_TEST(!contiguous.fork(1, 2, 40));
  BOOST_TEST(contiguous.copies().empty());
}

// The laws ask for every hook of a ledger, so they fit the kinds that have them all.
BOOST_AUTO_TEST_CASE(laws) {
  using Paged16 = Chosen<CacheKind::paged16, PagedKVOf<16>>;
  using Paged64 = Chosen<CacheKind::paged64, PagedKVOf<64>>;
  BOOST_TEST(testing::cache_laws<Paged16>() == testing::Violations{}, boost::test_tools::per_element());
  BOOST_TEST(testing::sharing_laws<Paged16>() == testing::Violations{}, boost::test_tools::per_element());
  BOOST_TEST(testing::cache_laws<Paged64>({2, 3, 16, 500}, 640) == testing::Violations{},
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(sizes_are_those_of_the_types) {
  const auto same = []<class C>(CacheKind kind, std::type_identity<C>) {
    KvShape shape = shape_of(kind);
    shape.window = 100;
    shape.element = KvType::int8;
    BOOST_TEST(AnyKV::bytes(shape, 640) == C::bytes(shape, 640));
    int most = shape.positions;
    if constexpr (BoundsSequences<C>) most = C::sequence_tokens(shape);
    BOOST_TEST(AnyKV::sequence_tokens(shape) == most);
    const std::vector<SequenceRows> rows{{1, 0, 3, 90, 0}};
    BOOST_TEST(AnyKV::table_entries(shape, rows) == C::table_entries(shape, rows));
  };
  same(CacheKind::paged16, std::type_identity<PagedKVOf<16, std::int8_t>>{});
  same(CacheKind::paged32, std::type_identity<PagedKVOf<32, std::int8_t>>{});
  same(CacheKind::paged64, std::type_identity<PagedKVOf<64, std::int8_t>>{});
  same(CacheKind::contiguous, std::type_identity<ContiguousKVOf<std::int8_t>>{});
  same(CacheKind::window, std::type_identity<WindowKVOf<16, std::int8_t>>{});
  same(CacheKind::none, std::type_identity<NoCacheOf<std::int8_t>>{});
}

BOOST_AUTO_TEST_SUITE_END()
