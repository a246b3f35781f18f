// Every contract of the library on one page: what a policy must have, in five lines or fewer. What it must *mean* is
// written as laws in tenon/testing/laws.h, which run against your own policies too.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "tenon/core/batch.h"
#include "tenon/core/elements.h"
#include "tenon/core/logits_processor.h"
#include "tenon/core/low_rank.h"
#include "tenon/core/panels.h"
#include "tenon/core/plan.h"
#include "tenon/core/views.h"

namespace tenon {

// ---- Scheduler<P>: who runs in this step, and how many tokens each. A pure decision: no allocation kept, no clock
// read.
template <class P>
concept SchedulerPolicy = std::copyable<P> && requires(P p, const QueueState& state, PlanWriter& out) {
  { p.plan(state, out) } -> std::same_as<void>;
};

// Refinement: whom to preempt when the cache is full. Without it, the one admitted last.
template <class P>
concept ChoosesVictim = SchedulerPolicy<P> && requires(P p, const QueueState& state) {
  { p.victim(state) } -> std::same_as<SeqId>;
};

// Refinement: told once after each step whom it served, for policies that keep accounts. `plan` may be asked several
// times a step, and may not count.
template <class P>
concept KeepsAccounts = SchedulerPolicy<P> && requires(P p, std::span<const Served> step) {
  { p.served(step) } -> std::same_as<void>;
};

// ---- Cache<P>: where keys and values live, in tiles of 16 positions.
inline constexpr int kTilePositions = 16;

// Sixteen positions of one key/value head. Keys are transposed so that a dot product needs no horizontal sum.
template <class Element>
struct KvTile {
  using Scale = std::conditional_t<std::is_const_v<Element>, const float, float>;

