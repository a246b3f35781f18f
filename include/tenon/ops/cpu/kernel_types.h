// Arguments and tables of the CPU kernels.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tenon/core/concepts.h"
#include "tenon/core/low_rank.h"
#include "tenon/core/panels.h"
#include "tenon/device/cpu_tuning.h"
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/prefetch_pacer.h"

namespace tenon::cpu {

/// Positions of one split of flash attention. Splits lie at fixed positions, whatever the block size or the batch.
inline constexpr int kSplitPositions = 256;

/// Most tiles of one key/value head that an attention kernel holds at once: those of a split, and of the next stride of
/// 64 positions, to prefetch.
inline constexpr int kHeldTiles = kSplitPositions / kTilePositions + 4;

/// Most queries of one attention job.
inline constexpr int kAttentionQueries = 64;

/// Factors for activations of four-bit codes. Column 8 w + i of the codes is read in place, 16^min(i, 6) times too
/// large.
alignas(64) inline constexpr float kNibbleUnits[16] = {0x1p+0f,  0x1p-4f,  0x1p-8f,  0x1p-12f, 0x1p-16f, 0x1p-20f,
                                                       0x1p-24f, 0x1p-24f, 0x1p+0f,  0x1p-4f,  0x1p-8f,  0x1p-12f,
                                                       0x1p-16f, 0x1p-20f, 0x1p-24f, 0x1p-24f};

/// load() of a code returns its value divided by this.
template <class Code>
inline constexpr float kCodeUnit = 1.0f;
template <>
inline constexpr float kCodeUnit<float8<E4M3>> = 256.0f;

/// Smallest tile height (tokens) when a step of more than `others` tokens is split evenly into tiles of at most `most`.
/// The first such step has n tiles. The first step of n + 1 tiles has one token more than n tiles hold. With more tiles
/// none is smaller.
constexpr int least_tokens(int others, int most) {
  const int n = others / most + 1, fewest = (others + 1) / n, fewest_of_next = (most * n + 1) / (n + 1);
  return fewest < fewest_of_next ? fewest : fewest_of_next;
}
static_assert(least_tokens(4, 4) == 2 && least_tokens(6, 8) == 4 && least_tokens(6, 12) == 6 &&
              least_tokens(12, 8) == 5);

/// Splits the rows of a step into tiles of nearly equal size, at most `most` rows each.
struct TokenTiles {
  int tokens, most;
  int count() const { return (tokens + most - 1) / most; }
  int begin(int tile) const { return static_cast<int>(static_cast<std::int64_t>(tokens) * tile / count()); }
};

/// A product over panels: activations as tiles, the epilogue's operands, outputs.
struct PanelJob {
  int tokens, inputs, outputs;
  const float* x;  ///< tiles of [inputs, tokens of the tile], one after another
  /// Tiles of [groups, tokens of the tile]: sums of x over the columns that share a scale, times the layout's factor.
  /// Null where the layout needs none.
  const float* sums;
  const float* bias;          ///< [outputs] or null
  const float* const* delta;  ///< [tokens] of [outputs from delta_begin on] or null
  Activation activation;
  const float* residual;  ///< [tokens, residual_stride] or null
  std::ptrdiff_t residual_stride;
  float* y;  ///< [tokens, y_stride]
  std::ptrdiff_t y_stride;
  int groups = 0;                          ///< number of groups in `sums`
  int piece_panels = 4;                    ///< panels that a thread takes at once: whole tiles
  float* widened = nullptr;                ///< [widened_floats], this thread's own
  int delta_begin = 0;                     ///< first output of `delta`
  PrefetchPacer* pacer = nullptr;          ///< this thread's own, or null
  const ProductChange* changes = nullptr;  ///< [tokens] or null: LinearArgs::changes

