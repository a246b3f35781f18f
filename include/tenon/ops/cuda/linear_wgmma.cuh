// The products of linear_mma.cuh for many rows on sm_90: warpgroups of 64 tokens, in the same order.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tenon/ops/cuda/linear_mma.cuh"
#include "tenon/ops/cuda/wgmma.cuh"

namespace tenon::cuda {

inline constexpr int kGroupThreads = 128, kGroupTokens = 64;
template <int Groups>
inline constexpr int kFillWarps = Groups == 1 ? 2 : 1;

/// Groups warpgroups of 64 tokens each, and one or two warps that fill the ring. All share `Outputs` rows of weights. A
/// block walks over tiles; the ring fills with the next tile while the sums of one are finished.
template <class E, int Groups, int Outputs, class Y>
__global__ void __launch_bounds__(Groups* kGroupThreads + 32 * kFillWarps<Groups>, Groups <= 2 ? 2 : 1)
    wgmma_kernel(const __grid_constant__ PairJob<Y> job, OperandTiles<const E> x, OperandTiles<const E> w,
                 int stage_count, int across, int tiles) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(128) std::byte ring_stages[];
  __shared__ StageRing ring;
  constexpr int kGroupBlocks = kGroupTokens / kCoreRows, kWeights = Outputs / kCoreRows;
  const StageShape shape{kWeights, Groups * kGroupBlocks, stage_count};
  const TileWalk walk{static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x), tiles, across,
                      shape.weight_blocks,          shape.token_blocks};
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, group = warp / 4;
  ring.begin(shape.stages, 2, Groups);
  if (group == Groups) return fill_ring<kFillWarps<Groups>, 1>(ring, ring_stages, shape, x, w, walk, warp - 4 * Groups);

  const bool reports = threadIdx.x % kGroupThreads == 0;  // whether it reports that its group has read a stage
  const std::uint32_t first_stage = shared_address(ring_stages);
  const int chunks = chunk_count(x.cols);
  RingPlace at;
  wait_for_earlier();
  for (int i = 0, own = walk.own(); i < own; ++i) {
    float sums[kWeights][4] = {};
    const auto token = [&] { return (walk.first_x(i) + group * kGroupBlocks + warp % 4 * 2) * kCoreRows + lane / 4; };
    const auto output = [&] { return walk.first_w(i) * kCoreRows + 2 * (lane % 4); };
    PairTerms<Y, Groups == 1 ? kWeights : 0> terms;  // larger tiles have no registers left
    terms.load(job, token(), output());
    for (int c = 0; c < chunks; ++c, at.next(shape.stages)) {
      ring.full[at.stage].wait(at.turn);
      const std::uint32_t stage = first_stage + at.stage * shape.bytes();
      const std::uint64_t weights = matrix_descriptor(stage);
      const std::uint64_t tokens = matrix_descriptor(stage + (kWeights + group * kGroupBlocks) * kChunkBytes);
      begin_products();
#pragma unroll
      for (int step = 0; step < kChunkColumns / 16; ++step) {
        multiply_group<E>(sums, tokens + step * kDescriptorStep, weights + step * kDescriptorStep);
      }
      end_products();
      wait_for_products<1>();
      if (c > 0 && reports) ring.empty[at.before(shape.stages)].arrive();  // this stage's products may still run
    }
    wait_for_products<0>();
    for_registers_of_products(sums);
    if (reports) ring.empty[at.before(shape.stages)].arrive();
    finish_pairs(job, token(), output(), sums, terms);
  }
#endif
}

}  // namespace tenon::cuda
