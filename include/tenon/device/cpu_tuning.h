// Tuning of the CPU kernels: one value per processor family, chosen once by the processor's identification. A number
// cites its measurement (what, which processor, gain), gives the bound that it follows from, or says "not measured". No
// bit depends on any of them.
//
// Tile shapes are not here. They follow from the registers of an instruction set (ops/cpu/simd/).
#pragma once
#include <cstddef>

#include "tenon/device/cpu.h"

namespace tenon::cpu {

/// How a tile of many tokens widens float8 weights to float32.
enum class Widening {
  in_registers,  ///< each column when it is multiplied
  by_integers,   ///< to float16 in L1, 16 columns ahead, by the integer units (pdep)
  by_vectors,    ///< to float16 in L1, 16 columns ahead, four columns a vector operation
};

/// The defaults hold for every family; kAmdFamily19h and kIntel override what measured otherwise there.
struct CpuTuning {
  /// EPYC 9005, 2 threads, 2304 x 768, E4M3, 8 tokens: 415 GFLOP/s in registers, 251 by integers.
  Widening widening = Widening::in_registers;
  /// One token of 16-bit weights prefetches `near_lines` ahead within its own panels. See kIntel.
  bool prefetches_near_lines = false;
  /// A row that is alone with its adapter prefetches the following blocks of b. See kAmdFamily19h.
  bool prefetches_next_block = false;
  /// Two fused multiply-adds beat vdpbf16ps. See kIntel.
  bool slow_bf16 = false;

  /// Rows of a product that paces prefetches (AVX-512). EPYC 9004, tiles of 7 and more tokens leave memory idle: 8
  /// tokens of int8, 98 GFLOP/s with prefetches of the next panels, 92 without. 256 rows are the most that were
  /// measured.
  int least_prefetch_rows = 7, most_prefetch_rows = 256;
  /// Float32 multiply-adds of a thread per byte that it reads, above which arithmetic bounds a product. Xeon of the
  /// fifth generation, 2 threads: 160 GFLOP/s and 16 GB/s each.
  double multiply_adds_per_byte = 5;
  /// Blocks of 64 outputs in a thread's part, below which LoRA updates are not fused. EPYC 9004, float32, 64 adapters
  /// of rank 16 on c_attn: a first block that nothing prefetched took 45 us of 312 that the adapters added to a layer.
  int least_fused_blocks = 4;
  /// LoRA factors that a thread prefetches for its next block: half of an L2 of 1 MiB, beside panels and activations.
  std::size_t factor_prefetch_bytes = std::size_t{512} << 10;
  /// Up to this many lines (one adapter, say) are prefetched at once instead of paced: the first tiles cover them. Not
  /// measured.
  std::size_t immediate_prefetch_lines = 256;
  /// Keys and values that a thread prefetches per product: more than L2, evicted lines are still in L3. EPYC 9004,
  /// E4M3, 8 sequences, attention per step: 317 us with 2 MiB, 386 with 1 MiB, 647 with 512 KiB; 8 MiB gain no more.
  std::size_t kv_prefetch_bytes = std::size_t{2} << 20;
  /// Widened panels that the tiles of a step share through L2: 3 panels of 3,072 columns, which leave room for
  /// activations in an L2 of 1 MiB. EPYC 9004, 64 rows of GPT-2 124M: a step is 3 (int4) to 7 % (E4M3) faster.
  std::size_t widened_bytes = std::size_t{576} << 10;

  /// Rows that share one read of an adapter's factors. Xeon, 64 rows of one adapter of rank 16, 768 to 2304: 110 us
  /// with 16, 127 with 8, 106 with 32, which leaves threads less to share.
  int low_rank_rows = 16;
  /// Multiply-adds of LoRA updates below which one thread makes all. Xeon, a row of rank 8, 768 to 768: 7 us on one
  /// thread, 8 us on two.
  double single_thread_low_rank_work = 16e3;

  /// Most exact panels that a search among top-k candidates reads for one row. The limit is the larger of
  /// `least_exact_panels` and the matrix's number of panels / `exact_panel_share`. EPYC 9004, 2 cores, 50,257 x 768 of
  /// float32: a panel takes 3 to 6 us for one row, 1.6 to 1.9 among many; a whole pass takes 3.2 ms for one row, 0.35
  /// ms a row among many.
  int least_exact_panels = 32, exact_panel_share = 16;
  /// Panels that a search reads, beside one for each wanted logit, before it estimates whether it would exceed that
  /// limit. Not measured.
  int exact_panels_to_judge = 8;

  /// Same on every family: kernels use it at compile time. Xeon of the fifth generation: 8 to 24 do equally well.
  static constexpr int near_lines = 16;
  /// Lines that products of integers and of bfloat16 pairs prefetch, over all panels of a tile. EPYC 9004, 2304 x 768,
  /// int8: 12 tokens, 2 panels 0.88 of the peak, 0.60 without; 6 tokens, 4 panels 0.69, 0.46 without.
  static constexpr int dot_prefetch_lines = 128;
  /// Most hidden rows whose top-k logits are found in one pass over the head. Each may have a residual row
  /// (QuantisedRows). A thread then needs 2 * 128 rows of 64 logits, 64 KiB. Not measured.
  static constexpr int top_k_rows = 128;
};

/// Any processor that has no entry of its own, such as AMD's Zen 5.
inline constexpr CpuTuning kOtherCpu{};

/// AMD's family 19h: Zen 3 and Zen 4. Zen 4 takes 512 bits in two passes, which leaves its integer units idle.
inline constexpr CpuTuning kAmdFamily19h{
    // EPYC 9004, 2304 x 768, E4M3, 8 tokens: 98 GFLOP/s, 88 in registers.
    .widening = Widening::by_integers,
    // EPYC 9004, 64 rows of as many adapters of rank 16, 768 to 2304: 416 us, 452 without. EPYC 9005: no gain.
    .prefetches_next_block = true};

/// Intel. The ports that multiply also convert; a conversion from memory takes one of them, from a register both.
inline constexpr CpuTuning kIntel{
    // Xeon of the fifth generation, 2 threads, 2304 x 768, E4M3, 8 tokens: 0.60 of the FMA peak, 0.53 in registers.
    .widening = Widening::by_vectors,
    // Xeon of the fifth generation, bfloat16, a step of one sequence: 0.89 of the bandwidth, 0.77 without.
    .prefetches_near_lines = true,
    // Xeon of the fifth generation: 455 GOP/s by fused multiply-adds, 245 by vdpbf16ps.
    .slow_bf16 = true};

/// The value of the processor that this process runs on.
inline const CpuTuning& cpu_tuning() {
  static const CpuTuning& chosen = is_amd_family_19h() ? kAmdFamily19h : is_intel() ? kIntel : kOtherCpu;
  return chosen;
}

}  // namespace tenon::cpu
