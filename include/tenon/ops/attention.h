// The attention algorithms as tags, and the formula with the hooks of a user's own variant.
#pragma once
#include <array>

#include "tenon/core/numeric_class.h"
#include "tenon/core/require.h"

namespace tenon {

// For row r at position p, query head h and key position t of the same sequence, all devices compute in float32 and in
// this order:
//
//   1. s[t] = sum over d of (scale * q[d]) * k[t][d]    scale: ModelConfig::score_scale of the layer
//      s[t] = s[t] * key_scale[t]                       if the element of keys has scales
//   2. s[t] = variant.score(p, t, h, s[t])              soft caps, biases (ScoresKeys, ScoresTiles)
//   3. s[t] = slope[h] * (t - p) + s[t], one rounding   in models with ALiBi (Press et al., 2022)
//   4. t is visible if t <= p, t > p - window (in models with a window), and variant.mask(p, t) (MasksKeys)
//   5. out = sum over visible t of softmax(s)[t] * v[t]
//
// A variant is a struct with one or several of these hooks (Dong et al., 2024: FlexAttention; Ye et al., 2025:
// FlashInfer). Its contract is AttentionVariant. Keys that step 4 hides enter no sum: they may be NaN. `score` is not
// called for them. The compiler compiles the hooks once, with the user's flags; kernels of all instruction sets call
// them.

/// Online softmax over strides of 64 keys and splits of 256 (Dao et al., 2022): memory linear in the length.
struct FlashAttention final {
  static constexpr bool materialises_scores = false;
  static constexpr NumericClass<FlashAttention> numeric_class{"flash"};
};

/// Scores of all rows, heads and keys in memory, then softmax: the baseline that flash attention is measured against.
struct DirectAttention final {
  static constexpr bool materialises_scores = true;
  static constexpr NumericClass<DirectAttention> numeric_class{"direct"};
};

/// One of the two, chosen at run time, over a cache whose element is chosen at run time, too (AnyElementKV).
struct AnyAttention final {
  static constexpr bool materialises_scores = true;  ///< it may
  bool direct = false;                               ///< DirectAttention
  std::array<double, 1> values() const { return {direct ? 1.0 : 0.0}; }
};

/// Flash attention on the tensor cores of an NVIDIA GPU: in float16 over a cache of float16, otherwise in bfloat16. It
/// is a numeric class of its own, because only that hardware has its order of sums. A CPU engine does not compile with
/// it.
struct FlashMma final {
  static constexpr bool materialises_scores = false;
  static constexpr NumericClass<FlashMma> numeric_class{"flash_mma"};
  static constexpr bool on_tensor_cores = true;
  static constexpr int queries_together = 64;  ///< queries that share a stride of keys: sixteen a warp
};

}  // namespace tenon