  Element* keys = nullptr;        // [head_dim, 16]
  Element* values = nullptr;      // [16, value_stride], value_stride = head_dim rounded up to 16, zeros behind head_dim
  Scale* key_scales = nullptr;    // [16], what each position's key and value are multiplied with;
  Scale* value_scales = nullptr;  // [16]  null where elements have no scales
};

// The device's side: trivially copyable. `sequence` counts within the batch; `tile` t holds positions 16 t .. 16 t
// + 15.
template <class V>
concept CacheView = std::is_trivially_copyable_v<V> && KvElement<typename V::Element> &&
    requires(const V v, int layer, int sequence, int head, int tile) {
  { v.tile(layer, sequence, head, tile) } -> std::same_as<KvTile<typename V::Element>>;
};

// The host's side: bookkeeping without tensors.
template <class L>
concept CacheLedger = requires(L ledger, const L& state, SeqId seq, int tokens) {
  { state.free_tokens() } -> std::convertible_to<int>;      // that some sequence could still take
  { state.capacity_tokens() } -> std::convertible_to<int>;  // the most that one sequence can ever hold
  { ledger.grow(seq, tokens) } -> std::same_as<bool>;       // room for so many more: all or nothing
  { ledger.release(seq) } -> std::same_as<void>;            // forgets the sequence
};

// What a ledger found of a text.
struct PrefixMatch {
  int tokens = 0;  // from the front, whose keys and values are in the cache
  int idle = 0;    // of free_tokens(), that taking them over would use: they are kept for nobody
};

// Refinement: finds keys and values that other sequences left behind. `identity` is all else that they depend on:
// adapters, a salt; texts under different identities share nothing.
template <class L>
concept ReusesPrefixes = CacheLedger<L> &&
    requires(L ledger, const L& state, SeqId seq, std::span<const TokenId> tokens, std::string_view identity) {
  { state.match(tokens, identity) } -> std::same_as<PrefixMatch>;
  {
    ledger.reuse(seq, tokens, identity)
    } -> std::same_as<int>;  // a sequence that holds nothing takes over what is found
  {
    ledger.publish(seq, tokens, identity)
    } -> std::same_as<void>;  // the first tokens.size() tokens of seq are in the cache
};

// A copy that the device must make before the next step.
struct BlockCopy {
  std::int32_t from = 0, to = 0;
};

// Storage as blocks: [layers, blocks, block_bytes].
struct BlockLayout {
  std::size_t blocks = 0, block_bytes = 0;
};

// Refinement, for ledgers of policies that have `static BlockLayout block_layout(const KvShape&, int tokens)`: a
// sequence starts with tokens of another one. Whole blocks are shared; one that both would write is copied.
template <class L>
concept ForksSequences = CacheLedger<L> && requires(L ledger, const L& state, SeqId parent, SeqId child, int tokens) {
  { ledger.fork(parent, child, tokens) } -> std::same_as<bool>;    // all or nothing; the child holds nothing before
  { state.copies() } -> std::same_as<std::span<const BlockCopy>>;  // in the order in which they must be made
  { ledger.clear_copies() } -> std::same_as<void>;                 // they were made
};

// Refinement: gives back what nobody reads any more, or keeps it for the same sequence, because every later row's
// window begins behind it.
template <class L>
concept TrimsSequences = CacheLedger<L> && requires(L ledger, const L& state, SeqId seq, int before, int tokens) {
  { ledger.trim(seq, before) } -> std::same_as<void>;  // no row that is still to come sees positions below `before`
  {
    state.held_at_most(tokens)
    } -> std::convertible_to<int>;  // room for so many at once is enough for a text of `tokens`
};

// The shape of all keys and values of a model.
struct KvShape {
  int layers = 0, heads = 0, head_dim = 0;
  int positions = 0;  // the most that one sequence can have
  int window = 0;     // positions that a row sees, its own included; 0: all before it
  int value_stride() const { return (head_dim + kTilePositions - 1) / kTilePositions * kTilePositions; }
  // Of one tile of one head in one layer: keys, values and, where elements have them, scales.
  template <class Element>
  std::size_t tile_bytes() const {
    const std::size_t scales = has_scales<Element> ? 2 * sizeof(float) : 0;
    return kTilePositions * (static_cast<std::size_t>(head_dim + value_stride()) * sizeof(Element) + scales);
  }
};

// `keeps_tokens` false: nothing outlives a step, and every step recomputes the whole sequence.
template <class P>
concept CachePolicy = CacheLedger<typename P::Ledger> && CacheView<typename P::View> &&
    requires(const KvShape& shape, int tokens, const typename P::Ledger& ledger, std::span<const SequenceRows> rows,
             void* storage, std::span<std::int32_t> table) {
  { P::keeps_tokens } -> std::convertible_to<bool>;
  { P::ledger(shape, tokens) } -> std::same_as<typename P::Ledger>;
  { P::bytes(shape, tokens) } -> std::same_as<std::size_t>;        // of storage for so many tokens
  { P::table_entries(shape, rows) } -> std::same_as<std::size_t>;  // 32-bit words that the view needs in a step
  { P::view(shape, tokens, ledger, rows, storage, table) } -> std::same_as<typename P::View>;  // fills the table
};

// ---- Weights<P> and Head<P>: how a matrix is stored, and dequantised just in time.
template <class P>
concept StoresMatrix = requires {
  typename P::View;
}
&&std::is_trivially_copyable_v<typename P::View>&& requires(Shape shape, std::span<const std::byte> stored,
                                                            const typename P::View v, int row, int col) {
  { P::bytes(shape) } -> std::same_as<std::size_t>;
  { P::view(shape, stored) } -> std::same_as<typename P::View>;
  { v.at(row, col) } -> std::same_as<float>;
};

// Rows come in blocks [n, cols]; n and first_row are multiples of 16 but for the last block; `packed` is the whole
// matrix, zeroed before.
template <class P>
concept EncodesBlocks = requires(Shape shape, int first_row, std::span<const float> rows, std::span<std::byte> packed) {
  { P::encode(shape, first_row, rows, packed) } -> std::same_as<void>;
};

// Or with the range of the whole matrix, for a format that has one scale for all of it: every block is read twice.
template <class P>
concept EncodesWithRange = requires(Shape shape, int first_row, std::span<const float> rows,
                                    std::span<std::byte> packed, const ValueRange& range) {
  { P::encode(shape, first_row, rows, packed, range) } -> std::same_as<void>;
};

template <class P>
concept WeightPolicy = StoresMatrix<P> &&(EncodesBlocks<P> || EncodesWithRange<P>);

// Refinement for speed: the matrix lies as one of core/panels.h, for which devices have kernels.
template <class V>
concept HasPanels = requires(const V v) {
  v.panels();
};

namespace detail {

template <class Panels>
inline constexpr bool is_code_panels = false;
template <class Code>
inline constexpr bool is_code_panels<CodePanels<Code>> = true;

}  // namespace detail

// Of those, one code a weight.
template <class V>
concept HasCodePanels = HasPanels<V> && requires(const V v) {
  requires detail::is_code_panels<std::remove_cvref_t<decltype(v.panels())>>;
};

// Matrices and attention for tensor cores alone, in an order of sums that nobody else has: a CPU refuses them.
template <class V>
concept OnTensorCores = requires {
  requires V::on_tensor_cores;
};

// Refinement for Head<P>: a rough copy by which most rows can be told not to be among the best.
template <class V>
concept HasInt8Approximation = HasPanels<V> && requires(const V v) {
  { v.approximation() } -> std::convertible_to<const Int8Approximation&>;
};

// Refinement for speed on the CPU, of a layout of one's own: sixteen rows decoded at once, out: [cols, 16].
template <class V>
concept DecodesPanels = requires(const V v, int panel, float* out) {
  { v.decode(panel, out) } -> std::same_as<void>;
};

// ---- Adapter<P>: how the low-rank updates of a step's rows are taken together: which rows share a product, and in
// which order. The order of summation is the op's own (ops/args.h), so all policies give the same bits.
template <class P>
concept AdapterPolicy = std::copyable<P> &&
    requires(const P p, std::span<const AdapterSet* const> rows, AdapterGroups& out) {
  { P::adds_at_runtime } -> std::convertible_to<bool>;  // false: no request may name an adapter
  { p.arrange(rows, out) } -> std::same_as<void>;       // rows: [rows] of the step, null where a row has no adapter
};

// ---- Attention<P>: a tag that picks the `attention` op of a device.
template <class P>
concept AttentionPolicy = std::is_empty_v<P> && requires {
  { P::materialises_scores } -> std::convertible_to<bool>;  // memory quadratic in the length, or linear
};

// ---- Request::logits_processor: concept LogitsProcessor, a user's pure function over a row of logits
// (core/logits_processor.h).

// ---- Device<P>: where it runs. One that says rows_together, a number of rows, finds AdapterGroups::tiles of so many
// or fewer in its ops' arguments, BatchView::tiles of as many queries (rows times the heads that share their keys), or
// of queries_together, and BatchView::longest as a multiple of its length_step.
template <class D>
concept DevicePolicy = requires(D& device, std::size_t bytes, std::span<std::byte> memory, std::span<const int> few,
                                const int* values, void (*write)(std::span<std::byte>)) {
  { D::name } -> std::convertible_to<std::string_view>;
  { device.allocate(bytes) } -> std::same_as<typename D::Memory>;  // zeroed
  { device.synchronize() } -> std::same_as<void>;
  device.fill(memory, write);                       // write(host) says what the device's memory is to hold
  { device.begin_step() } -> std::same_as<void>;    // what was put before is gone; the step before the last has ended
  { device.put(few) } -> std::same_as<const int*>;  // where kernels of this step read what the host has
  { device.fetch(values, bytes) } -> std::same_as<const int*>;  // the other way round, valid until the next call
  device.pool();                                                // threads of the host, device.threads() of them
};

struct KvPrefetchHint;  // core/kv_prefetch.h

/// Refinement: forward() says which keys and values are read after the next product, and the device may read them
/// ahead.
template <class D>
concept PrefetchesKv = DevicePolicy<D> && requires(D& device, const KvPrefetchHint& hint) {
  { device.will_read(hint) } -> std::same_as<void>;
};

}  // namespace tenon
