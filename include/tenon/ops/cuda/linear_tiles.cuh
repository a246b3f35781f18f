// Chooses the tile of a product of sixteen-bit matrices on tensor cores. The choice follows the sizes and the device;
// no bit does (linear_mma.cuh).
#pragma once
#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <type_traits>

#include "tenon/device/cuda.cuh"
#include "tenon/ops/args.h"
#include "tenon/ops/cuda/linear_mma.cuh"
#include "tenon/ops/cuda/linear_wgmma.cuh"

namespace tenon {
namespace cuda {

/// A tile. mma.sync: up to `tokens` tokens by `warps` warps of `outputs` outputs. wgmma: `tokens` tokens by `outputs`
/// outputs.
struct ProductTile {
  enum class Kind { mma, wgmma } kind;
  int tokens;   ///< per block
  int outputs;  ///< per warp of mma.sync, per block of wgmma
  int warps = 0;
};

/// All tiles, for tests too. mma.sync takes 1 to kMostWarps warps of each.
inline constexpr std::array kProductTiles = {
    ProductTile{ProductTile::Kind::mma, 16, 8, 1},  ProductTile{ProductTile::Kind::mma, 16, 16, 1},
    ProductTile{ProductTile::Kind::mma, 16, 32, 1}, ProductTile{ProductTile::Kind::mma, 32, 8, 1},
    ProductTile{ProductTile::Kind::mma, 32, 16, 1}, ProductTile{ProductTile::Kind::mma, 32, 32, 1},
    ProductTile{ProductTile::Kind::mma, 64, 8, 1},  ProductTile{ProductTile::Kind::mma, 64, 16, 1},
    ProductTile{ProductTile::Kind::wgmma, 64, 32},  ProductTile{ProductTile::Kind::wgmma, 64, 64},
    ProductTile{ProductTile::Kind::wgmma, 128, 64}, ProductTile{ProductTile::Kind::wgmma, 128, 128},
    ProductTile{ProductTile::Kind::wgmma, 256, 128}};

/// Shared memory that a block's ring can have on this device, beside the kernel's own.
inline int ring_bytes(const Cuda& device) { return device.block_bytes() - static_cast<int>(sizeof(StageRing)) - 256; }

template <class E, int Tiles, int Blocks, class Y>
void launch_mma(Cuda& device, const PairJob<Y>& job, const OperandTiles<const E>& x, const OperandTiles<const E>& w,
                int warps) {
  StageShape shape{warps * Blocks, std::min(2 * Tiles, x.row_blocks()), 0};
  const int stage_bytes = kFewChunks * shape.bytes(), most = (chunk_count(x.cols) + kFewChunks - 1) / kFewChunks;
  // One stage is read before the previous one is released.
  shape.stages =
      std::min({std::max(std::min(kCudaTuning.ring_bytes, ring_bytes(device)) / stage_bytes, 2), most, kMostStages});
  const int blocks = (written_columns(job.y) + kCoreRows - 1) / kCoreRows;
  const dim3 grid(static_cast<unsigned>((blocks + shape.weight_blocks - 1) / shape.weight_blocks),
                  static_cast<unsigned>((x.row_blocks() + 2 * Tiles - 1) / (2 * Tiles)));
  const bool early = static_cast<int>(grid.x * grid.y) <= 2 * device.processors();
  device.launch_early("linear", mma_kernel<E, Tiles, Blocks, Y>, grid, 32 * (warps + kFewFillWarps),
                      static_cast<std::size_t>(stage_bytes * shape.stages), job, x, w, shape, early);
}

template <class E, class Y, int Groups, int Outputs>
void launch_wgmma(Cuda& device, const PairJob<Y>& job, const OperandTiles<const E>& x, const OperandTiles<const E>& w) {
  constexpr int kTokenBlocks = Groups * kGroupTokens / kCoreRows,
                kStage = (Outputs / kCoreRows + kTokenBlocks) * kChunkBytes;
  const int across = (written_columns(job.y) + Outputs - 1) / Outputs,
            tiles = across * ((x.row_blocks() + kTokenBlocks - 1) / kTokenBlocks);
  const bool alone = Groups > 2 || tiles <= device.processors();
  const int stages =
      std::clamp((alone ? kCudaTuning.large_ring_bytes : kCudaTuning.ring_bytes) / kStage, 1,
                 std::min(tiles <= device.processors() ? chunk_count(x.cols) : kMostStages, kMostStages));
  const int blocks = std::min(tiles, (alone ? 1 : 2) * device.processors());
  device.launch_early("linear", wgmma_kernel<E, Groups, Outputs, Y>, dim3(static_cast<unsigned>(blocks)),
                      Groups * kGroupThreads + 32 * kFillWarps<Groups>, static_cast<std::size_t>(kStage * stages), job,
                      x, w, stages, across, tiles);
}

/// Launches with this tile, one of kProductTiles.
template <class E, class Y>
void launch_tile(Cuda& device, const PairJob<Y>& job, const OperandTiles<const E>& x, const OperandTiles<const E>& w,
                 const ProductTile& tile) {
  if (!job.even) {
    const int stride = (job.outputs + 1) / 2 * 2;
    const MatrixView<float> sums{
        device.scratch(static_cast<std::size_t>(job.tokens) * static_cast<std::size_t>(stride)), job.tokens,
        job.outputs, stride};
    launch_tile<E>(device,
                   PairJob<MatrixView<float>>{job.tokens, job.outputs, nullptr, nullptr,
                                              NearActivation(Activation::none), nullptr, 0, sums, true},
                   x, w, tile);
    dim3 grid = blocks(job.tokens);
    grid.y = static_cast<unsigned>((written_columns(job.y) + 127) / 128);
    return device.launch_early("linear", finish_apart_kernel<Y>, grid, 128, 0, job, sums);
  }
  const auto mma = [&]<int Tiles>() {
    switch (tile.outputs) {
      case 8:
        return launch_mma<E, Tiles, 1>(device, job, x, w, tile.warps);
      case 16:
        return launch_mma<E, Tiles, 2>(device, job, x, w, tile.warps);
      default:
        if constexpr (Tiles <= 2) return launch_mma<E, Tiles, 4>(device, job, x, w, tile.warps);
    }
  };
  if (tile.kind == ProductTile::Kind::mma) {
    if (tile.tokens == 16) return mma.template operator()<1>();
    if (tile.tokens == 32) return mma.template operator()<2>();
    return mma.template operator()<4>();
  }
  if (tile.tokens == 64)
    return tile.outputs == 32 ? launch_wgmma<E, Y, 1, 32>(device, job, x, w)
                              : launch_wgmma<E, Y, 1, 64>(device, job, x, w);
  if (tile.outputs == 64) return launch_wgmma<E, Y, 2, 64>(device, job, x, w);
  if (tile.tokens == 256) return launch_wgmma<E, Y, 4, 128>(device, job, x, w);
  launch_wgmma<E, Y, 2, 128>(device, job, x, w);
}

/// Microseconds that a product takes by this tile. A chunk of columns takes as long as the longest of these: the chain
/// of one output, the copies of one processor, the copies of all, the products.
inline float tile_time(const ProductTile& tile, int tokens, int outputs, int columns, int processors) {
  const CudaTuning& cost = kCudaTuning;
  const bool mma = tile.kind == ProductTile::Kind::mma;
  const int block_outputs = mma ? tile.outputs * tile.warps : tile.outputs,
            token_tile = std::min(tile.tokens, (tokens + 7) / 8 * 8);
  const auto area = static_cast<float>(block_outputs * tile.tokens);
  const auto blocks =
      static_cast<float>((tokens + tile.tokens - 1) / tile.tokens * ((outputs + block_outputs - 1) / block_outputs));
  const float each = std::max(1.0f, blocks / static_cast<float>(processors)),
              stage = 0.128f * static_cast<float>(block_outputs + token_tile);  // KB
  const float chain = mma ? cost.mma_chain + cost.mma_tokens * static_cast<float>(tile.tokens) / 16 +
                                cost.mma_outputs * static_cast<float>(tile.outputs) / 8
                          : cost.wgmma_chain + cost.wgmma_area * area / 4096;
  const float chunk = std::max({chain, each * stage / cost.processor_copy, blocks * stage / cost.l2_copy,
                                each * area * (mma ? cost.mma_product : cost.wgmma_product)});
  return (mma ? cost.mma_start : cost.wgmma_start) + static_cast<float>(chunk_count(columns)) * chunk +
         each * static_cast<float>(block_outputs * token_tile) * cost.finish;
}

/// The tile with the least cost. ring: bytes that a block's ring can have.
inline ProductTile tile_of(int tokens, int outputs, int columns, int processors, bool has_groups, int ring) {
  ProductTile best = {};
  float least = 0;
  const auto offer = [&](const ProductTile& tile) {
    const float time = tile_time(tile, tokens, outputs, columns, processors);
    if (best.tokens == 0 || time < least) best = tile, least = time;
  };
  for (ProductTile tile : kProductTiles) {
    if (tile.kind == ProductTile::Kind::mma) {
      if (has_groups && (tokens > 128 || (tokens > 32 && outputs > kCudaTuning.many_outputs))) continue;
      for (int warps = 1; warps <= kMostWarps; ++warps) {
        tile.warps = warps;
        const int stage = kFewChunks * (tile.outputs * warps + tile.tokens) / kCoreRows * kChunkBytes;
        if (2 * stage <= ring) offer(tile);
      }
    } else if (has_groups && tokens > 32 && (tile.tokens == kGroupTokens || tokens > kGroupTokens)) {
      offer(tile);
    }
  }
  return best;
}

/// Kernels that this device can run. Without sm_90a code, wgmma_kernel is empty and has no ring.
struct ProductKernels {
  bool has_groups = false;

