// The arguments of every op, and what each op computes: the one place where that is written down. A device implements
// an op by a function of the same name, overloaded on the device; ops/reference.h is the naive double-precision oracle.
//
// The order of summation is part of each op's meaning (docs/numerics.md): an output element depends on its own row and
// on the sizes of the model alone, never on how many rows, threads or neighbours there are.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tenon/core/batch.h"
#include "tenon/core/concepts.h"
#include "tenon/core/operand_tiles.h"
#include "tenon/core/views.h"

namespace tenon {

enum class Activation : std::uint8_t {
  none,
  gelu_new,  // tanh form, Hendrycks and Gimpel 2016: x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3)
  gelu,      // x / 2 (1 + erf(x / sqrt 2))
  relu,      // max(x, 0)
  silu,      // x / (1 + exp(-x)), Elfwing et al. 2017; also named swish
};

// x[r] = table[token_of(batch, r)] + positions_table[positions[r]]; the table may be any weight format (a tied head's,
// say).
template <class W>
struct EmbedArgs {
  BatchView batch;
  W table;                      // [vocab, hidden]
  const float* position_table;  // [positions, hidden], null where positions are not learned
  MatrixView<float> x;          // [rows, hidden]
};

// Some ops may round what they compute for the product that reads it: Y is MatrixView<float>, or OperandTiles<E>, which
// may be nothing else besides.

// y = (x - mean) / sqrt(variance + epsilon) * gain + bias, per row, sums in 16 strips (Ba et al., 2016).
template <class Y>
struct LayerNormArgsOf {
  MatrixView<const float> x;  // [rows, hidden]
  const float* gain;          // [hidden]
  const float* bias;          // [hidden]
  float epsilon;
  Y y;  // [rows, hidden]; may be x
};
using LayerNormArgs = LayerNormArgsOf<MatrixView<float>>;

// y = x / sqrt(mean of x^2 + epsilon) * gain, per row, the sum in 16 strips (Zhang and Sennrich, 2019).
template <class Y>
struct RmsNormArgsOf {
  MatrixView<const float> x;  // [rows, hidden]
  const float* gain;          // [hidden]
  float epsilon;
  Y y;  // [rows, hidden]; may be x
};
using RmsNormArgs = RmsNormArgsOf<MatrixView<float>>;

// y = activation(W x + bias + delta) + residual. W x is one chain of fused multiply-adds over k = 0, 1, 2, ...; of
// weights in groups one a group, and of formats that round activations what docs/numerics.md says.
template <class W, class X = MatrixView<const float>, class Y = MatrixView<float>>
struct LinearArgs {
  X x;                                  // [rows, in]; rounded already where it is OperandTiles
  W weight;                             // [out, in]
  const float* bias = nullptr;          // [out] or null
  const float* const* delta = nullptr;  // [rows] of [out] or null: low-rank updates; a null row adds nothing
  Activation activation = Activation::none;
  MatrixView<const float> residual = {};  // [rows, out] or null; may be y itself
  Y y;                                    // [rows, out]; may not overlap x
};

// delta[r] = the updates of row r for this matrix (Hu et al., 2021), in the order of its AdapterSet:
//   u[i] = scale * (a[i] . x[r]), the product in 16 strips and the tree of sum(); delta[o] = fma(b[o][i], u[i],
//   delta[o]), i = 0, 1, ...
// from 0 on, one chain through all updates of an output. deltas[r] is that row, or null where row r has no update here.
template <class X>
struct LowRankArgsOf {
  X x;                          // [rows, in]
  const AdapterGroups* groups;  // of these rows
  int layer;
  Site site;
  MatrixView<float> delta;  // [rows, out]; rows without update are left as they are
  const float** deltas;     // [rows], written whole
};
using LowRankArgs = LowRankArgsOf<MatrixView<const float>>;

// y[r, i] = activation(x[r, i]) * x[r, n + i]: a gated MLP between its two products (Shazeer, 2020).
template <class Y>
struct GateArgsOf {
  MatrixView<const float> x;  // [rows, 2 n]: gate, then up
  Activation activation;
  Y y;  // [rows, n]; may be the first half of x
};
using GateArgs = GateArgsOf<MatrixView<float>>;

// Cosines and sines by which a step's rows are turned, once for all layers and heads: for pair i of row r of
// angle = position * frequency, rounded to float32. Both are within half an ulp of float32 and a little.
struct RotaryAnglesArgs {
  BatchView batch;
  const float* frequencies;         // [rows, head_dim / 2], radians a position
  std::ptrdiff_t frequency_stride;  // from row to row; 0: all rows have the same
  MatrixView<float> angles;         // [rows, head_dim]: cosines of the pairs, then their sines
};

// Rotary positions (Su et al., 2021) in place, pairs being elements i and i + head_dim / 2 of a head:
// (x, y) becomes (x cos - y sin, y cos + x sin).
struct RotateArgs {
  MatrixView<const float> angles;  // [rows, head_dim], of RotaryAnglesArgs
  MatrixView<float> q;             // [rows, heads * head_dim]
  MatrixView<float> k;             // [rows, kv_heads * head_dim]
  int heads, kv_heads, head_dim;
};

// Writes the batch's new keys and values where attention will read them.
template <class V>
struct StoreKvArgs {
  BatchView batch;
  MatrixView<const float> keys;    // [rows, kv_heads * head_dim]
  MatrixView<const float> values;  // [rows, kv_heads * head_dim]
  V kv;
  int layer, kv_heads, head_dim;
};

// out[r, h] = softmax(scale * q[r, h] . k[t] + slope[h] * (t - position(r))) v, over the keys t of the row's own
// sequence that it sees: t <= position(r), and t > position(r) - window where there is one. Head h reads key/value head
// h / (heads / kv_heads). Tiles that lie before all that the rows see may be gone: no op asks the view for them.
// Out: MatrixView<float>, or OperandTiles, which attention on tensor cores writes for the product that reads it next.
template <class V, class Out = MatrixView<float>>
struct AttentionArgs {
  BatchView batch;
  MatrixView<const float> q;  // [rows, heads * head_dim]
  V kv;
  int layer, heads, kv_heads, head_dim;
  float scale;
  Out out;                        // [rows, heads * head_dim]
  int window = 0;                 // positions that a row sees, its own included; 0: all
  const float* slopes = nullptr;  // [heads] or null: ALiBi (Press et al., 2022)
};

// Block `to` of every layer becomes what block `from` is, one copy after the other.
struct CopyBlocksArgs {
  std::byte* storage;  // [layers, blocks, block_bytes]
  int layers;
  BlockLayout layout;
  std::span<const BlockCopy> copies;
};

// x[i] = x[rows[i]] and q[i] = q[rows[i]] for i < count; rows ascend, so each is read before it is overwritten.
struct GatherRowsArgs {
  const int* rows;  // [count]
  int count;
  MatrixView<float> x;  // [rows, hidden]
  MatrixView<float> q;  // [rows, heads * head_dim]
};

// logits[i] = W hidden[i]: linear without bias. An op of its own, so that formats can fuse picking into the pass.
template <class W>
struct HeadArgs {
  MatrixView<const float> hidden;  // [logit_count, hidden]
  W weight;                        // [vocab, hidden]
  MatrixView<float> logits;        // [logit_count, vocab]
};

// Of the logits that head would give for hidden row i, the counts[i] largest, of equal ones those of lower ids; all
// that there are where the vocabulary is smaller. best[i] holds them in order of their ids. Where a logit of the row is
// not finite, best[i] is empty. Picked while the products are in the cache: rows of logits never exist.
template <class W>
struct HeadBestArgs {
  MatrixView<const float> hidden;  // [rows, hidden]
  W weight;                        // [vocab, hidden]
  int vocab;
  const int* counts;              // [rows]
  std::vector<TokenLogit>* best;  // [rows]
};

inline constexpr int kMostBest = 256;  // of a row, that a device may be asked for

// A row of logits that a device prepares for a draw. In this order: `biases` are added; the tokens that the row has
// `seen` are penalised; those that its mask does not allow are banned. All as sample/penalties.h does it; a ban is
// -inf.
struct DrawRow {
  int best = 0;           // largest logits that are wanted, of those that are not banned; 0: nothing is
  float temperature = 0;  // of the sum of weights that is wanted, exp((logit - the largest) / temperature); 0: none is
  float repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  int first_bias = 0, biases = 0;
  int first_seen = 0, seen = 0;
  int mask = -1;  // -1: all tokens are allowed
  bool log_total =
      false;  // the sum at temperature 1 is wanted, too: for log-probabilities, so of a row that nothing is done to
};
struct SeenToken {
  TokenId id;
  int generated;  // times; 0: it is in the prompt alone
};

// head's logits of rows, prepared; of each the best, in order of (logit descending, id ascending), and the sum of
// weights in the order of sample/strips.h. An op that a device may lack. best[i] is empty where a logit of the row is
// not finite before anything is done to it, or nothing is allowed: only the whole row says why.
template <class W>
struct HeadDrawArgs {
  MatrixView<const float> hidden;  // [rows, hidden]
  W weight;                        // [vocab, hidden]
  int vocab;
  std::span<const DrawRow> draws;      // [rows]
  std::span<const TokenLogit> biases;  // of all rows; those of one have different tokens
  std::span<const SeenToken> seen;     // of all rows; those of one are different
  std::span<const std::uint32_t>
      masks;                      // [masks, (vocab + 31) / 32], bit i % 32 of word i / 32 set: token i is allowed
  std::vector<TokenLogit>* best;  // [rows]
  double* totals;                 // [rows]
  double* log_totals;             // [rows], of those that want it
};
// How a row's token is picked: of its largest logits (of equal ones those of lower ids) the first, or, where there is a
// temperature, one that is drawn as sample/filters.h and sample/sampler.h do it behind such a top_k.
struct PickRow {
  int best = 1;           // so many, at most kMostBest
  float temperature = 0;  // 0: the first
  float top_p = 1, min_p = 0;
  double u = 0;  // the draw, in [0, 1)
};

// Of each row a token, left where kernels behind it find it (BatchView::picks); -1 where a logit of the row is not
// finite. An op that a device may lack.
template <class W>
struct HeadPickArgs {
  MatrixView<const float> hidden;  // [rows, hidden]
  W weight;                        // [vocab, hidden]
  int vocab;
  std::span<const PickRow> rows;  // [rows]
  TokenId* picks;                 // [rows], on the device
  TokenId* for_host = nullptr;    // [rows], the same again; null: nobody wants it
};
// Whose steps may be launched before the host knows the tokens of the step before: those come by a D::Later, whose
// wait() returns them.
template <class D, class W>
concept PicksAhead = requires(D& device, const HeadPickArgs<W>& args, const TokenId* picks, std::size_t count,
                              typename D::Later& later) {
  head_pick(device, args);
  { device.fetch_later(picks, count, later) } -> std::same_as<void>;
  { later.wait() } -> std::same_as<const std::byte*>;
};

template <class D, class W>
concept PreparesDraws = requires(D& device, const HeadDrawArgs<W>& args) {
  head_draw(device, args);
};

// What a device owes the model, for one weight format, head format, cache view and attention.
template <class D, class W, class H, class V, class A>
concept RunsTransformer = requires(D& device, const EmbedArgs<H>& embedding, const LayerNormArgs& norm,
                                   const LayerNormArgsOf<typename OperandOf<W>::Result>& rounded_norm,
                                   const RmsNormArgsOf<typename OperandOf<W>::Result>& rms,
                                   const LinearArgs<W, typename OperandOf<W>::Input>& matrix,
                                   const GateArgsOf<typename OperandOf<W>::Result>& gated,
                                   const RotaryAnglesArgs& angles, const RotateArgs& turn, const StoreKvArgs<V>& store,
                                   const AttentionArgs<V, typename OperandOf<W>::Result>& heads,
                                   const GatherRowsArgs& gather, const CopyBlocksArgs& blocks,
                                   const HeadArgs<H>& logits, const HeadBestArgs<H>& best) {
  embed(device, embedding);
  layer_norm(device, norm);
  layer_norm(device, rounded_norm);
  rms_norm(device, rms);
  linear(device, matrix);
  gate(device, gated);
  rotary_angles(device, angles);
  rotate(device, turn);
  store_kv(device, store);
  attention(device, A{}, heads);
  gather_rows(device, gather);
  copy_blocks(device, blocks);
  head(device, logits);
  head_best(device, best);
};

// What it owes an engine whose requests run under adapters.
template <class D>
concept AddsLowRank = requires(D& device, const LowRankArgs& updates) {
  low_rank(device, updates);
};

// Which makes a matrix's updates within its product, as linear(device, args, updates): linear of args with what
// low_rank would give for its delta. updates.delta and deltas are room that it may use; what they hold then is not
// said.
template <class D, class W>
concept FusesLowRank = requires(D& device, const LinearArgs<W>& args, const LowRankArgs& updates) {
  linear(device, args, updates);
};

}  // namespace tenon
