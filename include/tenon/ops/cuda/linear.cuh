// Matrix products: each output is one chain of fused multiply-adds over k, as on the CPU, in the order of k, whatever the
// batch. Threads differ in which outputs they hold, never in how one is summed. On tensor cores: linear_tensor.cuh.
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
#include "tenon/ops/cuda/linear_tensor.cuh"
#include "tenon/ops/cuda/staged.cuh"

namespace tenon {
namespace cuda {

// What a block of 128 threads has in shared memory: a ring of stages, each some columns of its panels, as they lie in memory, and
// of its tokens. Rows of x have a stride of an odd number of sixteen bytes, so that two half-warps read different banks.
template <int Panels, int Tokens, class Source>
struct LinearTile {
  static constexpr int kTokens = Tokens * lanes::kRowsABlock;
  // Whole groups of 128; otherwise fewer the more rows share them, so that two blocks or more fit a processor. A chain alone needs
  // many bytes on their way.
  static constexpr int kColumns = Source::kLeastGroup > 0 || Tokens == 1 ? 128 : Tokens < 8 ? 64 : 32;
  static constexpr int kStages = Tokens == 1 ? 6 : Tokens * kColumns > 512 ? 2 : 3;
  static constexpr int kStride = kColumns + 4;
  static constexpr int kPanelBytes = Source::column_bytes(kColumns);
  static constexpr int kScaleBytes = Source::kLeastGroup > 0 ? kColumns / Source::kLeastGroup * kPanelRows * 2 : 0;

  int rows;  // of x, that a block has at most

  __host__ __device__ explicit LinearTile(int all_rows) : rows(all_rows < kTokens ? all_rows : kTokens) {}
  __host__ __device__ int stage_bytes() const { return Panels * (kPanelBytes + kScaleBytes) + rows * kStride * 4; }
  __host__ __device__ int bytes() const { return kStages * stage_bytes(); }
  __device__ std::byte* codes(std::byte* stage, int panel) const { return stage + panel * kPanelBytes; }
  __device__ float16* scales(std::byte* stage, int panel) const {
    return reinterpret_cast<float16*>(stage + Panels * kPanelBytes + panel * kScaleBytes);
  }
  __device__ float* x(std::byte* stage, int row) const {
    return reinterpret_cast<float*>(stage + Panels * (kPanelBytes + kScaleBytes)) + row * kStride;
  }
};

// Columns begin .. begin + n - 1 of a block's panels on their way into a stage.
template <class Tile, int Panels, class Source>
__device__ void stage_weights(const Tile& tile, const Source& weight, int first_panel, int begin, int n, std::byte* stage) {
  const int thread = static_cast<int>(threadIdx.x);
  if constexpr (Source::kBytes) {
    constexpr int kUnits = Tile::kPanelBytes / 16;
    const int bytes = Source::column_bytes(n);
    for (int i = thread; i < Panels * kUnits; i += lanes::kThreads) {
      const int p = i / kUnits, at = i % kUnits * 16, panel = min(first_panel + p, weight.panels() - 1);
      if (at < bytes) copy_16_bytes(tile.codes(stage, p) + at, static_cast<const std::byte*>(weight.columns(panel, begin)) + at);
    }
  } else {
    for (int i = thread; i < Panels * n * kPanelRows; i += lanes::kThreads) {
      const int p = i / (n * kPanelRows), at = i % (n * kPanelRows), panel = min(first_panel + p, weight.panels() - 1);
      reinterpret_cast<float*>(tile.codes(stage, p))[at] = weight.weight_at(panel, begin + at / kPanelRows, at % kPanelRows);
    }
  }
  if constexpr (Source::kLeastGroup > 0) {
    const int units = (n + weight.group() - 1) / weight.group() * 2;  // sixteen bytes are half of a group's
    for (int i = thread; i < Panels * units; i += lanes::kThreads) {
      const int p = i / units, at = i % units * 8, panel = min(first_panel + p, weight.panels() - 1);
      copy_16_bytes(tile.scales(stage, p) + at, weight.group_scales(panel, begin) + at);
    }
  }
}

// The same of rows first .. first + rows - 1 of x. whole: sixteen bytes of x lie as copies need them.
template <class Tile, class Source>
__device__ void stage_tokens(const Tile& tile, MatrixView<const float> x, int first, int rows, int begin, int n, bool whole, std::byte* stage) {
  const int thread = static_cast<int>(threadIdx.x);
  if (Source::kPairs || !whole) {
    for (int i = thread; i < rows * Tile::kColumns; i += lanes::kThreads) {
      const int row = i / Tile::kColumns, k = i % Tile::kColumns;
      if (k >= n) continue;
      const float* from = x.row(first + row) + begin;
      if constexpr (Source::kPairs) tile.x(stage, row)[k] = (k ^ 1) < x.cols - begin ? Source::rounded(from[k ^ 1]) : 0.0f;
      else copy_float(tile.x(stage, row) + k, from + k);
    }
  } else {
    for (int i = thread; i < rows * (Tile::kColumns / 4); i += lanes::kThreads) {
      const int row = i / (Tile::kColumns / 4), k = i % (Tile::kColumns / 4) * 4;
      if (k < n) copy_16_bytes(tile.x(stage, row) + k, x.row(first + row) + begin + k);
    }
  }
}

// Some columns of a stage in a thread's registers: k + First .. k + First + Count - 1, k a multiple of 8.
template <int Panels, int Tokens, int First, int Count>
struct Columns {
  float4 x[Count / 4][Tokens];
  float w[Count][Panels];