  /// Paces the prefetch over the lines that a kernel passes, which takes `each` panels at once by `tiles` tiles of
  /// tokens.
  void pace_prefetch(int each, int panels, int tiles, std::ptrdiff_t lines) const {
    if (pacer) pacer->spread(std::ptrdiff_t{(panels + each - 1) / each} * tiles * lines);
  }
};

/// Queries that attend together: consecutive rows of one sequence, and heads that share one key/value head. E: the
/// element of keys and values.
template <class E>
struct FlashJob {
  using Element = E;
  static constexpr bool has_hooks = false;
  const float* q;  ///< [rows, q_stride], of which heads * head_dim each
  std::ptrdiff_t q_stride;
  int rows, heads;      ///< on a CPU at most kAttentionQueries queries
  int first_position;   ///< position of the first row
  int window;           ///< positions that a row sees, its own included; 0: all
  const float* slopes;  ///< [heads] or null
  int head_dim, value_stride;
  float scale;
  const void* view;  ///< the cache view
  void (*tiles)(const void* view, int layer, int sequence, int head, int first, int count, KvTile<const E>* out);
  int layer, sequence, head;  ///< key/value head
  float* out;                 ///< [rows, out_stride], of which heads * head_dim each
  std::ptrdiff_t out_stride;
  float soft_cap = 0;                  ///< of scores; 0: none
  const float* key_biases = nullptr;   ///< [heads, key_bias_stride] or null
  std::ptrdiff_t key_bias_stride = 0;  ///< a multiple of 64
  const float* sinks = nullptr;        ///< [heads] or null
};

/// The hooks of an attention variant. Kernels do not know the variant's type, so the library compiles them once.
struct VariantHooks {
  const void* variant;
  /// Applies the hooks to the scores of a row at position `row`, in the stride of 64 positions from `first` on. Offsets
  /// begin..end-1 are visible so far. A hidden position gets -infinity. Bit t of the result: first + t is still
  /// visible.
  std::uint64_t (*apply)(const void* variant, int row, int first, int head, int begin, int end, float* scores);
};

/// A FlashJob with hooks.
template <class E>
struct VariantJob : FlashJob<E> {
  static constexpr bool has_hooks = true;
  VariantHooks hooks;
  int first_head;  ///< query head of its first query
};

/// Floats of scratch for flash_rows, or for direct_row with one query: weights of a stride for the queries that share
/// it (at most 4), then each query, its part and its total.
inline constexpr int kSharedWeights = 4 * 64;
inline std::size_t attention_scratch(int queries, int head_dim) {
  return kSharedWeights + 3 * static_cast<std::size_t>(queries) * (static_cast<std::size_t>(head_dim) + kTilePositions);
}

/// Kernels that depend on no format. Rows have n elements; results may overwrite the first operand.
struct Kernels {
  void (*layer_norm_row)(const float* x, const float* gain, const float* bias, int n, float epsilon, float* y);
  void (*rms_norm_row)(const float* x, const float* gain, int n, float epsilon, float* y);
  void (*add_row)(const float* y, float scale, int n, float* x);  ///< x[i] = fma(scale, y[i], x[i])
  void (*activate_row)(float* x, int n, Activation);
  void (*gate_row)(const float* gate, const float* up, int n, Activation, float* y);
  void (*clamped_gate_row)(const float* gate, const float* up, int n, float limit, float steepness, float* y);
  /// y[i] = x . rows[i]; rows: [count, n]
  void (*products_row)(const float* x, const float* rows, int n, int count, float* y);
  void (*finish_row)(const float* bias, float cap, int n, float* x);  ///< FinishLogitsArgs
  void (*exp_row)(const float* x, int n, float* y);
  /// The largest, or NaN if one is not finite.
  float (*finite_max)(const float* x, int n);
  void (*rotary_angles_row)(int position, const float* frequencies, int half, float* angles);
  void (*rotate_row)(const float* angles, int heads, int half, float* x);
  /// Transposes rows [count, stride] of four-byte units into out [units, count]; the first `units` of each row are
  /// valid.
  void (*interleave)(const void* rows, std::ptrdiff_t stride, int units, int count, void* out);
};

/// One table per weight layout and one per key/value element, so that a program compiles only the tables that it uses.
template <class Layout>
struct PanelKernels {
  /// Most tokens of a tile in a step of this many.
  int (*tile_tokens)(int tokens);
  /// Panels that a thread takes at once in such a step.
  int (*piece_panels)(int tokens);
  /// Interleaves the columns of a tile's tokens, times kNibbleUnits for nibbles. out: [inputs, tokens]
  void (*pack_columns)(MatrixView<const float> x, bool nibbles, float* out);
  /// Multiplies the weight's panels first..last-1, whose outputs begin at first_output.
  void (*multiply)(const PanelJob&, const Layout& weight, int first, int last, int first_output);
  /// out[g * stride] = factor * the sum of x over group g.
  void (*sum_groups)(const float* x, int n, int group, float factor, float* out, std::ptrdiff_t stride);
  /// Floats for widened weights in such a step; 0: none.
  std::ptrdiff_t (*widened_floats)(int tokens, int inputs);
};

template <class E, class Job = FlashJob<E>>
struct AttentionKernels {
  /// Online softmax of all queries of a job. scratch: [attention_scratch()]
  void (*flash_rows)(const Job&, float* scratch);
  /// Softmax of a job's only query with all scores. scores: [64 per stride that it sees]; scratch:
  /// [attention_scratch(1, ..)]
  void (*direct_row)(const Job&, float* scores, float* scratch);
};

/// One update of some rows of a step that have it in common: u = scale * A x of them, then delta += B u.
struct LowRankTerm {
  LowRank update;
  const int* rows;   ///< [tokens], of the step
  std::ptrdiff_t u;  ///< offset of its u, [tokens, rank], among those of its job, or of all
  int tokens;
  bool fresh;  ///< no earlier update of these rows shares an output
  bool again;  ///< the previous term has the same update
};

/// Whether the update has one of the outputs begin..end-1.
inline bool meets(const LowRank& u, int begin, int end) {
  return u.first_output < end && u.first_output + u.outputs > begin;
}

/// Cache lines of b that outputs first..last-1 of the matrix read. Empty: at == end.
inline PrefetchPacer::Lines lines_of_b(const LowRank& u, int first, int last) {
  if (!meets(u, first, last)) return {};
  const int begin = std::max(first - u.first_output, 0) / kFactorBlock * kFactorBlock;
  const int end = std::min((last - u.first_output + kFactorBlock - 1) / kFactorBlock * kFactorBlock, u.outputs);
  const auto b = reinterpret_cast<std::uintptr_t>(u.b);
  const std::uintptr_t bytes = static_cast<std::uintptr_t>(u.rank) * bytes_of(u.type);
  return PrefetchPacer::Lines::of(b + static_cast<std::uintptr_t>(begin) * bytes,
                                  b + static_cast<std::uintptr_t>(end) * bytes);
}

/// Outputs of a matrix that terms add to.
struct LowRankOutputs {
  MatrixView<float> delta;  ///< [rows of the step, last - first]
  int first, last;
  bool prefetch_next_block = false;  ///< a single row prefetches the blocks of b after those that it reads
  /// Each term from this one on prefetches b of the next term if that is another's; Null: none does
  const LowRankTerm* prefetch_from = nullptr;
};

/// Kernels of one type of factors.
struct LowRankKernels {
  /// x: of the step; u: of all terms; next: memory read after a; pacer: other prefetches, or null
  void (*shrink)(const LowRankTerm&, MatrixView<const float> x, float* u, const void* next, PrefetchPacer* pacer);
  /// first..last-1: terms with one type of factors
  void (*expand)(const LowRankTerm* first, const LowRankTerm* last, const float* u, const LowRankOutputs&);
};

}  // namespace tenon::cpu
