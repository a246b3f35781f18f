// Matrix products: each output is one chain of fused multiply-adds over k, as on the CPU, in the order of k, whatever the
// batch. Threads differ in which outputs they hold, never in how one is summed. On tensor cores: linear_tensor.cuh.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tenon/device/cuda.cuh"
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/panel_work.h"
#include "tenon/ops/cuda/columns.cuh"
#include "tenon/ops/cuda/finish.cuh"
#include "tenon/ops/cuda/lanes.cuh"
#include "tenon/ops/cuda/linear_tensor.cuh"

namespace tenon {
namespace cuda {

// Columns that a block holds at once: whole groups of 32, 64 or 128.
inline constexpr int kChunk = 128;

// What a block of 128 threads holds of a chunk. A column's tokens have an odd stride, so that threads that read
// one column of many tokens, and those that write one token's columns, both spread over the banks.
template <int Panels, int Tokens>
struct LinearTile {
  static constexpr int kTokens = Tokens * lanes::kRowsABlock, kStride = kTokens + 1;
  float x[kChunk][kStride];
  float w[kChunk][Panels * 16];
};

// Threads 16 g .. 16 g + 15 have Tokens tokens and Panels panels of sixteen outputs, a thread one output of each.
template <int Panels, int Tokens, class Source>
__global__ void __launch_bounds__(lanes::kThreads) linear_kernel(cpu::PanelJob job, MatrixView<const float> x, Source weight) {
  using Tile = LinearTile<Panels, Tokens>;
  extern __shared__ float shared[];
  Tile& tile = *reinterpret_cast<Tile*>(shared);
  const int thread = static_cast<int>(threadIdx.x), lane = lanes::lane(), first_panel = static_cast<int>(blockIdx.x) * Panels;
  const int block_token = static_cast<int>(blockIdx.y) * Tile::kTokens, block_tokens = min(Tile::kTokens, x.rows - block_token);
  const int own = thread / 16 * Tokens, tokens = min(Tokens, block_tokens - own);  // may be none
  const int cols = Source::kPairs ? (x.cols + 1) / 2 * 2 : x.cols;

  float acc[Panels][Tokens], total[Panels][Tokens], strips[Tokens];
  for (int t = 0; t < Tokens; ++t) {
    strips[t] = 0.0f;
    for (int p = 0; p < Panels; ++p) acc[p][t] = total[p][t] = 0.0f;
  }
  for (int begin = 0; begin < cols; begin += kChunk) {
    const int n = min(kChunk, cols - begin);
    __syncthreads();
    for (int i = thread; i < n * Panels * 16; i += lanes::kThreads) {
      const int k = i / (Panels * 16), output = i % (Panels * 16), panel = min(first_panel + output / 16, weight.panels() - 1);
      tile.w[k][output] = weight.value(panel, begin + k, output % 16);
    }
    if (begin == 0) wait_for_earlier();  // who made x; weights are older
    for (int t = 0; t < block_tokens; ++t) {
      const float* row = x.row(block_token + t) + begin;
      for (int k = thread; k < n; k += lanes::kThreads) {
        if constexpr (Source::kPairs) tile.x[k][t] = (k ^ 1) < x.cols - begin ? weight.rounded(row[k ^ 1]) : 0.0f;
        else tile.x[k][t] = row[k];
      }
    }
    __syncthreads();
    if (tokens <= 0) continue;
    // A group is a chain of its own: that of a row, or of `group` columns.
    const int group = weight.group() > 0 ? weight.group() : kChunk;
    for (int first = 0; first < n; first += group) {
      const int last = min(first + group, n);
      if constexpr (Source::kSums != 0) {
#pragma unroll
        for (int t = 0; t < Tokens; ++t) {
          if (weight.group() > 0) strips[t] = 0.0f;
          for (int k = first; k < last; k += 16) strips[t] = __fadd_rn(strips[t], k + lane < last ? tile.x[k + lane][own + t] : 0.0f);
        }
      }
      if (weight.group() > 0) {
#pragma unroll
        for (int t = 0; t < Tokens; ++t) {
          const float sum = __fmul_rn(Source::kSums, lanes::sum({strips[t]}));
          for (int p = 0; p < Panels; ++p) acc[p][t] = sum;
        }
      }
#pragma unroll 8
      for (int k = first; k < last; ++k) {
        float w[Panels];
#pragma unroll
        for (int p = 0; p < Panels; ++p) w[p] = tile.w[k][p * 16 + lane];
#pragma unroll
        for (int t = 0; t < Tokens; ++t) {
          const float xk = weight.activation(tile.x[k][own + t], k);
#pragma unroll
          for (int p = 0; p < Panels; ++p) acc[p][t] = weight.multiply_add(w[p], xk, acc[p][t]);
        }
      }
      if (weight.group() > 0) {
#pragma unroll
        for (int p = 0; p < Panels; ++p) {
          const int panel = min(first_panel + p, weight.panels() - 1);
          const float scale = weight.group_scale(panel, (begin + first) / weight.group(), lane);
#pragma unroll
          for (int t = 0; t < Tokens; ++t) total[p][t] = __fmaf_rn(acc[p][t], scale, total[p][t]);
        }
      }
    }
  }
#pragma unroll
  for (int p = 0; p < Panels; ++p) {
    const int output = (first_panel + p) * 16 + lane;
#pragma unroll
    for (int t = 0; t < Tokens; ++t) {
      if (t >= tokens) break;
      float value = weight.group() > 0 ? total[p][t] : acc[p][t];
      float sum = 0.0f;  // of x, for the zero points of a row
      if (Source::kSums != 0 && weight.group() == 0) sum = __fmul_rn(Source::kSums, lanes::sum({strips[t]}));
      value = weight.scaled(value, min(first_panel + p, weight.panels() - 1), lane, sum);
      finish(job, block_token + own + t, output, value);
    }
  }
}

template <int Panels, int Tokens, class Source>
void launch_linear(Cuda& device, const cpu::PanelJob& job, MatrixView<const float> x, const Source& weight) {
  using Tile = LinearTile<Panels, Tokens>;
  const dim3 grid(static_cast<unsigned>((weight.panels() + Panels - 1) / Panels),
                  static_cast<unsigned>((x.rows + Tile::kTokens - 1) / Tile::kTokens));
  device.launch_early("linear", linear_kernel<Panels, Tokens, Source>, grid, lanes::kThreads, sizeof(Tile), job, x, weight);
}

// A layout that has kernels elsewhere but none here is refused when an engine is compiled, not read slowly.
template <class W>
concept HasProduct = HasColumns<W> || HasTiles<W>;

}  // namespace cuda

// The shape of a block follows the number of rows; no bit does.
template <class W>
  requires cuda::HasProduct<W>
void linear(Cuda& device, const LinearArgs<W>& args) {
  if (args.x.rows == 0) return;
  const cpu::PanelJob job = cpu::panel_job(args);
  if constexpr (cuda::HasTiles<W>) {
    cuda::linear_tensor(device, job, args.x, args.weight.panels());
  } else {
    const auto weight = cuda::columns_of(args.weight, args.y.cols);
    if (args.x.rows <= 8) cuda::launch_linear<1, 1>(device, job, args.x, weight);
    else if (args.x.rows <= 32) cuda::launch_linear<1, 4>(device, job, args.x, weight);
    else cuda::launch_linear<2, 8>(device, job, args.x, weight);
  }
}

}  // namespace tenon
