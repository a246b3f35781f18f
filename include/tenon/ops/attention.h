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

// Flash attention whose products are of bfloat16, for the tensor cores of an NVIDIA GPU: a numeric class of its own, in the
// order of sums that only that hardware has. A CPU refuses it when an engine is compiled.
struct FlashMma {
  static constexpr bool materialises_scores = false;
  static constexpr bool on_tensor_cores = true;
  static constexpr int queries_together = 16;  // rows of an instruction
};

}  // namespace tenon