  explicit ProductKernels(Cuda& device) {
    const CurrentDevice current(device.index());
    cudaFuncAttributes attributes = {};
    check(cudaFuncGetAttributes(&attributes, wgmma_kernel<bfloat16, 1, 32, MatrixView<float>>), "linear");
    has_groups = attributes.sharedSizeBytes >= sizeof(StageRing);
  }
};

/// Matrices in the layout of tensor cores.
template <class W>
concept HasOperandTiles = requires(const W w) {
  typename W::Operand;
  { w.tiles() } -> std::convertible_to<OperandTiles<const typename W::Operand::Element>>;
};

template <class E, class W, class Y>
void multiply_tiles(Cuda& device, const LinearArgs<W, OperandTiles<E>, Y>& args) {
  const PairJob<Y> job = pair_job(args, args.y);
  const ProductTile tile = tile_of(job.tokens, job.outputs, args.x.cols, device.processors(),
                                   device.kept<ProductKernels>().has_groups, ring_bytes(device));
  launch_tile<E>(device, job, OperandTiles<const E>{args.x.data, args.x.rows, args.x.cols}, args.weight.tiles(), tile);
}

/// For rows that no op has rounded yet.
template <class W>
void multiply_rounded(Cuda& device, const LinearArgs<W>& args) {
  using E = typename W::Operand::Element;
  const std::size_t floats = OperandTiles<E>::elements(args.x.rows, args.x.cols) * sizeof(E) / sizeof(float);
  const OperandTiles<E> x{reinterpret_cast<E*>(device.scratch(floats, ScratchUse::rounded)), args.x.rows, args.x.cols};
  round_operand(device, args.x, x);
  multiply_tiles(device, LinearArgs<W, OperandTiles<E>>{x, args.weight, args.bias, args.delta, args.activation,
                                                        args.residual, args.y});
}

}  // namespace cuda

template <cuda::HasOperandTiles W, class E, class Y>
void linear(Cuda& device, const LinearArgs<W, OperandTiles<E>, Y>& args) {
  if (args.x.rows > 0) cuda::multiply_tiles(device, args);
}

}  // namespace tenon
