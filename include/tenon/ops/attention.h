// The ways of computing attention, as tags that pick a device's op.
#pragma once

namespace tenon {

// Online softmax over strides of 64 keys and splits of 256 (Dao et al., 2022): memory linear in the length.
struct FlashAttention {
  static constexpr bool materialises_scores = false;
};

// Scores of all rows, heads and keys in memory, then softmax: the baseline that flash attention is measured against.
struct DirectAttention {
  static constexpr bool materialises_scores = true;
};

}  // namespace tenon
