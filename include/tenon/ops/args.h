// The arguments of every op, and what each op computes. This is the one place that defines them. A device implements an
// op by a function of the same name, overloaded on the device. ops/reference.h is the naive oracle in double precision.
//
// The order of summation is part of each op's meaning (docs/numerics.md). An output element depends on its own row and
// on the sizes of the model, never on the number of rows, threads or other requests.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tenon/core/batch.h"
#include "tenon/core/concepts.h"
#include "tenon/core/low_rank.h"
#include "tenon/core/operand_tiles.h"
#include "tenon/core/views.h"
#include "tenon/ops/activation.h"

namespace tenon {

/// A matrix and the bias of its product. Vector: null or empty where there is none.
template <class Matrix, class Vector>
struct LinearParts {
  Matrix weight;
  Vector bias;
};

/// One MLP of a mixture of experts.
template <class Matrix, class Vector>
struct ExpertParts {
  LinearParts<Matrix, Vector> up, down;  ///< up: [gate, then up: 2 inner; hidden]; down: [hidden, inner]
};

/// x[r] = scale * table[token_of(batch, r)] + position_table[positions[r]]. The table has any weight format; a tied
/// head is one.
template <class W>
struct EmbedArgs {
  BatchView batch;
  W table;                      ///< [vocab, hidden]
  const float* position_table;  ///< [positions, hidden], null where positions are not learned
  MatrixView<float> x;          ///< [rows, hidden]
  float scale = 1;
};

// Some ops round their result for the product that reads it. Then Y is OperandTiles<E> instead of MatrixView<float>,
// and the result exists in no other form.

/// y = (x - mean) / sqrt(variance + epsilon) * gain + bias per row, sums in 16 strips (Ba et al., 2016).
template <class Y>
struct LayerNormArgsOf {
  MatrixView<const float> x;  ///< [rows, hidden]
  const float* gain;          ///< [hidden]
  const float* bias;          ///< [hidden]
  float epsilon;
  Y y;  ///< [rows, hidden]; may be x
};
using LayerNormArgs = LayerNormArgsOf<MatrixView<float>>;

/// y = x / sqrt(mean of x^2 + epsilon) * gain per row, the sum in 16 strips (Zhang and Sennrich, 2019).
template <class Y>
struct RmsNormArgsOf {
  MatrixView<const float> x;  ///< [rows, hidden]
  const float* gain;          ///< [hidden]
  float epsilon;
  Y y;  ///< [rows, hidden]; may be x
};
using RmsNormArgs = RmsNormArgsOf<MatrixView<float>>;

/// y = activation(W x + bias + delta) + residual. W x is one chain of fused multiply-adds over k = 0, 1, 2, ....
/// Weights in groups have one chain per group. docs/numerics.md defines formats that round activations.
///
/// A row with a gain computes fma(W x + delta, gain, bias) in place of W x + bias + delta, with 0 where it has no bias.
template <class W, class X = MatrixView<const float>, class Y = MatrixView<float>>
struct LinearArgs {
  X x;                                  ///< [rows, in]; rounded already where it is OperandTiles
  W weight;                             ///< [out, in]
  const float* bias = nullptr;          ///< [out] or null
  const float* const* delta = nullptr;  ///< [rows] of [out] or null: low-rank updates; a null row adds nothing
  Activation activation = Activation::none;
  MatrixView<const float> residual = {};  ///< [rows, out] or null; may be y itself
  Y y;                                    ///< [rows, out]; may not overlap x
  /// [rows] or null: gains and biases of the rows' adapters, on devices that are ChangesProducts. Input gains are not
  /// applied here.
  const ProductChange* changes = nullptr;
};

/// delta[r]: the LoRA updates of row r for this matrix (Hu et al., 2021), in the order of its AdapterSet.
/// - u[i] = scale * (a[i] . x[r]), a product in 16 strips and the tree of sum();
/// - delta[o] = fma(b[o][i], u[i], delta[o]) for i = 0, 1, ..., from 0 on, one chain through all updates of an output.
///
/// deltas[r] points at that row, or is null if row r has no update here.
template <class X>
struct LowRankArgsOf {
  X x;                          ///< [rows, in]
  const AdapterGroups* groups;  ///< groups of these rows
  int layer;
  Site site;
  MatrixView<float> delta;  ///< [rows, out]; rows without update are left as they are
  const float** deltas;     ///< [rows], written whole
};
using LowRankArgs = LowRankArgsOf<MatrixView<const float>>;

/// y[r, i] = activation(x[r, i]) * x[r, n + i]: the gate of an MLP between its two products (Shazeer, 2020).
template <class Y>
struct GateArgsOf {
  MatrixView<const float> x;  ///< [rows, 2 n]: gate, then up
  Activation activation;      ///< of the gate
  Y y;                        ///< [rows, n]; may be the first half of x
};
using GateArgs = GateArgsOf<MatrixView<float>>;

/// How a mixture weighs the experts of a row.
enum class RouterKind : std::uint8_t {
  softmax,             ///< softmax over all experts
  normalised,          ///< softmax over all experts, then divided by the sum of the chosen ones
  chosen_softmax,      ///< softmax over the chosen experts
  sigmoid,             ///< the sigmoid of each logit
  normalised_sigmoid,  ///< the same, divided by the sum of the chosen ones and MixtureArgs::epsilon
};

/// The gate of an expert: activation(gate) * up; with `limit` > 0 (gpt-oss) it is (u + 1) g / (1 + exp(-steepness g)),
/// where g = min(gate, limit) and u is `up` within +-limit.
struct ExpertGate {
  Activation activation = Activation::silu;
  float limit = 0, steepness = 1;
  friend bool operator==(const ExpertGate&, const ExpertGate&) = default;
};

/// A row's choice of an expert.
struct ExpertChoice {
  int expert;
  float weight;
};

/// Memory of a mixture. A pair is a row and an expert that it chose.
struct ExpertMemory {
  MatrixView<float> x, out;           ///< [rows * chosen, hidden]: pairs, sorted by expert
  MatrixView<float> gate_and_up;      ///< [rows * chosen, 2 inner]
  std::vector<ExpertChoice> choices;  ///< [rows, chosen], each row's in order of experts
  std::vector<int> places;            ///< [rows, chosen]: the pair of each choice
};

/// y[r] += the sum of weight * expert(x[r]) over the `chosen` experts of row r, in order of their ids, from 0 on by
/// fused multiply-adds (Shazeer et al., 2017; Fedus et al., 2022).
///
/// The logits of the router are products in 16 strips and the tree of sum(), in float32 whatever the weight format. The
/// largest are chosen, the lower id among equal ones; with sigmoids or a choice_bias, the largest score + choice_bias.
/// Each expert computes all rows that chose it at once; the bits of a row do not depend on the others.
template <class W>
struct MixtureArgs {
  MatrixView<const float> x;  ///< [rows, hidden]
  const float* router;        ///< [experts, hidden]
  const float* router_bias;   ///< [experts] or null
  std::span<const ExpertParts<W, const float*>> experts;
  const std::byte* table;  ///< what expert_table() made of `experts` on this device, or null
  int chosen;              ///< experts of a row
  RouterKind kind;
  ExpertGate gate;
  ExpertMemory* memory;
  MatrixView<float> y;                 ///< [rows, hidden]; may not be x
  const float* choice_bias = nullptr;  ///< [experts] or null, for the choice alone: no weight has it
  float scale = 1;                     ///< factor of the weights
  float epsilon = 0;                   ///< of normalised_sigmoid; normalised: the least divisor
};

/// x[r] += table[positions[r]], after the embeddings are projected.
struct AddPositionsArgs {
  BatchView batch;
  const float* table;   ///< [positions, hidden]
  MatrixView<float> x;  ///< [rows, hidden]
};

/// Cosines and sines that rotate a step's rows, computed once for all layers and heads. Pair i of row r has the angle
/// position * frequency, rounded to float32. Each result is within half an ulp of float32 and 2^-51 relative. Pairs of
/// frequency 0 are not turned; the others' cosines and sines are then multiplied with `scale`, which rounds again.
struct RotaryAnglesArgs {
  BatchView batch;
  const float* frequencies;         ///< [rows, head_dim / 2], radians a position
  std::ptrdiff_t frequency_stride;  ///< stride between rows; 0: all rows share one
  MatrixView<float> angles;         ///< [rows, head_dim]: cosines of the pairs, then their sines
  float scale = 1;
};

/// Norms of heads, in place: x[r, h] becomes its layer_norm or, without `bias`, its rms_norm, with gain[h].
struct HeadNormArgs {
  MatrixView<float> x;  ///< [rows, heads * head_dim]
  const float* gain;    ///< [heads, head_dim]
  const float* bias;    ///< [heads, head_dim]; null: rms_norm
  float epsilon;
  int heads, head_dim;
};

/// x[r] = fma(scale, y[r], x[r]).
struct AddArgs {
  MatrixView<const float> y;  ///< [rows, n]
  float scale;
  MatrixView<float> x;  ///< [rows, n]
};

/// x[r] = min(max(x[r], -bound), bound), bound > 0. NaN stays.
struct ClampArgs {
  MatrixView<float> x;  ///< [rows, n]
  float bound;
};

/// Rotary positions (Su et al., 2021), in place. A pair is elements i and i + head_dim / 2 of a head: (x, y) becomes (x
/// cos - y sin, y cos + x sin).
struct RotateArgs {
  MatrixView<const float> angles;  ///< [rows, head_dim], of RotaryAnglesArgs
  MatrixView<float> q;             ///< [rows, heads * head_dim]
  MatrixView<float> k;             ///< [rows, kv_heads * head_dim]
  int heads, kv_heads, head_dim;
};

/// Writes the batch's new keys and values of `layer` into the cache, rounded to its element.
template <class V>
struct StoreKvArgs {
  BatchView batch;
  MatrixView<const float> keys;    ///< [rows, kv_heads * head_dim]
  MatrixView<const float> values;  ///< [rows, kv_heads * head_dim]
  V kv;                            ///< the batch's view of the cache
  int layer, kv_heads, head_dim;

