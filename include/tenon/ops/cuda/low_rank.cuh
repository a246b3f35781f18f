// LoRA updates: one block for some rows of one adapter, whatever its ranks. Gathered and looped groups are single rows
// (BGMV of Punica; Chen et al., 2023). Segmented groups read their factors once for Cuda::rows_together rows (SGMV).
// Products with the factors a stay in shared memory and are multiplied with b in the same kernel.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>

#include "tenon/core/operand_tiles.h"
#include "tenon/device/cuda.cuh"
#include "tenon/ops/args.h"
#include "tenon/ops/cuda/lanes.cuh"

namespace tenon {
namespace cuda {

/// Ranks whose products a block keeps at a time. Updates with more ranks pass over their outputs again.
inline constexpr int kRanksAtOnce = 64;

/// Strips of a factor that a thread has in flight (not measured by itself).
template <int Rows>
inline constexpr int kStripsAhead = Rows == 1 ? 16 : 8;

/// A row of activations, floats or rounded.
struct FloatRow {
  const float* data;
  __device__ float operator[](int k) const { return data[k]; }
};
template <class E>
struct RoundedRow {
  const E* data;              ///< of the row in the first core matrix
  std::ptrdiff_t chunk_step;  ///< elements to the next chunk
  __device__ float operator[](int k) const {
    return static_cast<float>(
        data[k / kChunkColumns * chunk_step + k % kChunkColumns / kCoreColumns * kCoreElements + k % kCoreColumns]);
  }
};
__device__ inline FloatRow row_of(const MatrixView<const float>& x, int r) { return {x.row(r)}; }
template <class E>
__device__ RoundedRow<E> row_of(const OperandTiles<E>& x, int r) {
  return {x.data + x.at(r, 0), std::ptrdiff_t{x.row_blocks()} * kCoreRows * kChunkColumns};
}

/// Outputs first .. last - 1 of a block's rows. Missing rows of a tile repeat the last one.
template <int Rows, class Row>
struct LowRankBlock {
  Row x[Rows];         ///< [inputs]
  float* delta[Rows];  ///< [outputs]
  int count, inputs;
  int first, last;
};

/// products: [count, Rows], scale * (a[i] . x) for ranks i from `first` on, one per half-warp at a time.
template <class Factor, int Rows, class Row>
__device__ void shrink(const LowRankBlock<Rows, Row>& block, const LowRank& update, int first, int count,
                       float* products) {
  const int halves = static_cast<int>(blockDim.x) / 16;
  for (int i = static_cast<int>(threadIdx.x) / 16; i < count; i += halves) {
    const Factor* a = static_cast<const Factor*>(update.a) + static_cast<std::ptrdiff_t>(first + i) * block.inputs;
    lanes::F32x16 strips[Rows];
#pragma unroll
    for (int r = 0; r < Rows; ++r) strips[r] = lanes::zero();
#pragma unroll kStripsAhead < Rows>
    for (int begin = 0; begin < block.inputs; begin += 16) {
      const int k = begin + lanes::lane();
      const bool is_column = k < block.inputs;  // the CPU pads with zeros, which turn a sum of -0 into +0
      const lanes::F32x16 factor{is_column ? static_cast<float>(a[k]) : 0.0f};
#pragma unroll
      for (int r = 0; r < Rows; ++r) strips[r] = lanes::fma(factor, {is_column ? block.x[r][k] : 0.0f}, strips[r]);
    }
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      const float product = lanes::sum(strips[r]);
      if (lanes::lane() == 0) products[i * Rows + r] = __fmul_rn(update.scale, product);
    }
  }
}

/// One output per thread.
template <class Factor, int Rows, class Row>
__device__ void expand(const LowRankBlock<Rows, Row>& block, const LowRank& update, int first, int count,
                       const float* products) {
  const int begin = max(block.first - update.first_output, 0),
            end = min(block.last - update.first_output, update.outputs);
  for (int o = begin + static_cast<int>(threadIdx.x); o < end; o += static_cast<int>(blockDim.x)) {
    const int outputs = o / kFactorBlock * kFactorBlock, rest = update.outputs - outputs;
    const int width = rest < kFactorBlock ? rest : kFactorBlock;
    const Factor* b =
        static_cast<const Factor*>(update.b) + static_cast<std::ptrdiff_t>(outputs) * update.rank + (o - outputs);
    float sums[Rows];
#pragma unroll
    for (int r = 0; r < Rows; ++r) sums[r] = block.delta[r][update.first_output + o];
#pragma unroll 16
    for (int i = 0; i < count; ++i) {
      const float factor = static_cast<float>(b[static_cast<std::ptrdiff_t>(first + i) * width]);
#pragma unroll
      for (int r = 0; r < Rows; ++r) sums[r] = __fmaf_rn(factor, products[i * Rows + r], sums[r]);
    }
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      if (r < block.count) block.delta[r][update.first_output + o] = sums[r];
    }
  }
}

