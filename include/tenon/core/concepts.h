/// All contracts between the engine and its policies; those of devices are in core/concepts/device.h. A concept says
/// what a policy must *have*; the laws in tenon/testing/laws.h say what it must *mean*, and run on your own policies
/// too. A policy may leave out the hooks whose concepts say "Refinement". `scripts/check-style --contracts` keeps the
/// page complete. No other file may ask a policy for a member by a `requires` expression of its own.
#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "tenon/core/batch.h"
#include "tenon/core/concepts/device.h"
#include "tenon/core/concepts/signature.h"
#include "tenon/core/draft.h"
#include "tenon/core/elements.h"
#include "tenon/core/logits_processor.h"
#include "tenon/core/low_rank.h"
#include "tenon/core/numeric_class.h"
#include "tenon/core/panels.h"
#include "tenon/core/plan.h"
#include "tenon/core/views.h"

namespace tenon {

// ---- Scheduler<P>: which sequences run in a step, and how many tokens of each.

/// Decides a step by calling `out.take`. The decision depends on `state` alone: `plan` reads no clock and keeps no
/// state; accounts are updated by `served`. It may be called several times for one step.
template <class P>
concept SchedulerPolicy = std::copyable<P> && requires(P p, const QueueState& state, PlanWriter& out) {
  { p.plan(state, out) } -> std::same_as<void>;
};

/// Refinement: names the running sequence to preempt when the cache is full. Without it, the sequence admitted last.
template <class P>
concept ChoosesVictim = SchedulerPolicy<P> && requires(P p, const QueueState& state) {
  { p.victim(state) } -> std::same_as<SeqId>;
};

/// Refinement: `served` is called after each step with what the step did for each sequence, and once more for each
/// guessed token that was accepted. Policies that keep accounts count there, because `plan` may be called several times
/// a step.
template <class P>
concept KeepsAccounts = SchedulerPolicy<P> && requires(P p, std::span<const Served> step) {
  { p.served(step) } -> std::same_as<void>;
};

// ---- Cache<P>: where keys and values live, in tiles of 16 positions.

/// Positions of a tile.
inline constexpr int kTilePositions = 16;

/// Sixteen positions of one key/value head. Keys are transposed so that a dot product needs no horizontal sum.
template <class Element>
struct KvTile {
  using Scale = std::conditional_t<std::is_const_v<Element>, const float, float>;

