// The ways of computing attention, and what a variant of a user's own may change.
#pragma once
#include "tenon/core/require.h"

namespace tenon {

// Row r, query head h and key position t of one sequence, p being the position of the row. All devices compute, in this
// order and in float32:
//
//   1. s[t] = sum over d of (scale * q[d]) * k[t][d]       scale: ModelConfig::score_scale of the layer
//      where keys have scales: s[t] * key_scale[t]
//   2. s[t] = variant.score(p, t, h, s[t])                  soft caps, biases (ScoresKeys, ScoresTiles)
//   3. s[t] = slope[h] * (t - p) + s[t], one rounding       of models with ALiBi (Press et al., 2022)
//   4. t is seen where t <= p, t > p - window in models with a window, and variant.mask(p, t) (MasksKeys)
//   5. out = sum over seen t of softmax(s)[t] * v[t]
//
// A variant is a struct with one of those hooks, or several (FlexAttention, Dong et al., 2024; FlashInfer, Ye et al.,
// 2025); its contract is AttentionVariant. Positions that are not seen reach no hook but `mask`, and no sum. The hooks
// are compiled once, with the user's flags, and called by the kernels of every instruction set.

/// Online softmax over strides of 64 keys and splits of 256 (Dao et al., 2022): memory linear in the length.
struct FlashAttention final {
  static constexpr bool materialises_scores = false;
};

/// Scores of all rows, heads and keys in memory, then softmax: the baseline that flash attention is measured against.
struct DirectAttention final {
  static constexpr bool materialises_scores = true;
};

/// Flash attention on the tensor cores of an NVIDIA GPU, in float16 over a cache of float16, and else in bfloat16. A
/// numeric class of its own, as only that hardware has its order of sums. An engine on a CPU does not compile with it.
struct FlashMma final {
  static constexpr bool materialises_scores = false;
  static constexpr bool on_tensor_cores = true;
  static constexpr int queries_together = 64;  ///< which share a stride of keys: sixteen to a warp
};

}  // namespace tenon
