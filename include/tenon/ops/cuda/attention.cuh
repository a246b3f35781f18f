// Attention over any cache. Sixteen threads walk the keys like the CPU's lanes, for up to eight queries that share
// them. With fewer such jobs than the device could take, splits of a text go to threads of their own and are combined
// in the CPU's order. No bit depends on their number. For single rows, a stride of keys and values is copied into
// shared memory before it is walked.
#pragma once
#include <cstddef>
#include <limits>

#include "tenon/device/cuda.cuh"
#include "tenon/ops/args.h"
#include "tenon/ops/attention.h"
#include "tenon/ops/cuda/attention_block.cuh"
#include "tenon/ops/cuda/flash_grid.cuh"
#include "tenon/ops/cuda/lanes.cuh"
#include "tenon/ops/cuda/sequences.cuh"
#include "tenon/ops/cuda/staged.cuh"

namespace tenon {
namespace cuda {

/// Floats of scratch for `queries` queries, a multiple of 16.
inline int scratch_floats(int queries, int head_dim) {
  return (static_cast<int>(cpu::attention_scratch(queries, head_dim)) + 15) / 16 * 16;
}

/// Bytes of a stride of keys and values in staged()'s layout.
template <class E>
TENON_HD constexpr int stride_bytes(int head_dim, int value_stride) {
  const int elements = kTilePositions * (head_dim + value_stride) * static_cast<int>(sizeof(E));
  return lanes::kStrideTiles * (elements + (has_scales<E> ? 2 * kTilePositions * static_cast<int>(sizeof(float)) : 0));
}

/// Copies `count` tiles of a stride to `memory` by the threads of a half-warp. `to` gets their new places.
template <class V>
__device__ void staged(const QueryJob<V>& job, const KvTile<const typename V::Element>* tiles, int count,
                       std::byte* memory, KvTile<const typename V::Element> (&to)[lanes::kStrideTiles]) {
  using E = typename V::Element;
  const auto copy = [&](const auto* from, int elements) {
    const int bytes = elements * static_cast<int>(sizeof(*from));
    copy_by(memory, from, bytes, lanes::lane(), 16);
    const auto* there = reinterpret_cast<decltype(from)>(memory);
    memory += bytes;
    return there;
  };
  lanes::fence();  // all threads have walked the previous stride
  for (int j = 0; j < count; ++j) {
    to[j].keys = copy(tiles[j].keys, kTilePositions * job.head_dim);
    to[j].values = copy(tiles[j].values, kTilePositions * job.value_stride);
    if constexpr (has_scales<E>) {
      to[j].key_scales = copy(tiles[j].key_scales, kTilePositions);
      to[j].value_scales = copy(tiles[j].value_scales, kTilePositions);
    }
  }
  end_copies();
  wait_for_copies<0>();
  lanes::fence();
}

/// Attends the split at position `split`, of which the job's queries see some: `largest` and `sums` of each, and part
/// [count, width]. It repeats the loop of flash_rows, because as one shared function GCC inlined it differently and
/// decoding on a CPU was some 8 % slower. stage: [stride_bytes] if Staged.
template <bool Staged, class V>
__device__ void flash_split(const QueryJob<V>& job, lanes::Range seen, int split, const float* q, float* weights,
                            lanes::Query* queries, float* part, std::byte* stage) {
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
    const auto* of_stride = tiles + first / kTilePositions;
    if constexpr (Staged) {
      KvTile<const typename V::Element> near[lanes::kStrideTiles];
      staged(job, of_stride, min((here.end - first + kTilePositions - 1) / kTilePositions, lanes::kStrideTiles), stage,
             near);
      lanes::flash_queries(job, near, split + first, count, q, weights, queries, part);
    } else {
      lanes::flash_queries(job, of_stride, split + first, count, q, weights, queries, part);
    }
  }
}

/// Attends the splits of a job by `parts` half-warps, of which this is number `part`; the first combines them. Every
/// thread of a block calls it, with a job or without. states: [parts, kAttentionQueries] of the job. Parts lie `apart`
/// floats apart, each part's stage `stage` floats after its scratch memory.
template <bool Staged, class V>
__device__ void flash_parts(const FlashGrid& grid, const QueryJob<V>& job, bool has_job, int part, float* scratch,
                            int apart, int stage, SplitState* states) {
  const int count = has_job ? job.rows * job.heads : 0, width = job.value_stride;
  float* weights = scratch;                               // [kQueries, kStride]
  float* q = weights + lanes::kQueries * lanes::kStride;  // [count, head_dim]
  float* own = q + count * job.head_dim;                  // [count, width]
  float* total = own + count * width;                     // [count, width], of the first part
  lanes::Query queries[lanes::kAttentionQueries];
  for (int i = 0; i < count; ++i) {
    queries[i] = lanes::query_of(job, i);
    lanes::scale_query(job, i, q + i * job.head_dim);
  }
  for (int d = 0; part == 0 && d < count * width; d += 16) lanes::store(total + d, lanes::zero());
  lanes::fence();
  const lanes::Range seen =
      has_job ? lanes::Range{queries[0].seen.begin, queries[count - 1].seen.end} : lanes::Range{0, 0};
  const int first = seen.begin / lanes::kSplitPositions * lanes::kSplitPositions;
  for (int round = 0; round < grid.rounds; ++round) {
    const int round_first = first + round * grid.parts * lanes::kSplitPositions,
              split = round_first + part * lanes::kSplitPositions;
    if (split < seen.end) {
      flash_split<Staged>(job, seen, split, q, weights, queries, own, reinterpret_cast<std::byte*>(scratch + stage));
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
        queries[i].sums = {lanes::lane() == 0 ? state.sum : 0.0f};  // add up to the split's sum
        lanes::add_split(queries[i], own + p * apart + i * width, width, total + i * width);
      }
    }
    __syncthreads();
  }
  for (int i = 0; part == 0 && i < count; ++i) {
    const float divisor = lanes::divisor_of(job, i, queries[i].total_largest, queries[i].total_sum);
    lanes::write_query(job, i, total + i * width, lanes::broadcast(divisor));
  }
}

