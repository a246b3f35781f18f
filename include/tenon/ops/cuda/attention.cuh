// Attention over any cache: sixteen threads walk the keys as the CPU's lanes do, for up to eight queries that share them.
// Where there are fewer such jobs than the device could take, splits of a text go to threads of their own, and are combined
// in the CPU's order: no bit depends on how many did.
#pragma once
#include <cstddef>
#include <limits>

#include "tenon/device/cuda.cuh"
#include "tenon/ops/args.h"
#include "tenon/ops/attention.h"
#include "tenon/ops/cuda/flash_grid.cuh"
#include "tenon/ops/cuda/lanes.cuh"
#include "tenon/ops/cuda/sequences.cuh"

namespace tenon {
namespace cuda {

// Of so many queries, a multiple of 16.
inline int scratch_floats(int queries, int head_dim) { return (static_cast<int>(cpu::attention_scratch(queries, head_dim)) + 15) / 16 * 16; }

// The split at position `split`, of which the job's queries see some: `largest` and `sums` of each, and part [count, width]. What
// the loop of flash_rows does, a second time: as a function of both it made decoding on a CPU some 8 % slower, since GCC
// inlined otherwise.
template <class V>
__device__ void flash_split(const QueryJob<V>& job, lanes::Range seen, int split, const float* q, float* weights, lanes::Query* queries,
                            float* part) {
  constexpr int kTiles = lanes::kSplitPositions / kTilePositions;
  const int count = job.rows * job.heads, left = (seen.end - split + kTilePositions - 1) / kTilePositions;
  KvTile<const typename V::Element> tiles[kTiles];
  lanes::find_tiles(job, split / kTilePositions, seen.begin / kTilePositions, min(left, kTiles), tiles);
  for (int i = 0; i < count; ++i) {
    queries[i].largest = -std::numeric_limits<float>::infinity();
    queries[i].sums = lanes::zero();
  }
  for (int d = 0; d < count * job.value_stride; d += 16) lanes::store(part + d, lanes::zero());
  const lanes::Range here = seen.in(split, lanes::kSplitPositions);
  for (int first = here.begin / lanes::kStride * lanes::kStride; first < here.end; first += lanes::kStride) {
    lanes::flash_queries(job, tiles + first / kTilePositions, split + first, count, q, weights, queries, part);
  }
}

// The splits of a job by `parts` half-warps, of which this is number `part`; the first combines them. Every thread of a block
// comes here, with a job or without. states: [parts, kAttentionQueries] of the job; parts lie `apart` floats apart.
template <class V>
__device__ void flash_parts(const FlashGrid& grid, const QueryJob<V>& job, bool has_job, int part, float* scratch, int apart,
                            SplitState* states) {
  const int count = has_job ? job.rows * job.heads : 0, width = job.value_stride;
  float* weights = scratch;                                 // [kQueries, kStride]
  float* q = weights + lanes::kQueries * lanes::kStride;    // [count, head_dim]
  float* own = q + count * job.head_dim;                    // [count, width]
  float* total = own + count * width;                       // [count, width], of the first part
  lanes::Query queries[lanes::kAttentionQueries];
  for (int i = 0; i < count; ++i) {
    queries[i] = lanes::query_of(job, i);
    lanes::scale_query(job, i, q + i * job.head_dim);
  }
  for (int d = 0; part == 0 && d < count * width; d += 16) lanes::store(total + d, lanes::zero());
  lanes::fence();
  const lanes::Range seen = has_job ? lanes::Range{queries[0].seen.begin, queries[count - 1].seen.end} : lanes::Range{0, 0};
  const int first = seen.begin / lanes::kSplitPositions * lanes::kSplitPositions;
  for (int round = 0; round < grid.rounds; ++round) {
    const int round_first = first + round * grid.parts * lanes::kSplitPositions, split = round_first + part * lanes::kSplitPositions;
    if (split < seen.end) {
      flash_split(job, seen, split, q, weights, queries, own);
      for (int i = 0; i < count; ++i) {
        const float sum = lanes::sum(queries[i].sums);
        if (lanes::lane() == 0) states[part * lanes::kAttentionQueries + i] = {queries[i].largest, sum};
      }
    }
    __syncthreads();
    for (int p = 0; part == 0 && p < grid.parts; ++p) {
      for (int i = 0; i < count; ++i) {
        if (queries[i].seen.in(round_first + p * lanes::kSplitPositions, lanes::kSplitPositions).empty()) continue;
        const SplitState state = states[p * lanes::kAttentionQueries + i];
        queries[i].largest = state.largest;
        queries[i].sums = {lanes::lane() == 0 ? state.sum : 0.0f};  // which add up to what they are
        lanes::add_split(queries[i], own + p * apart + i * width, width, total + i * width);
      }
    }
    __syncthreads();
  }
  for (int i = 0; part == 0 && i < count; ++i) {
    lanes::write_query(job, i, total + i * width, lanes::broadcast(queries[i].total_sum));
  }
}

template <CacheView V>
__global__ void __launch_bounds__(lanes::kThreads) flash_kernel(AttentionArgs<V> args, FlashGrid grid, int apart) {
  wait_for_earlier();
  extern __shared__ float shared[];
  __shared__ SplitState states[lanes::kRowsABlock * lanes::kAttentionQueries];
  const int half_warp = static_cast<int>(threadIdx.x) / 16, part = half_warp % grid.parts;
  const int i = static_cast<int>(blockIdx.x) * (lanes::kRowsABlock / grid.parts) + half_warp / grid.parts;
  float* scratch = shared + half_warp * apart;
  QueryJob<V> job = {};
  if (i < grid.jobs) job = grid.job(args, i);
  const bool has_job = job.rows > 0;  // a short tile has fewer parts
  if (grid.parts > 1) flash_parts(grid, job, has_job, part, scratch, apart, states + (half_warp - part) * lanes::kAttentionQueries);
  else if (has_job) lanes::flash_rows(job, scratch);
}

// scores: [queries, positions]
template <CacheView V>
__global__ void direct_kernel(AttentionArgs<V> args, int scratch, float* scores, int positions) {
  wait_for_earlier();
  extern __shared__ float shared[];
  const int i = lanes::job_of_thread();
  if (i >= args.batch.rows * args.heads) return;
  const int row = i / args.heads, head = i % args.heads;
  lanes::direct_row(query_job(args, sequence_of(args.batch, row), row, 1, head, 1), scores + static_cast<std::ptrdiff_t>(i) * positions,
                    shared + static_cast<int>(threadIdx.x) / 16 * scratch);
}

}  // namespace cuda

template <cuda::ViewOnDevice V>
void attention(Cuda& device, FlashAttention, const AttentionArgs<V>& args) {
  cuda::check_batch(args);
  const auto bytes = [&](int queries) {
    return sizeof(float) * static_cast<std::size_t>(cuda::scratch_floats(queries, args.head_dim)) * cuda::lanes::kRowsABlock;
  };
  // What every device since sm_80 lets a block have that asks for it.
  int most = cuda::lanes::kAttentionQueries;
  while (most > 1 && bytes(most) > 96 * 1024) most /= 2;
  const cuda::FlashGrid grid(args, device.processors(), {.queries = most, .a_block = cuda::lanes::kRowsABlock, .threads = 16});
  const int queries = grid.rows * grid.heads;
  device.launch_early("attention", cuda::flash_kernel<V>, grid.blocks(), cuda::lanes::kThreads, bytes(queries), args, grid,
                      cuda::scratch_floats(queries, args.head_dim));
}

template <cuda::ViewOnDevice V>
void attention(Cuda& device, DirectAttention, const AttentionArgs<V>& args) {
  cuda::check_batch(args);
  const std::size_t queries = static_cast<std::size_t>(args.batch.rows) * static_cast<std::size_t>(args.heads);
  const int scratch = cuda::scratch_floats(1, args.head_dim), positions = (args.batch.longest + 63) / 64 * 64;
  float* scores = device.scratch(queries * static_cast<std::size_t>(positions));
  device.launch_early("attention", cuda::direct_kernel<V>, cuda::lanes::blocks_for(queries), cuda::lanes::kThreads,
                sizeof(float) * static_cast<std::size_t>(scratch) * cuda::lanes::kRowsABlock, args, scratch, scores, positions);
}

}  // namespace tenon
