// The ways of computing attention, as tags that pick a device's op.
#pragma once
#include "tenon/core/require.h"

namespace tenon {

// Online softmax over strides of 64 keys and splits of 256 (Dao et al., 2022): memory linear in the length.
struct FlashAttention {
  static constexpr bool materialises_scores = false;
};

// Scores of all rows, heads and keys in memory, then softmax: the baseline that flash attention is measured against.
struct DirectAttention {
  static constexpr bool materialises_scores = true;
};

// Flash attention on the tensor cores of an NVIDIA GPU, in float16 over a cache of float16, and else in bfloat16. A
// numeric class of its own, as only that hardware has its order of sums. An engine on a CPU does not compile with it.
struct FlashMma {
  static constexpr bool materialises_scores = false;
  static constexpr bool on_tensor_cores = true;
  static constexpr int queries_together = 64;  // which share a stride of keys: sixteen to a warp
};

}  // namespace tenon