/// stage: floats of a half-warp's scratch memory before its stage; apart: including it.
template <bool Staged, CacheView V>
__global__ void __launch_bounds__(lanes::kThreads)
    flash_kernel(AttentionArgs<V> args, FlashGrid grid, int stage, int apart) {
  wait_for_earlier();
  extern __shared__ __align__(16) float shared[];
  __shared__ SplitState states[lanes::kRowsABlock * lanes::kAttentionQueries];
  const int half_warp = static_cast<int>(threadIdx.x) / 16, part = half_warp % grid.parts;
  const int i = static_cast<int>(blockIdx.x) * (grid.block_parts / grid.parts) + half_warp / grid.parts;
  float* scratch = shared + half_warp * apart;
  QueryJob<V> job = {};
  if (i < grid.jobs) job = grid.job(args, i);
  const bool has_job = job.rows > 0;  // a short tile has fewer parts
  if (Staged || grid.parts > 1) {
    flash_parts<Staged>(grid, job, has_job, part, scratch, apart, stage,
                        states + (half_warp - part) * lanes::kAttentionQueries);
  } else if (has_job) {
    lanes::flash_rows(job, scratch);
  }
}

/// scores: [queries, positions]
template <CacheView V>
__global__ void direct_kernel(AttentionArgs<V> args, int scratch, float* scores, int positions) {
  wait_for_earlier();
  extern __shared__ float shared[];
  const int i = lanes::job_of_thread();
  if (i >= args.batch.rows * args.heads) return;
  const int row = i / args.heads, head = i % args.heads;
  lanes::direct_row(query_job(args, sequence_of(args.batch, row), row, 1, head, 1),
                    scores + static_cast<std::ptrdiff_t>(i) * positions,
                    shared + static_cast<int>(threadIdx.x) / 16 * scratch);
}

/// Whether splits of a text are attended in parallel, which blocks that copy keys for many queries do not. H200, GPT-2,
/// one row after 512 tokens: 338 us more than after 7, 399 without.
template <class V>
bool parts_its_splits(const AttentionArgs<V>& args, int processors) {
  return args.batch.longest > cpu::kSplitPositions && 2 * args.batch.tile_count * args.kv_heads <= processors;
}

}  // namespace cuda

template <cuda::ViewOnDevice V>
void attention(Cuda& device, FlashAttention, const AttentionArgs<V>& args) {
  cuda::check_batch(args);
  const bool single_rows = args.batch.tile_count == args.batch.rows;
  if (args.head_dim <= cuda::kBlockDims && !(single_rows && cuda::parts_its_splits(args, device.processors()))) {
    const bool few = single_rows && args.heads / args.kv_heads <= cuda::kQueryTiles;
    return few ? cuda::launch_flash_block<1>(device, args) : cuda::launch_flash_block<4>(device, args);
  }
  const auto launch = [&]<bool Staged>(std::bool_constant<Staged>, const cuda::FlashGrid& grid, int stage_bytes) {
    const int stage = cuda::scratch_floats(grid.rows * grid.heads, args.head_dim),
              apart = stage + stage_bytes / static_cast<int>(sizeof(float));
    device.launch_early("attention", cuda::flash_kernel<Staged, V>, grid.blocks(), 16 * grid.block_parts,
                        sizeof(float) * static_cast<std::size_t>(apart * grid.block_parts), args, grid, stage, apart);
  };
  const auto bytes = [&](int queries) {
    return static_cast<int>(sizeof(float)) * cuda::scratch_floats(queries, args.head_dim);
  };
  // every device since sm_80 allows a block this much on request
  constexpr int kBlockBytes = 96 * 1024;
  const int stride = cuda::stride_bytes<typename V::Element>(
      args.head_dim, (args.head_dim + kTilePositions - 1) / kTilePositions * kTilePositions);
  int most = cuda::lanes::kAttentionQueries;
  for (int jobs = 4; jobs > 1 && single_rows; jobs /= 2) {
    if (jobs * (bytes(most) + stride) > kBlockBytes) continue;
    return launch(std::true_type{},
                  cuda::FlashGrid(args, device.processors(), {.queries = most, .a_block = jobs, .threads = 16}),
                  stride);
  }
  while (most > 1 && bytes(most) * cuda::lanes::kRowsABlock > kBlockBytes) most /= 2;
  launch(
      std::false_type{},
      cuda::FlashGrid(args, device.processors(), {.queries = most, .a_block = cuda::lanes::kRowsABlock, .threads = 16}),
      0);
}

template <cuda::ViewOnDevice V>
void attention(Cuda& device, DirectAttention, const AttentionArgs<V>& args) {
  cuda::check_batch(args);
  const std::size_t queries = static_cast<std::size_t>(args.batch.rows) * static_cast<std::size_t>(args.heads);
  const int scratch = cuda::scratch_floats(1, args.head_dim), positions = (args.batch.longest + 63) / 64 * 64;
  float* scores = device.scratch(queries * static_cast<std::size_t>(positions));
  device.launch_early("attention", cuda::direct_kernel<V>, cuda::lanes::blocks_for(queries), cuda::lanes::kThreads,
                      sizeof(float) * static_cast<std::size_t>(scratch) * cuda::lanes::kRowsABlock, args, scratch,
                      scores, positions);
}

}  // namespace tenon
