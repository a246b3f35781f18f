// Exact matrix products. Each output is one chain of fused multiply-adds in the order of k, like on the CPU, whatever
// the batch. Threads differ in which outputs they hold, never in how one is summed. On tensor cores: linear_tensor.cuh.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tenon/device/cuda.cuh"
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/panel_work.h"
#include "tenon/ops/cuda/columns.cuh"
#include "tenon/ops/cuda/finish.cuh"
#include "tenon/ops/cuda/lanes.cuh"
#include "tenon/ops/cuda/linear_few.cuh"
#include "tenon/ops/cuda/linear_stages.cuh"
#include "tenon/ops/cuda/linear_tensor.cuh"
#include "tenon/ops/cuda/linear_tiles.cuh"

namespace tenon {
namespace cuda {

/// Columns k + First .. k + First + Count - 1 of a stage in a thread's registers; k is a multiple of 8. First: 0, or 4
/// with four columns.
template <int Panels, int Tokens, int First, int Count>
struct StageColumns {
  float4 x[Count / 4][Tokens];
  float w[Count][Panels];

  /// rows: [Tokens] of x; codes: [Panels]
  template <class Source>
  __device__ __forceinline__ void load(const float* const (&rows)[Tokens], const std::byte* const (&codes)[Panels],
                                       int k) {
#pragma unroll
    for (int t = 0; t < Tokens; ++t) {
#pragma unroll
      for (int i = 0; i < Count; i += 4) x[i / 4][t] = *reinterpret_cast<const float4*>(rows[t] + k + First + i);
    }
#pragma unroll
    for (int i = 0; i < Count; ++i) {
#pragma unroll
      for (int p = 0; p < Panels; ++p) w[i][p] = Source::value(codes[p], k + i / 8 * 8, First + i % 8, lanes::lane());
    }
  }

