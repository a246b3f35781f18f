// Tuning of the CUDA kernels. One family was measured: Hopper (sm_90a, an H200). Code for other architectures takes the
// same numbers. A number cites its measurement (what, gain), gives the bound that it follows from, or says "not
// measured". No bit depends on any of them.
#pragma once
#include <cstddef>

#include "tenon/core/require.h"

namespace tenon::cuda {

/// Cost of a block of an exact product: cycles a column, on a processor with that block alone and for each of several.
struct ColumnCost {
  float alone = 0, each = 0;

  /// Both costs times a factor.
  constexpr ColumnCost times(float factor) const { return {alone * factor, each * factor}; }
};

/// Numbers of one family. The defaults are Hopper's.
struct CudaTuning {
  /// Block shapes of exact products, panels x half-warps' rows (ops/cuda/linear.cuh). H200, float32:
  /// bench/notes/gpu-kernels.md, "Cycles a column of a block".
  ColumnCost columns_1x1{14, 8}, columns_1x2{27, 13}, columns_2x2{35, 22}, columns_4x4{73, 47}, columns_8x8{156, 127};
  /// Blocks for few rows, with chunks of 256 columns, and of 128 plus `few_row` a row. H200, float32, 3,072 to 768, one
  /// row: 12.3 us with 256, 13.6 with 128, 21.0 by the blocks above.
  ColumnCost few_256{7, 5.5f}, few_128{7.2f, 5}, few_row{0.45f, 0.5f};
  /// Threads that decode what they add: a column of int8 takes this many times one of float32. H200; no other code was
  /// measured.
  static constexpr float decoding = 1.25f;

  /// Cost of tensor-core products in us, fitted to 64 sizes; the chosen tiles took 4 % more than the best on average
  /// (docs/decisions/0023). Copies in KB/us: of one processor, and of all through L2.
  float processor_copy = 58, l2_copy = 7100;
  /// Chain of one chunk of 64 columns by mma.sync: fixed, per 16 tokens, per 8 outputs of a warp; by wgmma: fixed, per
  /// 64 x 64 outputs.
  float mma_chain = 0.031f, mma_tokens = 0.007f, mma_outputs = 0.035f, wgmma_chain = 0.118f, wgmma_area = 0.024f;
  /// Products of one chunk per output of a tile; start of a kernel; epilogue per output.
  float mma_product = 15e-6f, wgmma_product = 29e-6f, mma_start = 2.2f, wgmma_start = 0.95f, finish = 4.2e-5f;
  /// Products of more outputs leave mma.sync at 32 rows: GPT-2's head, 64 rows, takes 30 us by wgmma, 41 by mma.sync.
  int many_outputs = 1024;
  /// Warps that multiply and that fill the ring, and chunks of 64 columns per stage, in products by mma.sync. H200,
  /// 3,072 columns, one row: one filling warp 7.6 us; one for weights and one for tokens 7.0; with stages of two
  /// chunks 6.4.
  static constexpr int product_warps = 8, fill_warps = 2, stage_chunks = 2;
  /// Most stages of a ring: its barriers take shared memory. Not measured.
  static constexpr int ring_stages = 48;
  /// Shared memory of a block's ring: two blocks fit a processor, or one large one.
  int ring_bytes = 110 * 1024, large_ring_bytes = 200 * 1024;

  /// Norms of more rows than this take eight rows a block, where they fit this much shared memory. Fewer rows take a
  /// block each, whose half-warps all sum the row. Not measured.
  int few_normed_rows = 128, norm_scratch_bytes = 100 * 1024;

  /// Threads that fill a processor: splits of attention go side by side up to it. Not measured.
  int processor_threads = 1024;
  /// Jobs a processor from which prompts on tensor cores bring every stride together (ops/cuda/attention_tensor.cuh).
  /// Not measured.
  int prompt_jobs = 3;
  /// Shared memory of a processor for the stages of decoding attention. Not measured.
  int flash_processor_bytes = 220 * 1024;

  /// Outputs of low-rank updates that a block has at least: it makes the products with a again. Not measured.
  int low_rank_outputs = 256;
  /// Rows that read an adapter's factors together. 64 rows of one rank-16 adapter add 125 us to a step, 154 with 8.
  static constexpr int rows_together = 4;

  /// Prompt rows from which kernels are launched as they are added: one takes longer than its launch (2 to 3 us), and
  /// lengths seldom repeat (docs/decisions/0014).
  int prompt_rows = 64;
  /// Bytes up to which a kernel copies to the host: copy engines wait for kernels, and kernels for them. Two copies of
  /// a decoding step took 16 us more (docs/decisions/0014).
  std::size_t kernel_copy_bytes = std::size_t{256} << 10;
};

inline constexpr CudaTuning kHopper{};
/// The value that kernels and launches use. A second measured family is chosen here, by its compute capability.
inline constexpr CudaTuning kCudaTuning = kHopper;

}  // namespace tenon::cuda
