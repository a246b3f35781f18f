// Attention on tensor cores. A numeric class of its own, with this order of sums:
// - Queries, keys, weights and values are rounded to the cache's element if it has sixteen bits, else to bfloat16.
// - A score is one sum over the elements of a head, in ascending steps of sixteen.
// - Each stride of 64 keys at a multiple of 64 has a softmax of its own: its largest score and the sum of its rounded
//   weights. It has one sum of weighted values per element, in ascending steps of sixteen positions.
// - Strides are combined in ascending order, and divided by the sum of weights at the end.
//
// A value that a query does not see enters its sums as a product with zero. So no bit depends on other queries, nor on
// the warp that has a stride. A block's warps take strides of few queries in turn, or sixteen queries each of many.
#pragma once
#include <algorithm>
#include <string>

#include "tenon/device/cuda.cuh"
#include "tenon/ops/args.h"
#include "tenon/ops/attention.h"
#include "tenon/ops/cuda/attention_jobs.cuh"
#include "tenon/ops/cuda/attention_stride.cuh"
#include "tenon/ops/cuda/flash_grid.cuh"
#include "tenon/ops/cuda/operand.cuh"

namespace tenon {
namespace cuda {

inline constexpr int kMostFlashThreads = 256;

/// Late rows of a text see the most, so they begin first.
template <int Dims, CacheView V, class Out>
__global__ void __launch_bounds__(kMostFlashThreads)
    flash_decode_kernel(const __grid_constant__ AttentionArgs<V, Out> args, FlashGrid grid, int stages, int room) {
  extern __shared__ __align__(16) float shared[];
  wait_for_earlier();
  const QueryJob<V> job = grid.job(args, grid.jobs - 1 - static_cast<int>(blockIdx.x));
  if (job.rows <= 0) return;  // a short tile has fewer parts
  const FlashMemory<Dims> memory(shared, stages, room);
  StridesApart<Dims, V, Out>{args, job, memory, stages, room}.run();
}

/// Not inlined, so that its registers do not add to those of QueriesApart, which then spilled 28.
template <int Dims, class V, class Out>
__noinline__ __device__ void attend_few(const AttentionArgs<V, Out>& args, const FlashGrid& grid, int i, float* shared,
                                        int stages, int room) {
  const QueryJob<V> job = grid.job(args, i);
  const FlashMemory<Dims> memory(shared, stages, room);
  StridesApart<Dims, V, Out>{args, job, memory, stages, room}.run();
}

template <int Dims, CacheView V, class Out>
__global__ void __launch_bounds__(32 * kFlashWarps, Dims <= 64 ? 3 : 2)
    flash_prompt_kernel(const __grid_constant__ AttentionArgs<V, Out> args, const __grid_constant__ FlashGrid grid,
                        int stages, int room) {
  extern __shared__ __align__(16) float shared[];
  wait_for_earlier();
  const int i = grid.jobs - 1 - static_cast<int>(blockIdx.x);
  const QueryJob<V> job = grid.job(args, i);
  if (job.rows <= 0) return;
  const int count = job.rows * job.heads;
  if (count <= kWarpQueries && count * (stages + 1) <= room)
    return attend_few<Dims>(args, grid, i, shared, stages, room);
  const FlashMemory<Dims> memory(shared, stages, room);
  QueriesApart<Dims, V, Out>{args, job, memory}.run();
}

/// Requests as much shared memory as a processor has. On an H200, one block was resident where three fit.
template <int Dims, class V, class Out>
struct FlashMemoryFirst {
  explicit FlashMemoryFirst(Cuda& device) {
    const CurrentDevice current(device.index());
    const auto prefer = [](auto kernel) {
      check(
          cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared),
          "attention");
    };
    prefer(flash_decode_kernel<Dims, V, Out>);
    if constexpr (Dims <= 128) prefer(flash_prompt_kernel<Dims, V, Out>);
  }
};

/// Launches blocks with as many warps as there are strides, or fewer if jobs fill the device. No bit depends on it.
template <int Dims, class V, class Out>
void launch_flash_decode(Cuda& device, const AttentionArgs<V, Out>& args) {
  const FlashGrid grid(args, device.processors(),
                       {.queries = kWarpQueries, .a_block = 1, .threads = kMostFlashThreads});
  const int queries = grid.rows * grid.heads, strides = FlashGrid::pieces(args, lanes::kStride);
  const int processor_warps = kCudaTuning.flash_processor_bytes / static_cast<int>(sizeof(StrideStage<Dims>));
  const auto room = [&](int warps) {
    const int rows = (grid.jobs <= device.processors() ? 64 : 4 * warps) * 64 / Dims;
    const int kept = std::max(rows / queries - 1, warps) / warps * warps;
    return queries * (std::min(kept, std::max(strides, warps)) + 1);
  };
  const auto bytes = [&](int warps) { return FlashMemory<Dims>::bytes(warps, room(warps)); };
  int warps = kMostFlashThreads / 32;
  while (warps > 2 && (warps > strides || grid.jobs * warps > device.processors() * processor_warps)) warps /= 2;
  while (warps > 1 && device.blocks_that_fit(static_cast<int>(bytes(warps))) == 0) warps /= 2;
  device.launch_early("attention", flash_decode_kernel<Dims, V, Out>, blocks(grid.jobs), 32 * warps, bytes(warps), args,
                      grid, warps, room(warps));
}

template <int Dims, class V, class Out>
void launch_flash_prompt(Cuda& device, const AttentionArgs<V, Out>& args) {
  constexpr int kStages = 2, kRoom = 20;  // five blocks fit an H100's processor, registers aside
  const FlashGrid grid(args, device.processors(),
                       {.queries = kFlashWarps * kWarpQueries, .a_block = 1, .threads = 32 * kFlashWarps});
  device.launch_early("attention", flash_prompt_kernel<Dims, V, Out>, blocks(grid.jobs), 32 * kFlashWarps,
                      FlashMemory<Dims>::bytes(kStages, kRoom), args, grid, kStages, kRoom);
}

/// Single rows, and short prompts, whose strides are attended in parallel.
template <int Dims, class V, class Out>
void launch_flash_tensor(Cuda& device, const AttentionArgs<V, Out>& args) {
  device.template kept<FlashMemoryFirst<Dims, V, Out>>();
  if constexpr (Dims <= 128) {
    const FlashGrid grid(args, device.processors(),
                         {.queries = kWarpQueries, .a_block = 1, .threads = kMostFlashThreads});
    if (args.batch.tile_count != args.batch.rows && grid.jobs > kCudaTuning.prompt_jobs * device.processors())
      return launch_flash_prompt<Dims>(device, args);
  }
  launch_flash_decode<Dims>(device, args);
}

}  // namespace cuda

/// head_dim: at most 256. Throws Error (unsupported) otherwise.
template <cuda::ViewOnDevice V, class Out>
void attention(Cuda& device, FlashMma, const AttentionArgs<V, Out>& args) {
  cuda::check_batch(args);
  if (args.soft_cap != 0)
    throw Error(Error::Kind::unsupported, "attention", "FlashMma has no soft cap, and this model needs one");
  if (args.head_dim <= 64)
    cuda::launch_flash_tensor<64>(device, args);
  else if (args.head_dim <= 128)
    cuda::launch_flash_tensor<128>(device, args);
  else if (args.head_dim <= 256)
    cuda::launch_flash_tensor<256>(device, args);
  else
    throw Error(Error::Kind::unsupported, "head_dim",
                "FlashMma has kernels for 256 at most, and this model has " + std::to_string(args.head_dim));
}

}  // namespace tenon
