// Attention over any cache: sixteen threads walk the keys as the CPU's lanes do, for up to eight queries that share them.
// Where there are fewer such jobs than the device could take, splits of a text go to threads of their own, and are combined
// in the CPU's order: no bit depends on how many did.
#pragma once
#include <algorithm>
#include <cstddef>
#include <limits>

#include "tenon/device/cuda.cuh"
#include "tenon/ops/args.h"
#include "tenon/ops/attention.h"
#include "tenon/ops/cuda/lanes.cuh"
#include "tenon/ops/cuda/sequences.cuh"

namespace tenon {
namespace cuda {

// Finds tiles by a call that the compiler sees through: the stack of one that it does not is not known when a kernel begins.
template <class V>
struct QueryJob : cpu::FlashJob<typename V::Element> {
  __device__ static void tiles(const void* view, int layer, int sequence, int head, int first, int count,
                               KvTile<const typename V::Element>* out) {
    for (int i = 0; i < count; ++i) {
      const auto tile = static_cast<const V*>(view)->tile(layer, sequence, head, first + i);
      out[i] = {tile.keys, tile.values, tile.key_scales, tile.value_scales};
    }
  }
};

// Rows of sequence s from `row` on, and heads from `head` on that share keys and values.
template <class V>
__device__ QueryJob<V> query_job(const AttentionArgs<V>& args, const SequenceRows& s, int row, int rows, int head, int heads) {
  return {{.q = args.q.row(row) + head * args.head_dim,
           .q_stride = args.q.stride,
           .rows = rows,
           .heads = heads,
           .first_position = s.start + row - s.first_row,
           .window = args.window,
           .slopes = args.slopes ? args.slopes + head : nullptr,
           .head_dim = args.head_dim,
           .value_stride = (args.head_dim + kTilePositions - 1) / kTilePositions * kTilePositions,
           .scale = args.scale,
           .view = &args.kv,
           .tiles = nullptr,
           .layer = args.layer,
           .sequence = s.slot,
           .head = head / (args.heads / args.kv_heads),
           .out = args.out.row(row) + head * args.head_dim,
           .out_stride = args.out.stride}};
}

// Of so many queries, a multiple of 16.
inline int scratch_floats(int queries, int head_dim) { return (static_cast<int>(cpu::attention_scratch(queries, head_dim)) + 15) / 16 * 16; }

// How the queries of a step are cut into jobs of sixteen threads, a block having lanes::kRowsABlock of them.
struct FlashGrid {
  int rows, heads;            // of a job, at most
  int row_parts, head_parts;  // jobs for a tile of rows, and for the heads that share keys and values
  int jobs;
  int parts;                  // that walk a job's splits; a power of 2
  int rounds;                 // in which all have done theirs
  int scratch;                // floats of a part

  template <class V>
  FlashGrid(const AttentionArgs<V>& args, int processors) {
    const int group = args.heads / args.kv_heads;
    // What every device since sm_80 lets a block have that asks for it.
    int most = lanes::kAttentionQueries;
    while (most > 1 && scratch_floats(most, args.head_dim) * lanes::kRowsABlock * static_cast<int>(sizeof(float)) > 96 * 1024) most /= 2;
    const int tile = args.batch.tile_count == args.batch.rows ? 1 : Cuda::rows_together;  // rows, at most
    heads = std::min(group, most);
    rows = std::min(tile, most / heads);
    head_parts = (group + heads - 1) / heads;
    row_parts = (tile + rows - 1) / rows;
    scratch = scratch_floats(rows * heads, args.head_dim);
    jobs = args.batch.tile_count * row_parts * args.kv_heads * head_parts;
    // At most, of what the rows of a tile see.
    int splits = (args.batch.longest + lanes::kSplitPositions - 1) / lanes::kSplitPositions;
    if (args.window > 0) splits = std::min(splits, (args.window + tile - 2) / lanes::kSplitPositions + 2);
    constexpr int kThreadsAProcessor = 1024;
    parts = 1;
    while (parts < lanes::kRowsABlock && parts < splits && jobs * parts * 16 < processors * kThreadsAProcessor) parts *= 2;
    rounds = (splits + parts - 1) / parts;
  }

  // Jobs that lie side by side read the same keys, or those of the same head.
  template <class V>
  __device__ QueryJob<V> job(const AttentionArgs<V>& args, int i) const {
    const int part = i % row_parts, tiles = args.batch.tile_count;
    const RowTile tile = args.batch.tiles[i / row_parts % tiles];
    const int of_heads = i / row_parts / tiles, group = args.heads / args.kv_heads;
    const int first = of_heads % head_parts * heads, row = part * rows;
    return query_job(args, args.batch.sequences[tile.sequence], tile.first_row + row, min(rows, tile.rows - row),
                     of_heads / head_parts * group + first, min(heads, group - first));
  }
};

// What combines a split with those before it; the rest of a split lies in its part's scratch.
struct SplitState {
  float largest, sum;
};

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
// comes here, with a job or without. states: [parts, kAttentionQueries] of the job; parts lie grid.scratch floats apart.
template <class V>
__device__ void flash_parts(const FlashGrid& grid, const QueryJob<V>& job, bool has_job, int part, float* scratch, SplitState* states) {
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
        lanes::add_split(queries[i], own + p * grid.scratch + i * width, width, total + i * width);
      }
    }
    __syncthreads();
  }
  for (int i = 0; part == 0 && i < count; ++i) {
    lanes::write_query(job, i, total + i * width, lanes::broadcast(queries[i].total_sum));
  }
}

template <CacheView V>
__global__ void __launch_bounds__(lanes::kThreads) flash_kernel(AttentionArgs<V> args, FlashGrid grid) {
  wait_for_earlier();
  extern __shared__ float shared[];
  __shared__ SplitState states[lanes::kRowsABlock * lanes::kAttentionQueries];
  const int half_warp = static_cast<int>(threadIdx.x) / 16, part = half_warp % grid.parts;
  const int i = static_cast<int>(blockIdx.x) * (lanes::kRowsABlock / grid.parts) + half_warp / grid.parts;
  float* scratch = shared + half_warp * grid.scratch;
  QueryJob<V> job = {};
  if (i < grid.jobs) job = grid.job(args, i);
  const bool has_job = job.rows > 0;  // a short tile has fewer parts
  if (grid.parts > 1) flash_parts(grid, job, has_job, part, scratch, states + (half_warp - part) * lanes::kAttentionQueries);
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

template <class V>
void check_batch(const AttentionArgs<V>& args) {
  if (args.batch.rows > 0 && (args.batch.longest <= 0 || args.batch.tile_count <= 0)) {
    throw Error(Error::Kind::internal, "attention", "the batch was not put on the device: on_device() says how long its texts are, and cuts tiles");
  }
}

}  // namespace cuda

template <cuda::ViewOnDevice V>
void attention(Cuda& device, FlashAttention, const AttentionArgs<V>& args) {
  cuda::check_batch(args);
  const cuda::FlashGrid grid(args, device.processors());
  const dim3 blocks = cuda::blocks(static_cast<std::size_t>(grid.jobs) * static_cast<std::size_t>(grid.parts), cuda::lanes::kRowsABlock);
  device.launch_early("attention", cuda::flash_kernel<V>, blocks, cuda::lanes::kThreads,
                sizeof(float) * static_cast<std::size_t>(grid.scratch) * cuda::lanes::kRowsABlock, args, grid);
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
