// The built-in policies obey the laws. For each law a policy here breaks it, which shows that the law can fail.
#include "tenon/testing/laws.h"

#include <boost/test/unit_test.hpp>

#include "obeys.h"
#include "tenon/cache/contiguous.h"
#include "tenon/cache/no_cache.h"
#include "tenon/cache/paged.h"
#include "tenon/cache/window.h"
#include "tenon/schedule/any_scheduler.h"
#include "tenon/schedule/continuous.h"
#include "tenon/schedule/sequential.h"
#include "tenon/schedule/static.h"

BOOST_AUTO_TEST_SUITE(testing_laws)

using namespace tenon;
using test::breaks;
using test::obeys;
using testing::cache_laws;
using testing::scheduler_laws;
using testing::Violations;

namespace {

// ---- schedulers, each wrong in one way

struct Inventive {  // takes a sequence that is not in the state
  void plan(const QueueState& state, PlanWriter& out) const {
    out.take(4711, 1);
    SequentialPolicy{}.plan(state, out);
  }
};
struct Moody {  // decides by more than the state
  void plan(const QueueState& state, PlanWriter& out) const {
    static int calls = 0;
    if (++calls % 2)
      ContinuousPolicy{}.plan(state, out);
    else
      SequentialPolicy{}.plan(state, out);
  }
};
struct Alternating {  // counts its own plans
  int plans = 0;
  void plan(const QueueState& state, PlanWriter& out) {
    if (++plans % 2)
      ContinuousPolicy{}.plan(state, out);
    else
      SequentialPolicy{}.plan(state, out);
  }
};
struct Forgetful {  // serves only one running sequence
  void plan(const QueueState& state, PlanWriter& out) const {
    if (!state.running.empty()) out.take(state.running.front().seq, 512);
    for (const Candidate& c : state.waiting) out.take(c.seq, c.pending);
  }
};
struct Lazy {  // rests in every other millisecond
  void plan(const QueueState& state, PlanWriter& out) const {
    if (state.now.time_since_epoch() / std::chrono::milliseconds(1) % 2) ContinuousPolicy{}.plan(state, out);
  }
};
struct Snob {  // never admits long prompts
  void plan(const QueueState& state, PlanWriter& out) const {
    for (const Candidate& c : state.running) out.take(c.seq, c.pending);
    for (const Candidate& c : state.waiting) {
      if (c.pending < 50) out.take(c.seq, c.pending);
    }
  }
};
struct WaitsForCompany {  // n or nothing, whatever the clock says
  void plan(const QueueState& state, PlanWriter& out) const {
    StaticPolicy{.n = 8, .max_wait = std::chrono::hours(100000)}.plan(state, out);
  }
};
struct Vengeful : ContinuousPolicy {  // preempts a sequence that does not run
  SeqId victim(const QueueState&) const { return 4711; }
};

// ---- caches, each wrong in one way; Base is right

using Base = PagedKV;
struct LedgerOf : Base::Ledger {
  LedgerOf(const Base::Ledger& l) : Base::Ledger(l) {}
};
template <class L, class P = Base>
struct WithLedger : P {
  using Ledger = L;
  static L ledger(const KvShape& shape, int tokens) { return L(P::ledger(shape, tokens)); }
  static typename P::View view(const KvShape& shape, int tokens, const L& ledger, std::span<const SequenceRows> rows,
                               void* storage, std::span<std::int32_t> table) {
    return P::view(shape, tokens, ledger, rows, storage, table);
  }
};
struct Leaks : LedgerOf {
  using LedgerOf::LedgerOf;
  void release(SeqId seq) {
    if (seq % 5 != 3) LedgerOf::release(seq);
  }
};
struct Boasts : LedgerOf {  // promises more than there is
  using LedgerOf::LedgerOf;
  int free_tokens() const { return LedgerOf::free_tokens() + 16; }
};
struct Halfway : LedgerOf {  // keeps a part of a request that did not fit
  using LedgerOf::LedgerOf;
  bool grow(SeqId seq, int tokens) {
    if (LedgerOf::grow(seq, tokens)) return true;
    LedgerOf::grow(seq, 16);
    return false;
  }
};
struct Understates : LedgerOf {  // says less than one sequence can hold
  using LedgerOf::LedgerOf;
  int capacity_tokens() const { return 32; }
};
struct Shrinks : LedgerOf {  // the capacity shrinks with the free tokens
  using LedgerOf::LedgerOf;
  int capacity_tokens() const { return std::min(LedgerOf::capacity_tokens(), std::max(1, free_tokens())); }
};
struct Moves : LedgerOf {  // gives a sequence other blocks when it grows
  using LedgerOf::LedgerOf;
  std::map<SeqId, int> held;
  bool grow(SeqId seq, int tokens) {
    if (!LedgerOf::grow(seq, tokens)) return false;
    const int all = held[seq] += tokens;
    if (seq % 3 != 0 || all == tokens) return true;
    LedgerOf::release(seq);
    LedgerOf::grow(1000000 + seq, 1);
    LedgerOf::grow(seq, all);
    LedgerOf::release(1000000 + seq);
    return true;
  }
  void release(SeqId seq) {
    held.erase(seq);
    LedgerOf::release(seq);
  }
};

// ---- and ledgers that trim

struct WindowLedgerOf : WindowKV::Ledger {
  WindowLedgerOf(const WindowKV::Ledger& l) : WindowKV::Ledger(l) {}
};
template <class L>
Violations window_laws() {
  return cache_laws<WithLedger<L, WindowKV>>({2, 2, 5, 150, 20}, 400);
}
struct NeverPasses : WindowLedgerOf {
  using WindowLedgerOf::WindowLedgerOf;
  void trim(SeqId, int) {}
};
struct PassesWhatIsSeen : WindowLedgerOf {
  using WindowLedgerOf::WindowLedgerOf;
  void trim(SeqId seq, int before) { WindowLedgerOf::trim(seq, before + 16); }
};
struct HoldsMore : WindowLedgerOf {  // holds more than held_at_most
  using WindowLedgerOf::WindowLedgerOf;
  int held_at_most(int tokens) const { return WindowLedgerOf::held_at_most(tokens) - 16; }
};
struct KeepsNoRing : WindowLedgerOf {  // wants a free block where it has one of its own
  using WindowLedgerOf::WindowLedgerOf;
  bool grow(SeqId seq, int tokens) { return free_tokens() > 0 && WindowLedgerOf::grow(seq, tokens); }
};
struct TrimsStrangers : WindowLedgerOf {
  using WindowLedgerOf::WindowLedgerOf;
  void trim(SeqId seq, int before) {
    if (living(seq).blocks.empty())
      grow(seq, 1);
    else
      WindowLedgerOf::trim(seq, before);
  }
};
struct GivesBackWhatIsSeen : WindowLedgerOf {
  using WindowLedgerOf::WindowLedgerOf;
  void trim(SeqId seq, int before) {
    if (before <= 0)
      release(seq);
    else
      WindowLedgerOf::trim(seq, before);
  }
};
struct Forgets : LedgerOf {  // forgets all blocks when it trims
  using LedgerOf::LedgerOf;
  std::map<SeqId, int> held;
  int held_at_most(int tokens) const { return tokens; }
  bool grow(SeqId seq, int tokens) {
    if (!LedgerOf::grow(seq, tokens)) return false;
    held[seq] += tokens;
    return true;
  }
  void release(SeqId seq) {
    held.erase(seq);
    LedgerOf::release(seq);
  }
  void trim(SeqId seq, int before) {
    if (before <= 0 || !held.contains(seq)) return;
    LedgerOf::release(seq);
    LedgerOf::grow(1000000 + seq, 1);
    LedgerOf::grow(seq, held[seq]);
    LedgerOf::release(1000000 + seq);
  }
};

struct Shares : Base {  // two sequences in one block
  static View view(const KvShape& shape, int tokens, const Ledger& ledger, std::span<const SequenceRows> rows,
                   void* storage, std::span<std::int32_t> table) {
    const View v = Base::view(shape, tokens, ledger, rows, storage, table);
    for (auto& block : table) block &= ~1;
    return v;
  }
};
struct TooSmall : Base {
  static std::size_t bytes(const KvShape& shape, int tokens) { return Base::bytes(shape, tokens) - 64; }
};
struct Overwrites : Base {  // announces fewer entries than it writes
  static std::size_t table_entries(const KvShape& shape, std::span<const SequenceRows> rows) {
    const auto n = Base::table_entries(shape, rows);
    return n - (n > 0);
  }
  static View view(const KvShape& shape, int tokens, const Ledger& ledger, std::span<const SequenceRows> rows,
                   void* storage, std::span<std::int32_t> table) {
    return Base::view(shape, tokens, ledger, rows, storage, {table.data(), Base::table_entries(shape, rows)});
  }
};
template <class E>
struct OverlappingView {
  using Element = E;
  PagedView<16, E> inner;
  KvTile<E> tile(int layer, int sequence, int head, int t) const {
    auto tile = inner.tile(layer, sequence, head, t);
    tile.values -= 1;
    return tile;
  }
};
struct OneScaleView {
  using Element = std::int8_t;
  PagedView<16, std::int8_t> inner;
  KvTile<std::int8_t> tile(int layer, int sequence, int head, int t) const {
    auto tile = inner.tile(layer, sequence, head, t);
    tile.value_scales = tile.key_scales;
    return tile;
  }
};
struct OneScale : PagedKVOf<16, std::int8_t> {  // for keys and values
  using View = OneScaleView;
  static View view(const KvShape& shape, int tokens, const Ledger& ledger, std::span<const SequenceRows> rows,
                   void* storage, std::span<std::int32_t> table) {
    return {PagedKVOf<16, std::int8_t>::view(shape, tokens, ledger, rows, storage, table)};
  }
};
struct Overlaps : Base {  // values begin in the keys' last element
  using View = OverlappingView<float>;
  static View view(const KvShape& shape, int tokens, const Ledger& ledger, std::span<const SequenceRows> rows,
                   void* storage, std::span<std::int32_t> table) {
    return {Base::view(shape, tokens, ledger, rows, storage, table)};
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(our_schedulers_obey) {
  obeys(scheduler_laws(SequentialPolicy{}));
  obeys(scheduler_laws(StaticPolicy{}));
  obeys(scheduler_laws(StaticPolicy{.n = 3, .max_wait = std::chrono::milliseconds(2)}));
  obeys(scheduler_laws(StaticPolicy{.n = 0}));
  obeys(scheduler_laws(ContinuousPolicy{}));
  obeys(scheduler_laws(ContinuousPolicy{.max_batch = 3, .token_budget = 7}));
  obeys(scheduler_laws(ContinuousPolicy{.max_batch = 64, .token_budget = 16, .order = Order::longest_first}));
  obeys(scheduler_laws(ContinuousPolicy{.max_batch = 0, .token_budget = 0}));
  obeys(scheduler_laws(AnyScheduler(ContinuousPolicy{.order = Order::longest_first})));
}

BOOST_AUTO_TEST_CASE(our_caches_obey) {
  obeys(cache_laws<PagedKV>());
  obeys(cache_laws<PagedKVOf<32>>());
  obeys(cache_laws<PagedKVOf<64>>());
  obeys(cache_laws<ContiguousKV>());
  obeys(cache_laws<NoCache>());
  obeys(cache_laws<PagedKVOf<16, bfloat16>>());
  obeys(cache_laws<PagedKVOf<16, std::int8_t>>());
  obeys(cache_laws<ContiguousKVOf<std::int8_t>>({2, 3, 7, 50}, 300));
  obeys(cache_laws<NoCacheOf<std::int8_t>>());
  obeys(cache_laws<WindowKV>());
  obeys(cache_laws<WindowKV>({2, 2, 5, 150, 20}, 400));
  obeys(cache_laws<WindowKVOf<32, std::int8_t>>({2, 2, 5, 250, 50}, 400));
  obeys(cache_laws<WindowKV>({1, 1, 64, 1000, 33}, 64));  // room for hardly more than one ring
  obeys(cache_laws<WindowKV>({1, 1, 64, 1000, 33}, 32));  // or less
  obeys(cache_laws<WithLedger<WindowLedgerOf, WindowKV>>({2, 2, 5, 150, 20}, 400));
  obeys(cache_laws<PagedKV>({2, 2, 5, 150, 20}, 400));  // it keeps all positions
  obeys(cache_laws<PagedKV>({1, 1, 64, 1000}, 48));     // fewer tokens than positions
  obeys(cache_laws<ContiguousKV>({1, 3, 16, 33}, 1));   // one slot at least
  obeys(cache_laws<NoCache>({3, 2, 17, 1000}, 48));
}

BOOST_AUTO_TEST_CASE(wrong_schedulers_are_caught) {
  BOOST_TEST(breaks(scheduler_laws(Inventive{}), "takes only sequences that the state shows"));
  BOOST_TEST(breaks(scheduler_laws(Moody{}), "equal copies decide alike"));
  BOOST_TEST(breaks(scheduler_laws(Alternating{}), "decides alike on the same state again"));
  BOOST_TEST(breaks(scheduler_laws(Forgetful{}), "serves every running sequence"));
  BOOST_TEST(breaks(scheduler_laws(Lazy{}), "never idles while a sequence runs"));
  BOOST_TEST(breaks(scheduler_laws(Snob{}), "never idles while draining"));
  BOOST_TEST(breaks(scheduler_laws(Snob{}), "everyone finishes"));
  BOOST_TEST(breaks(scheduler_laws(WaitsForCompany{}), "everyone finishes"));
  BOOST_TEST(breaks(scheduler_laws(Vengeful{}), "the victim is a running sequence"));
}

BOOST_AUTO_TEST_CASE(wrong_caches_are_caught) {
  BOOST_TEST(breaks(cache_laws<WithLedger<Leaks>>(), "release gives everything back"));
  BOOST_TEST(breaks(cache_laws<WithLedger<Boasts>>(), "what free_tokens promises"));
  BOOST_TEST(breaks(cache_laws<WithLedger<Halfway>>(), "all or nothing"));
  BOOST_TEST(breaks(cache_laws<WithLedger<Understates>>(), "beyond the capacity"));
  BOOST_TEST(breaks(cache_laws<WithLedger<Shrinks>>(), "capacity_tokens never changes"));
  BOOST_TEST(breaks(cache_laws<WithLedger<Moves>>(), "tokens stay as they were written"));
  BOOST_TEST(breaks(window_laws<NeverPasses>(), "grow to the capacity by ones"));
  BOOST_TEST(breaks(window_laws<PassesWhatIsSeen>(), "throws nothing"));  // the view refuses rows that see it
  BOOST_TEST(breaks(window_laws<HoldsMore>(), "never holds more than held_at_most"));
  BOOST_TEST(breaks(window_laws<KeepsNoRing>(), "grows even if nothing is free"));
  BOOST_TEST(breaks(window_laws<TrimsStrangers>(), "trimming an unknown sequence does nothing"));
  BOOST_TEST(breaks(window_laws<TrimsStrangers>(), "trim takes nothing from what is free"));
  BOOST_TEST(breaks(window_laws<GivesBackWhatIsSeen>(), "trim passes nothing that a row sees"));
  BOOST_TEST(breaks(cache_laws<WithLedger<Forgets>>({2, 2, 5, 150, 20}, 400), "tokens stay as they were written"));
  BOOST_TEST(breaks(cache_laws<Shares>(), "no two tiles share memory"));
  BOOST_TEST(breaks(cache_laws<TooSmall>(), "within the storage"));
  BOOST_TEST(breaks(cache_laws<Overwrites>(), "no more table entries"));
  BOOST_TEST(breaks(cache_laws<Overlaps>(), "no two tiles share memory"));
  BOOST_TEST(breaks(cache_laws<OneScale>(), "no two tiles share memory"));
}

BOOST_AUTO_TEST_SUITE_END()