template <class Factor, int Rows, class Row>
__device__ void add_update(const LowRankBlock<Rows, Row>& block, const LowRank& update, float* products) {
  for (int first = 0; first < update.rank; first += kRanksAtOnce) {
    const int count = min(update.rank - first, kRanksAtOnce);
    shrink<Factor>(block, update, first, count, products);
    __syncthreads();
    expand<Factor>(block, update, first, count, products);
    __syncthreads();
  }
}

/// Prefetches bytes into L2.
template <class = void>
__device__ void prefetch_bytes(const void* begin, std::ptrdiff_t bytes) {
  constexpr int kLine = 128;
  for (std::ptrdiff_t at = kLine * threadIdx.x; at < bytes; at += kLine * blockDim.x) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(static_cast<const std::byte*>(begin) + at));
  }
}

/// Prefetches b of outputs first .. last - 1, and one of `parts` parts of a.
template <class = void>
__device__ void prefetch_factors(const LowRank& update, int inputs, int first, int last, int part, int parts) {
  const auto size = static_cast<std::ptrdiff_t>(bytes_of(update.type));
  const std::ptrdiff_t a_part = (update.rank * size * inputs + parts - 1) / parts;
  prefetch_bytes(static_cast<const std::byte*>(update.a) + part * a_part,
                 min(a_part, update.rank * size * inputs - part * a_part));
  const int begin = max(first - update.first_output, 0) / kFactorBlock * kFactorBlock;
  const int end = min((last - update.first_output + kFactorBlock - 1) / kFactorBlock * kFactorBlock, update.outputs);
  prefetch_bytes(static_cast<const std::byte*>(update.b) + size * begin * update.rank,
                 size * (end - begin) * update.rank);
}

/// One column of blocks per tile; the blocks share its outputs. Tables and factors are not written by earlier kernels.
/// rows: of all tiles.
template <int Rows, class X>
__global__ void low_rank_kernel(X x, const AdapterTile* tiles, const int* rows, int layer, Site site,
                                MatrixView<float> delta, const float** deltas) {
  __shared__ float products[kRanksAtOnce * Rows];
  const AdapterTile tile = tiles[blockIdx.x];
  const std::span<const LowRank> updates =
      tile.adapters.updates ? tile.adapters.at(layer, site) : std::span<const LowRank>{};
  rows += tile.first;
  const int parts = static_cast<int>(gridDim.y), part = static_cast<int>(blockIdx.y);
  LowRankBlock<Rows, decltype(row_of(x, 0))> block{.count = tile.count, .inputs = x.cols};
  block.first = delta.cols / parts * part + min(delta.cols % parts, part);
  block.last = block.first + delta.cols / parts + (part < delta.cols % parts ? 1 : 0);
  for (const LowRank& update : updates) prefetch_factors(update, block.inputs, block.first, block.last, part, parts);
  wait_for_earlier();
  for (int r = static_cast<int>(threadIdx.x); part == 0 && r < tile.count; r += static_cast<int>(blockDim.x)) {
    deltas[rows[r]] = updates.empty() ? nullptr : delta.row(rows[r]);
  }
  if (updates.empty()) return;
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    const int row = rows[min(r, tile.count - 1)];
    block.x[r] = row_of(x, row);
    block.delta[r] = delta.row(row);
    for (int o = block.first + static_cast<int>(threadIdx.x); o < block.last; o += static_cast<int>(blockDim.x)) {
      block.delta[r][o] = 0.0f;
    }
  }
  // No barrier: no thread adds to these zeros before the barrier after the first products.
  for (const LowRank& update : updates) {
    if (update.first_output >= block.last || update.first_output + update.outputs <= block.first) continue;
    switch (update.type) {
      case FactorType::float32:
        add_update<float>(block, update, products);
        break;
      case FactorType::float16:
        add_update<float16>(block, update, products);
        break;
      case FactorType::bfloat16:
        add_update<bfloat16>(block, update, products);
        break;
    }
  }
}

}  // namespace cuda

/// With fewer tiles than processors, blocks share a tile's outputs, and each computes the products with a.
template <class X>
void low_rank(Cuda& device, const LowRankArgsOf<X>& args) {
  const AdapterTiles& tiles = args.groups->tiles;
  if (args.x.rows > 0 && tiles.count == 0) {
    throw Error(Error::Kind::internal, "low_rank", "the groups were not put on the device: put_tiles() does");
  }
  const auto kernel = tiles.most == 1 ? cuda::low_rank_kernel<1, X> : cuda::low_rank_kernel<Cuda::rows_together, X>;
  const int all = tiles.count, each = args.groups->one_by_one ? 1 : all;
  for (int first = 0; first < all; first += each) {
    const int parts = std::min((device.processors() - 1) / each + 1,
                               std::max(1, args.delta.cols / cuda::kCudaTuning.low_rank_outputs));
    const dim3 grid(static_cast<unsigned>(each), static_cast<unsigned>(parts));
    device.launch_early("low_rank", kernel, grid, 256, 0, args.x, tiles.tiles + first, tiles.rows, args.layer,
                        args.site, args.delta, args.deltas);
  }
}

}  // namespace tenon
