// Matrix products of few rows, for weights without groups. A chain's additions take four cycles a column if its warp
// does nothing else. So half of a block copies weights, decodes them and transposes them to one run of columns per
// output. The other half, one warp for two rows, only adds.
#pragma once
#include <cstddef>

#include "tenon/device/cuda.cuh"
#include "tenon/ops/cpu/panel_work.h"
#include "tenon/ops/cuda/columns.cuh"
#include "tenon/ops/cuda/finish.cuh"
#include "tenon/ops/cuda/lanes.cuh"
#include "tenon/ops/cuda/linear_stages.cuh"
#include "tenon/ops/cuda/staged.cuh"

namespace tenon::cuda {

/// Shared memory of a block: the ring of one panel and up to eight rows, then two chunks of transposed weights.
template <class Source, int Columns>
struct FewTile : LinearTile<1, 1, Source, Columns, 4> {
  using Ring = LinearTile<1, 1, Source, Columns, 4>;
  static_assert(Source::kLeastGroup == 0 && Columns % (8 * lanes::kRowsABlock) == 0);
  static constexpr int kKept = 1;  ///< the adding warps may lag the staging warps by a chunk

  /// Decoded weights, contiguous per output, with sixteen bytes of padding: eight threads read different banks.
  struct Chunk {
    alignas(16) float weights[kPanelRows][Ring::kStride];
    float sums[Ring::kTokens];  ///< of x, after the last chunk
  };

  using Ring::Ring;
  __host__ __device__ int bytes() const { return Ring::bytes() + 2 * static_cast<int>(sizeof(Chunk)); }
  __device__ Chunk& chunk(std::byte* shared, int c) const {
    return reinterpret_cast<Chunk*>(shared + Ring::bytes())[c % 2];
  }
};

/// Transposes columns 0 .. n - 1 of a stage, eight of an output at a time, by the staging threads. Columns past n are
/// transposed, too.
template <class Source, class Tile>
__device__ __forceinline__ void transpose_chunk(const std::byte* codes, int n, typename Tile::Chunk& chunk) {
  constexpr int kUnits = Tile::kColumns / 8 * kPanelRows / lanes::kThreads;
  const int lane = lanes::lane(), first = static_cast<int>(threadIdx.x) / 16 * 8;
  float4 low[kUnits], high[kUnits];
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    const int k = first + u * 8 * lanes::kRowsABlock;
    if (k >= n) break;
    const auto value = [&](int i) { return Source::value(codes, k, i, lane); };
    low[u] = {value(0), value(1), value(2), value(3)};
    high[u] = {value(4), value(5), value(6), value(7)};
  }
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    const int k = first + u * 8 * lanes::kRowsABlock;
    if (k >= n) break;
    *reinterpret_cast<float4*>(chunk.weights[lane] + k) = low[u];
    *reinterpret_cast<float4*>(chunk.weights[lane] + k + 4) = high[u];
  }
}

/// Sixteen columns in a thread's registers.
template <class Source>
struct ChainColumns {
  static constexpr int kCount = 16;
  float4 x[kCount / 4], w[kCount / 4];

  __device__ __forceinline__ void load(const float* row, const float* weights) {
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
      x[i] = *reinterpret_cast<const float4*>(row + 4 * i);
      w[i] = *reinterpret_cast<const float4*>(weights + 4 * i);
    }
  }
  __device__ __forceinline__ float add(float sum) const {
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
      sum = Source::multiply_add(w[i].x, x[i].x, sum);
      sum = Source::multiply_add(w[i].y, x[i].y, sum);
      sum = Source::multiply_add(w[i].z, x[i].z, sum);
      sum = Source::multiply_add(w[i].w, x[i].w, sum);
    }
    return sum;
  }
};

/// Adds a chunk of n columns to the chain of one output of one row. Columns past the last multiple of 64 are added one
/// by one, each after a wait.
template <class Source>
__device__ __forceinline__ float add_chunk(const float* x, const float* weights, int n, float sum) {
  constexpr int kSet = ChainColumns<Source>::kCount, kSets = 4, kBlock = kSet * kSets;
  // One set is read while another is added. The warp's barrier keeps the assembler from moving reads next to their use.
  ChainColumns<Source> set[kSets];
  int k = 0;
  const auto add_block = [&]<bool Last>() {
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
      __syncwarp();
      if (!Last || s + 1 < kSets) set[(s + 1) % kSets].load(x + k + (s + 1) * kSet, weights + k + (s + 1) * kSet);
      sum = set[s].add(sum);
    }
    k += kBlock;
  };
  if (n >= kBlock) {
    set[0].load(x, weights);
#pragma unroll 1
    while (k + 2 * kBlock <= n) add_block.template operator()<false>();
    add_block.template operator()<true>();
  }