  /// The same with another view of the cache.
  template <class To>
  StoreKvArgs<To> with(const To& view) const {
    return {batch, keys, values, view, layer, kv_heads, head_dim};
  }
};

/// out[r, h] = softmax(scale * q[r, h] . k[t] + slope[h] * (t - position(r))) v, over the visible keys t of the row's
/// own sequence. `key_biases` are added to the scores of a family that rounds its biases (Falcon RW). A sink adds
/// exp(sink[h]) to the sum of softmax (Xiao et al., 2023).
///
/// A key is visible if t <= position(r) and, with a window, t > position(r) - window. Head h reads key/value head h /
/// (heads / kv_heads). ops/attention.h says where the hooks of a variant come in.
///
/// A sequence's keys and values are those of its SequenceRows::slot, which is no index into batch.sequences: several of
/// these may have one slot. Tiles before all visible positions may be gone from the cache: no op asks the view for
/// them.
///
/// Out is MatrixView<float>, or OperandTiles, which attention on tensor cores writes for the next product.
template <class V, class Out = MatrixView<float>>
struct AttentionArgs {
  BatchView batch;
  MatrixView<const float> q;  ///< [rows, heads * head_dim]
  V kv;                       ///< the batch's view of the cache
  int layer, heads, kv_heads, head_dim;
  float scale;                         ///< factor of q . k, for instance 1 / sqrt(head_dim)
  Out out;                             ///< [rows, heads * head_dim]
  int window = 0;                      ///< positions that a row sees, its own included; 0: all
  const float* slopes = nullptr;       ///< [heads] or null: ALiBi (Press et al., 2022)
  float soft_cap = 0;                  ///< scores become cap tanh(score / cap) before slopes are added; 0: they stay
  const float* key_biases = nullptr;   ///< [heads, key_bias_stride] or null: a bias for each position of a key
  std::ptrdiff_t key_bias_stride = 0;  ///< positions, a multiple of 64
  const float* sinks = nullptr;        ///< [heads] or null