  /// Adds the first `count` columns to the chains.
  template <class Source, bool Whole = true>
  __device__ __forceinline__ void add(float (&acc)[Panels][Tokens], int count = Count) const {
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      if (!Whole && i >= count) break;
#pragma unroll
      for (int t = 0; t < Tokens; ++t) {
        const float4& four = x[i / 4][t];
        const float xk = Source::activation(i % 4 == 0   ? four.x
                                            : i % 4 == 1 ? four.y
                                            : i % 4 == 2 ? four.z
                                                         : four.w,
                                            First + i % 8);
#pragma unroll
        for (int p = 0; p < Panels; ++p) acc[p][t] = Source::multiply_add(w[i][p], xk, acc[p][t]);
      }
    }
  }
};

/// Adds columns from k on to the chains in pairs of Count, a multiple of 8, while `last` leaves both. Returns the first
/// column left. Half of them are read while the others are added; the warp's barrier keeps the assembler from moving
/// reads next to their use.
template <class Source, int Count, int Panels, int Tokens>
__device__ __forceinline__ int add_in_turns(const float* const (&rows)[Tokens], const std::byte* const (&codes)[Panels],
                                            int k, int last, float (&acc)[Panels][Tokens]) {
  const int end = k + (last - k) / (2 * Count) * (2 * Count);
  if (k == end) return k;
  StageColumns<Panels, Tokens, 0, Count> a, b;
  a.template load<Source>(rows, codes, k);
#pragma unroll 1
  for (; k < end; k += 2 * Count) {
    b.template load<Source>(rows, codes, k + Count);
    __syncwarp();
    a.template add<Source>(acc);
    a.template load<Source>(rows, codes,
                            min(k + 2 * Count, end - 2 * Count));  // the last iteration reads a pair that is not added
    __syncwarp();
    b.template add<Source>(acc);
  }
  return k;
}

/// Adds columns first .. last - 1, first a multiple of 8, to the chains, by whole warps.
template <class Source, int Panels, int Tokens>
__device__ __forceinline__ void add_columns(const float* const (&rows)[Tokens], const std::byte* const (&codes)[Panels],
                                            int first, int last, float (&acc)[Panels][Tokens]) {
  int k = first;
  if constexpr (Tokens <= 4) k = add_in_turns < Source, Tokens == 1 ? 16 : 8 > (rows, codes, k, last, acc);
#pragma unroll 1
  for (; k + 8 <= last; k += 8) {
    StageColumns<Panels, Tokens, 0, 4> low;
    StageColumns<Panels, Tokens, 4, 4> high;
    low.template load<Source>(rows, codes, k);
    low.template add<Source>(acc);
    high.template load<Source>(rows, codes, k);
    high.template add<Source>(acc);
  }
  if (k == last) return;
  StageColumns<Panels, Tokens, 0, 4> low;
  StageColumns<Panels, Tokens, 4, 4> high;
  low.template load<Source>(rows, codes, k);
  low.template add<Source, false>(acc, last - k);
  if (last - k <= 4) return;
  high.template load<Source>(rows, codes, k);
  high.template add<Source, false>(acc, last - k - 4);
}

/// Adds a stage of n columns. A group, of a row or of its columns, is a chain of its own, whose sum goes to `total`.
/// rows: of x, in the stage; strips: sums of x, sixteen per half-warp.
template <class Tile, class Source, int Panels, int Tokens>
__device__ __forceinline__ void add_stage(const Source& weight, const Tile& tile, std::byte* stage,
                                          const float* const (&rows)[Tokens], int n, float (&acc)[Panels][Tokens],
                                          float (&total)[Panels][Tokens], float (&strips)[Tokens]) {
  const int lane = lanes::lane(), group = weight.group() > 0 ? weight.group() : Tile::kColumns;
  const std::byte* codes[Panels];
#pragma unroll
  for (int p = 0; p < Panels; ++p) codes[p] = tile.codes(stage, p);
  for (int first = 0; first < n; first += group) {
    const int last = min(first + group, n);
    if (Source::kSums != 0 && weight.needs_sums()) {
#pragma unroll
      for (int t = 0; t < Tokens; ++t) {
        if (weight.group() > 0) strips[t] = 0.0f;
        for (int k = first; k < last; k += 16)
          strips[t] = __fadd_rn(strips[t], k + lane < last ? rows[t][k + lane] : 0.0f);
      }
    }
    if (weight.group() > 0) {
#pragma unroll
      for (int t = 0; t < Tokens; ++t) {
        const float sum = __fmul_rn(Source::kSums, lanes::sum({strips[t]}));
#pragma unroll
        for (int p = 0; p < Panels; ++p) acc[p][t] = sum;
      }
    }
    add_columns<Source>(rows, codes, first, last, acc);
    if (weight.group() > 0) {
#pragma unroll
      for (int p = 0; p < Panels; ++p) {
        const float scale = static_cast<float>(tile.scales(stage, p)[first / group * kPanelRows + lane]);
#pragma unroll
        for (int t = 0; t < Tokens; ++t) total[p][t] = __fmaf_rn(acc[p][t], scale, total[p][t]);
      }
    }
  }
}

/// The outputs of a block: rows block_token .. block_token + block_tokens - 1 of x, and panels blockIdx.x * Panels and
/// following. Half-warp g has Tokens tokens g, g + 8, ... and Panels panels of sixteen outputs. A thread has one output
/// of each. whole: copies_whole(x).
template <int Panels, int Tokens, class Source>
__device__ __forceinline__ void linear_block(const cpu::PanelJob& job, const MatrixView<const float>& x,
                                             const Source& weight, bool whole, int block_token, int block_tokens) {
  using Tile = LinearTile<Panels, Tokens, Source>;
  using Stages = LinearStages<Tile, Source>;
  const Tile tile(x.rows);
  const int lane = lanes::lane(), first_panel = static_cast<int>(blockIdx.x) * Panels,
            own = static_cast<int>(threadIdx.x) / 16;
  Stages stages(tile, weight, x, first_panel, block_token, block_tokens, whole);

  float acc[Panels][Tokens], total[Panels][Tokens], strips[Tokens];
#pragma unroll
  for (int t = 0; t < Tokens; ++t) {
    strips[t] = 0.0f;
#pragma unroll
    for (int p = 0; p < Panels; ++p) acc[p][t] = total[p][t] = 0.0f;
  }
  for (int chunk = 0; chunk < stages.chunks(); ++chunk) {
    std::byte* stage = stages.next();
    if (own / 2 * 2 >= block_tokens) continue;  // neither half of the warp has a token
    const float* rows[Tokens];
#pragma unroll
    for (int t = 0; t < Tokens; ++t) rows[t] = tile.x(stage, min(own + t * lanes::kRowsABlock, block_tokens - 1));
    add_stage(weight, tile, stage, rows, stages.columns_of(chunk), acc, total, strips);
  }
  if (own >= block_tokens) return;
  float sums[Tokens];  // of x, for the zero points of a row
#pragma unroll
  for (int t = 0; t < Tokens; ++t) {
    const bool wanted = Source::kSums != 0 && weight.group() == 0 && weight.needs_sums();
    sums[t] = wanted ? __fmul_rn(Source::kSums, lanes::sum({strips[t]})) : 0.0f;
  }
#pragma unroll
  for (int p = 0; p < Panels; ++p) {
    float values[Tokens];
#pragma unroll
    for (int t = 0; t < Tokens; ++t) {
      values[t] = weight.scaled(weight.group() > 0 ? total[p][t] : acc[p][t], min(first_panel + p, weight.panels() - 1),
                                lane, sums[t]);
    }
    finish_outputs(job, block_token + own, lanes::kRowsABlock, block_token + block_tokens,
                   (first_panel + p) * 16 + lane, values);
  }
}

template <int Panels, int Tokens, class Source>
__global__ void __launch_bounds__(lanes::kThreads)
    linear_kernel(cpu::PanelJob job, MatrixView<const float> x, Source weight, bool whole) {
  constexpr int kTokens = LinearTile<Panels, Tokens, Source>::kTokens;
  const int block_token = static_cast<int>(blockIdx.y) * kTokens;
  linear_block<Panels, Tokens>(job, x, weight, whole, block_token, min(kTokens, x.rows - block_token));
}

template <int Panels, int Tokens, class Source>
void launch_linear(Cuda& device, const cpu::PanelJob& job, MatrixView<const float> x, const Source& weight) {
  const LinearTile<Panels, Tokens, Source> tile(x.rows);
  const dim3 grid(static_cast<unsigned>((weight.panels() + Panels - 1) / Panels),
                  static_cast<unsigned>((x.rows + tile.kTokens - 1) / tile.kTokens));
  device.launch_early("linear", linear_kernel<Panels, Tokens, Source>, grid, lanes::kThreads,
                      static_cast<std::size_t>(tile.bytes()), job, x, weight, copies_whole(x));
}

/// Throws Error (unsupported) if kernels cannot copy the weights.
template <class Source>
void check_copied(const Source& weight) {
  if (!weight.can_be_copied()) {
    throw Error(
        Error::Kind::unsupported, "weights",
        "a GPU copies panels by sixteen bytes: their codes, and scales of groups, must begin at a multiple of sixteen");
  }
}

/// Takes the block shape with the least cycles a column. A processor that has one block waits for its own chains and
/// copies; several blocks share the processor.
template <class Source>
void linear_columns(Cuda& device, const cpu::PanelJob& job, MatrixView<const float> x, const Source& weight) {
  check_copied(weight);
  using Launch = void (*)(Cuda&, const cpu::PanelJob&, MatrixView<const float>, const Source&);
  Launch best = nullptr;
  float least = 0;
  const auto blocks_of = [&](int panels, int rows) {
    return (weight.panels() + panels - 1) / panels * ((x.rows + rows - 1) / rows);
  };
  const CudaTuning& tuning = kCudaTuning;
  const auto offer = [&](Launch launch, int blocks, ColumnCost cost) {
    const float cycles =
        std::max(cost.alone, static_cast<float>((blocks + device.processors() - 1) / device.processors()) * cost.each);
    if (!best || cycles < least) best = launch, least = cycles;
  };
  const auto offer_shape = [&]<int Panels, int Tokens>(ColumnCost cost) {
    offer(launch_linear<Panels, Tokens, Source>, blocks_of(Panels, Tokens * lanes::kRowsABlock),
          cost.times(Source::kDecoding));
  };
  if constexpr (Source::kLeastGroup == 0) {
    const int blocks = blocks_of(1, lanes::kRowsABlock);
    const auto rows = static_cast<float>(std::min(x.rows, lanes::kRowsABlock));
    constexpr int kBesides = 1024;  // bytes of a block: its barriers, and CUDA's own use
    const int fit = device.blocks_that_fit(FewTile<Source, 256>(x.rows).bytes() + kBesides);
    const ColumnCost few_128{tuning.few_128.alone + tuning.few_row.alone * rows,
                             tuning.few_128.each + tuning.few_row.each * rows};
    if (x.rows <= 2 && blocks <= fit * device.processors()) offer(launch_few<Source, 256>, blocks, tuning.few_256);
    if (x.rows <= 2 * lanes::kRowsABlock) offer(launch_few<Source, 128>, blocks, few_128);
  }
  offer_shape.template operator()<1, 1>(tuning.columns_1x1);
  offer_shape.template operator()<1, 2>(tuning.columns_1x2);
  offer_shape.template operator()<2, 2>(tuning.columns_2x2);
  offer_shape.template operator()<4, 4>(tuning.columns_4x4);
  // Chains of groups need two sums per output, more than a thread has registers for.
  if constexpr (Source::kLeastGroup == 0) offer_shape.template operator()<8, 8>(tuning.columns_8x8);
  best(device, job, x, weight);
}

/// Refuses, at compile time, a layout that has kernels elsewhere but none here, instead of reading it slowly.
template <class W>
concept HasProduct = HasColumns<W> || HasTiles<W> || HasOperandTiles<W>;

}  // namespace cuda

/// The block shape follows the numbers of rows, outputs and processors; no bit does.
template <class W>
requires cuda::HasProduct<W>
void linear(Cuda& device, const LinearArgs<W>& args) {
  if (args.x.rows == 0) return;
  if constexpr (cuda::HasOperandTiles<W>)
    cuda::multiply_rounded(device, args);
  else if constexpr (cuda::HasTiles<W>)
    cuda::linear_tensor(device, cpu::panel_job(args), args.x, args.weight.panels());
  else
    cuda::linear_columns(device, cpu::panel_job(args), args.x, cuda::columns_of(args.weight, args.y.cols));
}

}  // namespace tenon