  Element* keys = nullptr;        ///< [head_dim, 16]
  Element* values = nullptr;      ///< [16, value_stride]; zeros from head_dim to value_stride
  Scale* key_scales = nullptr;    ///< [16], factor of each position's key; null if the element has no scales
  Scale* value_scales = nullptr;  ///< [16], factor of each position's value; null if the element has no scales
};

/// A view that is one of several, chosen at run time (AnyElementView). `Alternatives` has a type for each element of
/// KvType, or for each cache with each element.
template <class V>
concept ChoosesElement = requires {
  typename V::Alternatives;
};

/// The device's side of a cache: trivially copyable. Tile t holds positions 16 t to 16 t + 15. `sequence` is a slot
/// (SequenceRows::slot): slot i is element i of the `rows` that CachePolicy's `view` received. It is no index into the
/// batch of an op, which may have several SequenceRows of one slot.
template <class V>
concept CacheView = std::is_trivially_copyable_v<V> &&
    (ChoosesElement<V> ||
     (KvElement<typename V::Element> && requires(const V v, int layer, int sequence, int head, int tile) {
       { v.tile(layer, sequence, head, tile) } -> std::same_as<KvTile<typename V::Element>>;
     }));

/// Refinement: the view finds its tiles by a table of 32-bit words. The cache's store writes the table with
/// CachePolicy's `view`, copies it to the device, and sets `table` to the copy. CUDA needs it.
template <class V>
concept ReadsTable = CacheView<V> && requires(V view, const std::int32_t* words) {
  view.table = words;
};

/// The host's side of a cache: bookkeeping without tensors. `free_tokens` are tokens that some sequence could still
/// take. `capacity_tokens` is the most that one sequence can ever hold; it never changes. `grow` reserves `tokens` more
/// tokens, all or nothing. `release` forgets the sequence; an unknown one is ignored.
template <class L>
concept CacheLedger = requires(L ledger, const L& state, SeqId seq, int tokens) {
  { state.free_tokens() } -> std::convertible_to<int>;
  { state.capacity_tokens() } -> std::convertible_to<int>;
  { ledger.grow(seq, tokens) } -> std::same_as<bool>;
  { ledger.release(seq) } -> std::same_as<void>;
};

/// The cached prefix of a text.
struct PrefixMatch {
  int tokens = 0;  ///< length of the prefix whose keys and values are in the cache
  int idle = 0;    ///< tokens of the prefix that no sequence holds: reuse() takes them from free_tokens()
};

/// Refinement: finds keys and values that other sequences left behind. `match` looks a text up. `reuse` gives what it
/// finds to a sequence that holds nothing, and returns the number of tokens. `publish` says that the first
/// tokens.size() tokens of `seq` are in the cache. `identity` stands for all else that keys and values depend on
/// (adapters, a salt): texts under different identities share nothing.
template <class L>
concept ReusesPrefixes = CacheLedger<L> &&
    requires(L ledger, const L& state, SeqId seq, std::span<const TokenId> tokens, std::string_view identity) {
  { state.match(tokens, identity) } -> std::same_as<PrefixMatch>;
  { ledger.reuse(seq, tokens, identity) } -> std::same_as<int>;
  { ledger.publish(seq, tokens, identity) } -> std::same_as<void>;
};

/// Refinement: forgets the prefixes that no sequence holds. The engine calls it after a device failed, because the
/// contents of the cache are then unknown.
template <class L>
concept ForgetsPrefixes = CacheLedger<L> && requires(L ledger) {
  ledger.forget_prefixes();
};

/// A copy of one block that the device must make before the next step.
struct BlockCopy {
  std::int32_t from = 0, to = 0;
};

/// Storage as blocks: [layers, blocks, block_bytes].
struct BlockLayout {
  std::size_t blocks = 0, block_bytes = 0;
};

/// Refinement: a new sequence starts with tokens of another one (the choices of a request share its prompt). Whole
/// blocks are shared; a block that both would write is copied. `fork` is all or nothing, and the child holds nothing
/// before. `copies` lists the block copies in the order in which they must be made; `clear_copies` says that they were
/// made. The policy must have `block_layout` (LaysOutBlocks).
template <class L>
concept ForksSequences = CacheLedger<L> && requires(L ledger, const L& state, SeqId parent, SeqId child, int tokens) {
  { ledger.fork(parent, child, tokens) } -> std::same_as<bool>;
  { state.copies() } -> std::same_as<std::span<const BlockCopy>>;
  { ledger.clear_copies() } -> std::same_as<void>;
};

/// Refinement: frees the positions that the model's window has passed, or reuses them for the same sequence. `trim`
/// says that no later row sees positions below `before`. `held_at_most` is the largest number of tokens that the cache
/// holds at once for a text of `tokens` tokens.
template <class L>
concept TrimsSequences = CacheLedger<L> && requires(L ledger, const L& state, SeqId seq, int before, int tokens) {
  { ledger.trim(seq, before) } -> std::same_as<void>;
  { state.held_at_most(tokens) } -> std::convertible_to<int>;
};

/// Refinement: frees the room of wrong guesses. After `shrink(seq, tokens)` a sequence has room for its first `tokens`
/// tokens alone, and these stay as they are. Tokens that were published or forked are never freed by it.
template <class L>
concept ShrinksSequences = CacheLedger<L> && requires(L ledger, SeqId seq, int tokens) {
  { ledger.shrink(seq, tokens) } -> std::same_as<void>;
};

/// Refinement: one of several ledgers, chosen at run time (AnyLedger), with the hooks of all of them. `fork` and
/// `shrink` are called only if `forks` and `shrinks` return true: the chosen ledger has them. Its other missing hooks
/// do nothing: `match` finds no prefix, `copies` is empty, and `held_at_most` returns its argument.
template <class L>
concept ChoosesLedger = ReusesPrefixes<L> && ForksSequences<L> && TrimsSequences<L> && ShrinksSequences<L> &&
    requires(const L& state) {
  { state.forks() } -> std::same_as<bool>;
  { state.shrinks() } -> std::same_as<bool>;
};

/// A cache of the library, chosen at run time (AnyKV). paged16: blocks of 16 tokens.
enum class CacheKind : std::uint8_t { paged16, paged32, paged64, contiguous, window, none };

/// The shape of all keys and values of a model.
struct KvShape {
  int layers = 0, heads = 0, head_dim = 0;  ///< heads of keys and values
  int positions = 0;                        ///< most positions of one sequence
  int window = 0;                           ///< positions that a row sees, its own included; 0: all before it
  KvType element = KvType::float32;         ///< for caches that choose it at run time (AnyElementKV, AnyKV)
  CacheKind kind = CacheKind::paged16;      ///< for the cache that is chosen at run time (AnyKV)
  /// Elements from one position's value to the next: head_dim rounded up to 16.
  int value_stride() const { return (head_dim + kTilePositions - 1) / kTilePositions * kTilePositions; }
  /// Bytes of one tile of one head in one layer: keys, values and, if elements have them, scales.
  template <class Element>
  std::size_t tile_bytes() const {
    const std::size_t scales = has_scales<Element> ? 2 * sizeof(float) : 0;
    return kTilePositions * (static_cast<std::size_t>(head_dim + value_stride()) * sizeof(Element) + scales);
  }
};

/// Refinement: the storage is a grid of equal blocks, so that the device can copy a block. Needed by ledgers that fork.
template <class P>
concept LaysOutBlocks = requires(const KvShape& shape, int tokens) {
  { P::block_layout(shape, tokens) } -> std::same_as<BlockLayout>;
};

/// Refinement: the largest number of tokens that the cache holds of one sequence, however long its text gets. Without
/// it, the number of the model's positions. It decides the size of the engine's default cache.
template <class P>
concept BoundsSequences = requires(const KvShape& shape) {
  { P::sequence_tokens(shape) } -> std::convertible_to<int>;
};

/// Refinement: one of several caches, chosen at run time by KvShape::kind. `keeps` returns keeps_tokens of the chosen
/// cache. The engine calls it in place of the constant keeps_tokens.
template <class P>
concept ChoosesCache = requires(const KvShape& shape) {
  { P::keeps(shape) } -> std::same_as<bool>;
};

/// A ledger, a view, and how to make them. `keeps_tokens` false: nothing outlives a step, and every step recomputes the
/// whole sequence. `bytes` is the storage for `tokens` tokens, `table_entries` the number of 32-bit words that the view
/// of a step needs; `view` fills these words. The storage begins zeroed.
template <class P>
concept CachePolicy = CacheLedger<typename P::Ledger> && CacheView<typename P::View> &&
    (!ForksSequences<typename P::Ledger> ||
     LaysOutBlocks<P>)&&requires(const KvShape& shape, int tokens, const typename P::Ledger& ledger,
                                 std::span<const SequenceRows> rows, void* storage, std::span<std::int32_t> table) {
  { P::keeps_tokens } -> std::convertible_to<bool>;
  { P::ledger(shape, tokens) } -> std::same_as<typename P::Ledger>;
  { P::bytes(shape, tokens) } -> std::same_as<std::size_t>;
  { P::table_entries(shape, rows) } -> std::same_as<std::size_t>;
  { P::view(shape, tokens, ledger, rows, storage, table) } -> std::same_as<typename P::View>;
};

// ---- Weights<P> and Head<P>: how a matrix is stored, and decoded just in time.

/// A matrix y = W x, with rows = outputs and cols = inputs: the bytes that it takes, and a trivially copyable view of
/// stored bytes. `at` alone is enough to run everywhere.
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

/// Encodes a block of rows [n, cols]. n and first_row are multiples of 16, except for the last block. `packed` is the
/// whole matrix, zeroed before the first block. Several threads encode different blocks at once.
template <class P>
concept EncodesBlocks = requires(Shape shape, int first_row, std::span<const float> rows, std::span<std::byte> packed) {
  { P::encode(shape, first_row, rows, packed) } -> std::same_as<void>;
};

/// As EncodesBlocks, but `encode` also takes the range of the whole matrix, for a format with one scale for a matrix.
/// Every block is read twice: once to find the range.
template <class P>
concept EncodesWithRange = requires(Shape shape, int first_row, std::span<const float> rows,
                                    std::span<std::byte> packed, const ValueRange& range) {
  { P::encode(shape, first_row, rows, packed, range) } -> std::same_as<void>;
};

/// Stores a matrix and encodes it, with or without its range. `at` returns each weight to within a quarter of the
/// largest magnitude of its row, or of the matrix if `encode` takes its range.
template <class P>
concept WeightPolicy = StoresMatrix<P> &&(EncodesBlocks<P> || EncodesWithRange<P>);

/// Refinement: the first `value_bytes` bytes of a packed matrix determine all results; the rest only saves time.
/// Without it, all bytes do. Fingerprints cover these bytes only.
template <class P>
concept MarksValues = StoresMatrix<P> && requires(Shape shape) {
  { P::value_bytes(shape) } -> std::same_as<std::size_t>;
};

/// Refinement: names the WeightCode (weights/code.h) in which files hold the format.
template <class P>
concept NamesCode = requires {
  typename P::Code;
};

/// Refinement of the view: the matrix lies as one of the layouts of core/panels.h, for which devices have kernels.
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

/// HasPanels whose layout is CodePanels: one code per weight.
template <class V>
concept HasCodePanels = HasPanels<V> && requires(const V v) {
  requires detail::is_code_panels<std::remove_cvref_t<decltype(v.panels())>>;
};

/// Refinement of a view or an attention: it runs only on tensor cores, in their order of summation. The CPU refuses it.
template <class V>
concept OnTensorCores = requires {
  requires V::on_tensor_cores;
};

/// Refinement of the view: products read their activations as an `Operand`, which is an OperandTiles
/// (core/operand_tiles.h). The ops before a product round to its elements. A device without such ops refuses the
/// format.
template <class V>
concept NamesOperand = requires {
  typename V::Operand;
};

/// Refinement of the head's view: an int8 copy that rules out most rows as top-k candidates.
template <class V>
concept HasInt8Approximation = HasPanels<V> && requires(const V v) {
  { v.approximation() } -> std::convertible_to<const Int8Approximation&>;
};

/// Refinement of the view, for speed on the CPU: decodes rows 16 panel to 16 panel + 15 at once. out: [cols, 16]; rows
/// past the matrix's last one hold any value.
template <class V>
concept DecodesPanels = requires(const V v, int panel, float* out) {
  { v.decode(panel, out) } -> std::same_as<void>;
};

// ---- Adapter<P>: which rows of a step share a low-rank product, and in which order the products run. The order of
// summation belongs to the op (ops/args.h), so all policies give the same bits.

/// Groups the rows of a step. The engine default-constructs its policy. rows: [rows], null if a row has no adapter.
/// Each row with an adapter is in exactly one group, the others in none. The rows of a group ascend. `adds_at_runtime`
/// false: no request may name an adapter.
template <class P>
concept AdapterPolicy = std::copyable<P> && std::default_initializable<P> &&
    requires(const P p, std::span<const AdapterSet* const> rows, AdapterGroups& out) {
  { P::adds_at_runtime } -> std::convertible_to<bool>;
  { p.arrange(rows, out) } -> std::same_as<void>;
};

/// Refinement: EngineOptions::merged go into the weights at load. Without it, an engine refuses merged adapters.
template <class P>
concept MergesAtLoad = AdapterPolicy<P> && requires {
  requires P::merges_at_load;
};

// ---- Draft<P>: which tokens are guessed and then verified in one step. Guesses change no answer.

/// Guesses the tokens after a text, by `out.add`, from `state` alone. It is called on the engine's thread, at most once
/// a step for each text that gets its next token. It is not asked before the first token, nor where the request's
/// prediction or its constraint has guessed. Its time adds to the step's. If it throws, the text gets no guesses
/// from then on.
template <class P>
concept DraftPolicy = std::copyable<P> && std::default_initializable<P> &&
    requires(P p, const DraftState& state, DraftWriter& out) {
  { p.draft(state, out) } -> std::same_as<void>;
};

/// Refinement: `learn` is called with each text of a group (DraftState::group) that has ended, on the engine's thread.
template <class P>
concept LearnsTexts = DraftPolicy<P> && requires(P p, const DraftState& state) {
  { p.learn(state) } -> std::same_as<void>;
};

// ---- Attention<P>: the algorithm, and hooks that are const, pure and thread-safe; formula: ops/attention.h.

/// Refinement: returns the new score of a visible key for a query head. `score` is scale * q . k. -infinity hides a
/// key.
template <class P>
concept ScoresKeys = requires(const P policy, int query_position, int key_position, int head, float score) {
  { policy.score(query_position, key_position, head, score) } -> std::same_as<float>;
};

/// Refinement for speed: `score` of the 16 positions from first_key_position on, in place and to the same bits. Scores
/// of positions that the row does not see hold any value; the kernels drop their results.
template <class P>
concept ScoresTiles = ScoresKeys<P> && requires(const P policy, int query_position, int first_key_position, int head,
                                                std::span<float, kTilePositions> scores) {
  { policy.scores(query_position, first_key_position, head, scores) } -> std::same_as<void>;
};

/// Refinement: false hides a position from all heads of a row. A row that sees no position gets 0.
template <class P>
concept MasksKeys = requires(const P policy, int query_position, int key_position) {
  { policy.mask(query_position, key_position) } -> std::same_as<bool>;
};

/// Refinement: returns an std::array, not empty, of all members that change a result. It is part of an engine's
/// fingerprint.
template <class P>
concept CarriesValues = requires(const P policy) {
  requires(std::tuple_size<std::remove_cvref_t<decltype(policy.values())>>::value > 0);
  { policy.values()[0] } -> std::convertible_to<double>;
};

namespace detail {

struct HookNames {
  int score, scores, mask;
};
// `&WithHookNames<P>::score` is ambiguous, and so ill-formed, if P has a member `score` of any signature and access.
template <class P>
struct WithHookNames : P, HookNames {};

// Every member with a hook's name has the hook's signature. Kernels would ignore another one, or convert their
// arguments for it. Overloads and templates need only be callable with a hook's types. In a final class, private
// members, templates and overloads are not found.
template <class P>
concept HooksFit = !requires {
  requires !has_signature<decltype(&P::score), float(int, int, int, float)>;
}
&&!requires {
  &P::scores;
  requires !ScoresKeys<P> || !has_signature<decltype(&P::scores), void(int, int, int, std::span<float, 16>)>;
}
&&!requires { requires !has_signature<decltype(&P::mask), bool(int, int)>; }
&&(!std::is_class_v<P> || std::is_final_v<P> ||
   ((ScoresKeys<P> || requires { &WithHookNames<P>::score; }) &&
    (ScoresTiles<P> || requires { &WithHookNames<P>::scores; }) &&
    (MasksKeys<P> || requires { &WithHookNames<P>::mask; })));

}  // namespace detail

/// A variant, or a tag that selects an overload of the device's op `attention`. A policy with members is passed to the
/// engine as a value. `materialises_scores`: memory is quadratic in the length of the text; false: linear.
template <class P>
concept AttentionPolicy = std::is_trivially_copyable_v<P> &&
    (std::is_empty_v<P> || CarriesValues<P>)&&detail::HooksFit<P>&& requires {
  { P::materialises_scores } -> std::convertible_to<bool>;
};

/// A policy with hooks, which the op `attention` of a device applies. `materialises_scores` picks the algorithm:
/// DirectAttention's if it is true, FlashAttention's if it is false.
template <class P>
concept AttentionVariant = AttentionPolicy<P> &&(ScoresKeys<P> || MasksKeys<P>);

// ---- Names of arithmetic: for the fingerprint of an engine.

/// Refinement of a weight format, an element of keys and values, an attention, a device or a model family: a static
/// constexpr NumericClass<P> `numeric_class` names its arithmetic. Without it, a fingerprint has the type's name in the
/// compiler's spelling, which differs between compilers.
template <class P>
concept NamesNumericClass = requires {
  { P::numeric_class } -> std::same_as<const NumericClass<P>&>;
};

// ---- Request::logits_processor: concept LogitsProcessor, a user's pure function over a row of logits
// (core/logits_processor.h).

}  // namespace tenon