  /// The same with another view of the cache.
  template <class To>
  AttentionArgs<To, Out> with(const To& view) const {
    return {batch, q,      view,   layer,    heads,      kv_heads,        head_dim, scale,
            out,   window, slopes, soft_cap, key_biases, key_bias_stride, sinks};
  }
};

/// Copies block `from` onto block `to` in every layer, one copy after another.
struct CopyBlocksArgs {
  std::byte* storage;  ///< [layers, blocks, block_bytes]
  int layers;
  BlockLayout layout;
  std::span<const BlockCopy> copies;
};

/// x[i] = x[rows[i]] and q[i] = q[rows[i]] for i < count. `rows` ascends, so each row is read before it is overwritten.
struct GatherRowsArgs {
  const int* rows;  ///< [count]
  int count;
  MatrixView<float> x;  ///< [rows, hidden]
  MatrixView<float> q;  ///< [rows, heads * head_dim]
};

/// logits[i] = W hidden[i]: linear without bias. A separate op, so that formats can fuse picking into the pass.
template <class W>
struct HeadArgs {
  MatrixView<const float> hidden;  ///< [logit_count, hidden]
  W weight;                        ///< [vocab, hidden]
  MatrixView<float> logits;        ///< [logit_count, vocab]
};

/// logits[i] += bias, then cap tanh(logits[i] / cap), as cap (1 - 2 / (1 + exp(2 x / cap))): absolute error cap *
/// 2^-23.
struct FinishLogitsArgs {
  MatrixView<float> logits;  ///< [rows, vocab]
  const float* bias;         ///< [vocab] or null
  float soft_cap;            ///< 0: none
};

/// The counts[i] largest logits of hidden row i, as head computes them; equal logits rank by lower id. A smaller
/// vocabulary gives all of its logits. best[i] is in order of ids, and empty if a logit of the row is not finite. Rows
/// of logits are never materialised: they are picked while the products are in the cache.
template <class W>
struct HeadBestArgs {
  MatrixView<const float> hidden;  ///< [rows, hidden]
  W weight;                        ///< [vocab, hidden]
  int vocab;                       ///< number of tokens, which a panelled weight does not know
  const int* counts;               ///< [rows], logits wanted
  std::vector<TokenLogit>* best;   ///< [rows]
};

inline constexpr int kMostBest = 256;  ///< most logits per row that a device may be asked for

/// Preparation of one row of logits for a draw. Its steps: add `biases`, penalise the tokens that the row has `seen`,
/// and ban the tokens that its mask does not allow (-inf). sample/penalties.h defines each.
struct DrawRow {
  int best = 0;           ///< number of largest logits wanted, banned ones aside; 0: none
  float temperature = 0;  ///< for the wanted sum of weights, exp((logit - largest) / temperature); 0: no sum
  float repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  int first_bias = 0, biases = 0;  ///< its part of HeadDrawArgs::biases: the first one, and how many
  int first_seen = 0, seen = 0;    ///< its part of HeadDrawArgs::seen, likewise
  int mask = -1;                   ///< its row of HeadDrawArgs::masks; -1: all tokens are allowed
  /// also return the sum at temperature 1, for log-probabilities of a row without biases, penalties and mask
  bool log_total = false;
};
/// A token of a row's text, for penalties.
struct SeenToken {
  TokenId id;
  int generated;  ///< times generated; 0: it is in the prompt alone
};

/// The logits of head, prepared as DrawRow says. Returns the best of each row in order of (logit descending, id
/// ascending), and its sum of weights in the order of sample/strips.h. Optional for a device.
///
/// best[i] is empty if a logit of the row is not finite before preparation, or if no token is allowed. Only the whole
/// row tells which.
template <class W>
struct HeadDrawArgs {
  MatrixView<const float> hidden;  ///< [rows, hidden]
  W weight;                        ///< [vocab, hidden]
  int vocab;
  std::span<const DrawRow> draws;      ///< [rows]
  std::span<const TokenLogit> biases;  ///< of all rows; one row's have different tokens
  std::span<const SeenToken> seen;     ///< of all rows; one row's are different
  /// [masks, (vocab + 31) / 32], bit i % 32 of word i / 32 set: token i is allowed
  std::span<const std::uint32_t> masks;
  std::vector<TokenLogit>* best;  ///< [rows]
  double* totals;                 ///< [rows], sums of weights at DrawRow::temperature
  double* log_totals;             ///< [rows], sums at temperature 1 of the rows that want it
};
/// How one row's token is picked. Without a temperature: the largest logit, the lower id among equal ones. With one: a
/// draw among the `best` largest logits, as sample/filters.h and sample/sampler.h define it for such a top_k.
struct PickRow {
  int best = 1;                ///< number of candidates, at most kMostBest
  float temperature = 0;       ///< 0: pick the largest
  float top_p = 1, min_p = 0;  ///< of nucleus and min-p filters; these values filter nothing
  double u = 0;                ///< the random number of the draw, in [0, 1)
};

/// Picks one token per row and leaves it on the device for the next step's kernels (BatchView::picks). A row with a
/// logit that is not finite gets -1. Optional for a device.
template <class W>
struct HeadPickArgs {
  MatrixView<const float> hidden;  ///< [rows, hidden]
  W weight;                        ///< [vocab, hidden]
  int vocab;
  std::span<const PickRow> rows;  ///< [rows]
  TokenId* picks;                 ///< [rows], on the device
  TokenId* for_host = nullptr;    ///< [rows], the same picks for the host; null: not wanted
};
/// Refinement: the op head_pick picks tokens on the device. Steps are launched before the host knows the tokens of the
/// step before (EngineOptions::run_ahead); `embed` reads them with token_of.
template <class D, class W>
concept PicksAhead = FetchesLater<D> && requires(D& device, const HeadPickArgs<W>& args) {
  head_pick(device, args);
};

/// Refinement: the op head_draw prepares rows for a draw. The host receives the best tokens of a row and the sum of its
/// weights, in place of the row.
template <class D, class W>
concept PreparesDraws = requires(D& device, const HeadDrawArgs<W>& args) {
  head_draw(device, args);
};

/// Ops that a model needs from a device, for one weight format, head format, cache view and attention.
template <class D, class W, class H, class V, class A>
concept RunsTransformer = requires(D& device, const EmbedArgs<H>& embedding, const LayerNormArgs& norm,
                                   const LayerNormArgsOf<typename OperandOf<W>::Result>& rounded_norm,
                                   const RmsNormArgsOf<typename OperandOf<W>::Result>& rms,
                                   const LinearArgs<W, typename OperandOf<W>::Input>& matrix,
                                   const GateArgsOf<typename OperandOf<W>::Result>& gated,
                                   const RotaryAnglesArgs& angles, const RotateArgs& turn, const StoreKvArgs<V>& store,
                                   const A& attend, const AttentionArgs<V, typename OperandOf<W>::Result>& heads,
                                   const HeadNormArgs& of_heads, const AddArgs& sum, const GatherRowsArgs& gather,
                                   const CopyBlocksArgs& blocks, const HeadArgs<H>& logits,
                                   const FinishLogitsArgs& finish, const HeadBestArgs<H>& best, const ClampArgs& to) {
  embed(device, embedding);
  layer_norm(device, norm);
  layer_norm(device, rounded_norm);
  rms_norm(device, rms);
  linear(device, matrix);
  gate(device, gated);
  rotary_angles(device, angles);
  rotate(device, turn);
  store_kv(device, store);
  attention(device, attend, heads);
  head_norm(device, of_heads);
  add(device, sum);
  clamp(device, to);
  gather_rows(device, gather);
  copy_blocks(device, blocks);
  head(device, logits);
  finish_logits(device, finish);
  head_best(device, best);
};

/// Refinement: the op low_rank. Engines need it if their requests may use adapters.
template <class D>
concept AddsLowRank = requires(D& device, const LowRankArgs& updates) {
  low_rank(device, updates);
};

/// Refinement: the op mixture. Families with experts need it.
template <class D, class W>
concept MixesExperts = requires(D& device, const MixtureArgs<W>& args) {
  mixture(device, args);
};

/// Refinement: mixture() reads a table of the experts in the device's memory. expert_table() makes it, for
/// MixtureArgs::table, when the weights are loaded.
template <class D, class W>
concept TabulatesExperts = requires(D& device, std::span<const ExpertParts<W, const float*>> experts) {
  { expert_table(device, experts) } -> std::same_as<typename D::Memory>;
};

/// Refinement: the op add_positions. OPT 350M needs it.
template <class D>
concept AddsPositions = requires(D& device, const AddPositionsArgs& args) {
  add_positions(device, args);
};

/// Refinement: linear(device, args, updates) adds a matrix's low-rank updates within its product, with the bits of
/// low_rank and then linear. It may use updates.delta and updates.deltas as scratch memory.
template <class D, class W>
concept FusesLowRank = requires(D& device, const LinearArgs<W>& args, const LowRankArgs& updates) {
  linear(device, args, updates);
};

}  // namespace tenon