#pragma unroll 1
  for (; k < n; ++k) sum = Source::multiply_add(weights[k], x[k], sum);
  return sum;
}

/// A block has a panel of sixteen outputs and up to eight rows. The first half of its threads stages.
template <class Source, int Columns>
__global__ void __launch_bounds__(2 * lanes::kThreads)
    linear_few_kernel(cpu::PanelJob job, MatrixView<const float> x, Source weight, bool whole) {
  using Tile = FewTile<Source, Columns>;
  using Stages = LinearStages<Tile, Source>;
  enum Barrier { turned = kStagesBarrier + 1, added = turned + 2 };  // of even chunks; plus one: of odd chunks
  const Tile tile(x.rows);
  const int panel = static_cast<int>(blockIdx.x), first_row = static_cast<int>(blockIdx.y) * Tile::kTokens,
            rows = min(Tile::kTokens, x.rows - first_row);
  const int lane = lanes::lane(), all = lanes::kThreads + (rows + 1) / 2 * 32;
  const int columns = Stages::columns_of_row(x.cols), chunks = Stages::chunks_of(columns);
  const bool sums = Source::kSums != 0 && weight.needs_sums();

  if (threadIdx.x < lanes::kThreads) {
    Stages stages(tile, weight, x, panel, first_row, rows, whole);
    const int row = static_cast<int>(threadIdx.x) / 16;
    float strip = 0.0f;
    for (int c = 0; c < chunks; ++c) {
      if (c >= 2) sync_threads(added + c % 2, all);
      std::byte* const stage = stages.next();
      const int n = stages.columns_of(c);
      typename Tile::Chunk& chunk = tile.chunk(Stages::shared(), c);
      transpose_chunk<Source, Tile>(tile.codes(stage, 0), n, chunk);
      if (sums && row < rows) {
        const float* values = tile.x(stage, row);
        for (int k = 0; k < n; k += 16) strip = __fadd_rn(strip, k + lane < n ? values[k + lane] : 0.0f);
        const float sum = c + 1 == chunks ? lanes::sum({strip}) : 0.0f;
        if (c + 1 == chunks && lane == 0) chunk.sums[row] = sum;
      }
      arrive_threads(turned + c % 2, all);
    }
    return;
  }

  const int row = static_cast<int>(threadIdx.x - lanes::kThreads) / 16, own = min(row, rows - 1);
  if (row / 2 * 2 >= rows) return;
  float sum = 0.0f;
  for (int c = 0; c < chunks; ++c) {
    sync_threads(turned + c % 2, all);
    sum = add_chunk<Source>(tile.x(Stages::stage_of(tile, c), own), tile.chunk(Stages::shared(), c).weights[lane],
                            Stages::columns_of(columns, c), sum);
    if (c + 2 < chunks) arrive_threads(added + c % 2, all);
  }
  if (row >= rows) return;
  wait_for_earlier();  // an earlier kernel may read the memory written here
  const float minus_sum = sums ? __fmul_rn(Source::kSums, tile.chunk(Stages::shared(), chunks - 1).sums[row]) : 0.0f;
  finish(job, first_row + row, panel * 16 + lane, weight.scaled(sum, panel, lane, minus_sum));
}

template <class Source, int Columns>
void launch_few(Cuda& device, const cpu::PanelJob& job, MatrixView<const float> x, const Source& weight) {
  const FewTile<Source, Columns> tile(x.rows);
  const dim3 grid(static_cast<unsigned>(weight.panels()),
                  static_cast<unsigned>((x.rows + tile.kTokens - 1) / tile.kTokens));
  device.launch_early("linear", linear_few_kernel<Source, Columns>, grid, 2 * lanes::kThreads,
                      static_cast<std::size_t>(tile.bytes()), job, x, weight, copies_whole(x));
}

}  // namespace tenon::cuda