  // rows: [Tokens] of x; codes: [Panels]
  template <class Source>
  __device__ __forceinline__ void load(const float* const (&rows)[Tokens], const std::byte* const (&codes)[Panels], int k) {
#pragma unroll
    for (int t = 0; t < Tokens; ++t) {
#pragma unroll
      for (int i = 0; i < Count; i += 4) x[i / 4][t] = *reinterpret_cast<const float4*>(rows[t] + k + First + i);
    }
#pragma unroll
    for (int i = 0; i < Count; ++i) {
#pragma unroll
      for (int p = 0; p < Panels; ++p) w[i][p] = Source::value(codes[p], k, First + i, lanes::lane());
    }
  }

  // To the chains, the first `count` of them.
  template <class Source, bool Whole = true>
  __device__ __forceinline__ void add(float (&acc)[Panels][Tokens], int count = Count) const {
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      if (!Whole && i >= count) break;
#pragma unroll
      for (int t = 0; t < Tokens; ++t) {
        const float4& four = x[i / 4][t];
        const float xk = Source::activation(i % 4 == 0 ? four.x : i % 4 == 1 ? four.y : i % 4 == 2 ? four.z : four.w, First + i);
#pragma unroll
        for (int p = 0; p < Panels; ++p) acc[p][t] = Source::multiply_add(w[i][p], xk, acc[p][t]);
      }
    }
  }
};

// Adds columns first .. last - 1, first a multiple of 8, to the chains. Of few tokens, the next columns are read while a chain goes on.
template <class Source, int Panels, int Tokens>
__device__ __forceinline__ void add_columns(const float* const (&rows)[Tokens], const std::byte* const (&codes)[Panels], int first, int last,
                                            float (&acc)[Panels][Tokens]) {
  int k = first;
  if constexpr (Tokens <= 4) {
    using Eight = Columns<Panels, Tokens, 0, 8>;
    Eight now;
    if (k + 8 <= last) now.template load<Source>(rows, codes, k);
#pragma unroll 2
    for (; k + 16 <= last; k += 8) {
      Eight next;
      next.template load<Source>(rows, codes, k + 8);
      now.template add<Source>(acc);
      now = next;
    }
    if (k + 8 <= last) {
      now.template add<Source>(acc);
      k += 8;
    }
  } else {
#pragma unroll 1
    for (; k + 8 <= last; k += 8) {
      Columns<Panels, Tokens, 0, 4> low;
      Columns<Panels, Tokens, 4, 4> high;
      low.template load<Source>(rows, codes, k);
      low.template add<Source>(acc);
      high.template load<Source>(rows, codes, k);
      high.template add<Source>(acc);
    }
  }
  if (k == last) return;
  Columns<Panels, Tokens, 0, 4> low;
  Columns<Panels, Tokens, 4, 4> high;
  low.template load<Source>(rows, codes, k);
  low.template add<Source, false>(acc, last - k);
  if (last - k <= 4) return;
  high.template load<Source>(rows, codes, k);
  high.template add<Source, false>(acc, last - k - 4);
}

// Half-warp g has Tokens tokens g, g + 8, .. and Panels panels of sixteen outputs, a thread one output of each.
template <int Panels, int Tokens, class Source>
__global__ void __launch_bounds__(lanes::kThreads) linear_kernel(cpu::PanelJob job, MatrixView<const float> x, Source weight, bool whole) {
  using Tile = LinearTile<Panels, Tokens, Source>;
  extern __shared__ __align__(16) std::byte stages[];
  const Tile tile(x.rows);
  const int lane = lanes::lane(), first_panel = static_cast<int>(blockIdx.x) * Panels, own = static_cast<int>(threadIdx.x) / 16;
  const int block_token = static_cast<int>(blockIdx.y) * Tile::kTokens, block_tokens = min(Tile::kTokens, x.rows - block_token);
  const int cols = Source::kPairs ? (x.cols + 1) / 2 * 2 : x.cols, chunks = (cols + Tile::kColumns - 1) / Tile::kColumns;
  const auto stage_of = [&](int chunk) { return stages + chunk % Tile::kStages * tile.stage_bytes(); };
  const auto columns_of = [&](int chunk) { return min(Tile::kColumns, cols - chunk * Tile::kColumns); };
  const auto fetch_weights = [&](int chunk) {
    if (chunk < chunks) stage_weights<Tile, Panels>(tile, weight, first_panel, chunk * Tile::kColumns, columns_of(chunk), stage_of(chunk));
  };
  const auto fetch_tokens = [&](int chunk) {
    if (chunk < chunks) stage_tokens<Tile, Source>(tile, x, block_token, block_tokens, chunk * Tile::kColumns, columns_of(chunk), whole, stage_of(chunk));
    end_copies();  // where there is none, too: they are counted
  };
  for (int chunk = 0; chunk < Tile::kStages - 1; ++chunk) fetch_weights(chunk);
  wait_for_earlier();  // who made x; weights are older
  for (int chunk = 0; chunk < Tile::kStages - 1; ++chunk) fetch_tokens(chunk);

  float acc[Panels][Tokens], total[Panels][Tokens], strips[Tokens];
#pragma unroll
  for (int t = 0; t < Tokens; ++t) {
    strips[t] = 0.0f;
#pragma unroll
    for (int p = 0; p < Panels; ++p) acc[p][t] = total[p][t] = 0.0f;
  }
  for (int chunk = 0; chunk < chunks; ++chunk) {
    wait_for_copies<Tile::kStages - 2>();
    __syncthreads();
    fetch_weights(chunk + Tile::kStages - 1);  // where the chunk before was, which all have done
    fetch_tokens(chunk + Tile::kStages - 1);
    if (own >= block_tokens) continue;
    std::byte* stage = stage_of(chunk);
    const float* rows[Tokens];
#pragma unroll
    for (int t = 0; t < Tokens; ++t) rows[t] = tile.x(stage, min(own + t * lanes::kRowsABlock, block_tokens - 1));
    const std::byte* codes[Panels];
#pragma unroll
    for (int p = 0; p < Panels; ++p) codes[p] = tile.codes(stage, p);
    const int n = columns_of(chunk), group = weight.group() > 0 ? weight.group() : Tile::kColumns;
    // A group is a chain of its own: that of a row, or of `group` columns.
    for (int first = 0; first < n; first += group) {
      const int last = min(first + group, n);
      if (Source::kSums != 0 && weight.needs_sums()) {
#pragma unroll
        for (int t = 0; t < Tokens; ++t) {
          if (weight.group() > 0) strips[t] = 0.0f;
          for (int k = first; k < last; k += 16) strips[t] = __fadd_rn(strips[t], k + lane < last ? rows[t][k + lane] : 0.0f);
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
      values[t] = weight.scaled(weight.group() > 0 ? total[p][t] : acc[p][t], min(first_panel + p, weight.panels() - 1), lane, sums[t]);
    }
    finish_outputs(job, block_token + own, lanes::kRowsABlock, block_token + block_tokens, (first_panel + p) * 16 + lane, values);
  }
}

template <int Panels, int Tokens, class Source>
void launch_linear(Cuda& device, const cpu::PanelJob& job, MatrixView<const float> x, const Source& weight) {
  const LinearTile<Panels, Tokens, Source> tile(x.rows);
  const bool whole = is_whole(x.data) && x.stride % 4 == 0 && x.cols % 4 == 0;
  const dim3 grid(static_cast<unsigned>((weight.panels() + Panels - 1) / Panels),
                  static_cast<unsigned>((x.rows + tile.kTokens - 1) / tile.kTokens));
  device.launch_early("linear", linear_kernel<Panels, Tokens, Source>, grid, lanes::kThreads, static_cast<std::size_t>(tile.bytes()), job, x,
                      weight, whole);
}

// Cycles for a column on the processor with the most blocks. Its 128 lanes multiply and add once a cycle, and 32 of them have a
// float from shared memory, of which a thread needs Panels + Tokens.
template <int Panels, int Tokens>
int column_cycles(int panels, int rows, int processors) {
  const int blocks = (panels + Panels - 1) / Panels * ((rows + Tokens * lanes::kRowsABlock - 1) / (Tokens * lanes::kRowsABlock));
  return (blocks + processors - 1) / processors * std::max(4 * (Panels + Tokens), Panels * Tokens);
}

// By blocks of the shape that is done first.
template <class Source>
void linear_columns(Cuda& device, const cpu::PanelJob& job, MatrixView<const float> x, const Source& weight) {
  if (!weight.can_be_copied()) {
    throw Error(Error::Kind::unsupported, "weights", "a GPU copies panels by sixteen bytes: their codes, and scales of groups, must begin at a multiple of sixteen");
  }
  using Launch = void (*)(Cuda&, const cpu::PanelJob&, MatrixView<const float>, const Source&);
  Launch best = nullptr;
  int least = 0;
  const auto offer = [&]<int Panels, int Tokens>() {
    const int cycles = column_cycles<Panels, Tokens>(weight.panels(), x.rows, device.processors());
    if (!best || cycles < least) best = launch_linear<Panels, Tokens, Source>, least = cycles;
  };
  offer.template operator()<1, 1>();
  offer.template operator()<2, 2>();
  offer.template operator()<4, 4>();
  offer.template operator()<4, 8>();
  // Chains of groups are two sums an output, for which a thread has no room.
  if constexpr (Source::kLeastGroup == 0) offer.template operator()<8, 8>();
  best(device, job, x, weight);
}

// A layout that has kernels elsewhere but none here is refused when an engine is compiled, not read slowly.
template <class W>
concept HasProduct = HasColumns<W> || HasTiles<W>;

}  // namespace cuda

// The shape of a block follows the numbers of rows, outputs and processors; no bit does.
template <class W>
  requires cuda::HasProduct<W>
void linear(Cuda& device, const LinearArgs<W>& args) {
  if (args.x.rows == 0) return;
  const cpu::PanelJob job = cpu::panel_job(args);
  if constexpr (cuda::HasTiles<W>) {
    cuda::linear_tensor(device, job, args.x, args.weight.panels());
  } else {
    cuda::linear_columns(device, job, args.x, cuda::columns_of(args.weight, args.y.cols));
  }
}

}  // namespace tenon
