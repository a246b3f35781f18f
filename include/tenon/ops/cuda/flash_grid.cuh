// The queries of a step as jobs of flash attention, with the places of their keys, values and results.
#pragma once
#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "tenon/device/cuda.cuh"
#include "tenon/ops/args.h"
#include "tenon/ops/cuda/lanes.cuh"
#include "tenon/ops/cuda/sequences.cuh"

namespace tenon::cuda {

/// Finds tiles by a call that the compiler can see. An opaque call's stack size would be unknown at the launch.
template <class V>
struct QueryJob : cpu::FlashJob<typename V::Element> {
  int first_row, first_head;  ///< row of the batch, head among all heads

  __device__ static void tiles(const void* view, int layer, int sequence, int head, int first, int count,
                               KvTile<const typename V::Element>* out) {
    for (int i = 0; i < count; ++i) {
      const auto tile = static_cast<const V*>(view)->tile(layer, sequence, head, first + i);
      out[i] = {tile.keys, tile.values, tile.key_scales, tile.value_scales};
    }
  }
};

/// Rows of sequence s from `row` on, and heads from `head` on that share keys and values. `out` is null if the result
/// is not floats.
template <class V, class Out>
__device__ QueryJob<V> query_job(const AttentionArgs<V, Out>& args, const SequenceRows& s, int row, int rows, int head,
                                 int heads) {
  float* out = nullptr;
  std::ptrdiff_t out_stride = 0;
  if constexpr (std::is_same_v<Out, MatrixView<float>>) {
    out = args.out.row(row) + head * args.head_dim;
    out_stride = args.out.stride;
  }
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
           .out = out,
           .out_stride = out_stride,
           .soft_cap = args.soft_cap,
           .key_biases = args.key_biases ? args.key_biases + head * args.key_bias_stride : nullptr,
           .key_bias_stride = args.key_bias_stride,
           .sinks = args.sinks ? args.sinks + head : nullptr},
          row,
          head};
}

/// Limits of a kernel: queries per job, jobs per block, threads per job.
struct JobSize {
  int queries, a_block, threads;
};

/// How the queries of a step are cut into jobs.
struct FlashGrid {
  int rows, heads;            ///< most per job
  int row_parts, head_parts;  ///< jobs per tile of rows, and per group of heads that share keys and values
  int jobs;
  int parts;        ///< half-warps that attend a job's splits in parallel, in one block; a power of 2
  int rounds;       ///< rounds until all splits are done
  int block_parts;  ///< parts per block, of all its jobs

  template <class V, class Out>
  FlashGrid(const AttentionArgs<V, Out>& args, int processors, JobSize size) : block_parts(size.a_block) {
    const int group = args.heads / args.kv_heads;
    const int tile = args.batch.tile_count == args.batch.rows ? 1 : args.batch.tile_rows;  // most rows
    heads = std::min(group, size.queries);
    rows = std::min(tile, size.queries / heads);
    head_parts = (group + heads - 1) / heads;
    row_parts = (tile + rows - 1) / rows;
    jobs = args.batch.tile_count * row_parts * args.kv_heads * head_parts;
    const int splits = pieces(args, lanes::kSplitPositions);
    parts = 1;
    while (parts < block_parts && parts < splits &&
           jobs * parts * size.threads < processors * kCudaTuning.processor_threads)
      parts *= 2;
    rounds = (splits + parts - 1) / parts;
  }

  /// Most pieces of `size` positions that a tile's rows see.
  template <class V, class Out>
  static int pieces(const AttentionArgs<V, Out>& args, int size) {
    const int tile = args.batch.tile_count == args.batch.rows ? 1 : args.batch.tile_rows,
              all = (args.batch.longest + size - 1) / size;
    return args.window > 0 ? std::min(all, (args.window + tile - 2) / size + 2) : all;
  }

  dim3 blocks() const {
    return cuda::blocks(static_cast<std::size_t>(jobs) * static_cast<std::size_t>(parts), block_parts);
  }

  /// Neighbouring jobs read the same keys, or keys of the same head.
  template <class V, class Out>
  __device__ QueryJob<V> job(const AttentionArgs<V, Out>& args, int i) const {
    const int part = i % row_parts, tiles = args.batch.tile_count;
    const RowTile tile = args.batch.tiles[i / row_parts % tiles];
    const int of_heads = i / row_parts / tiles, group = args.heads / args.kv_heads;
    const int first = of_heads % head_parts * heads, row = part * rows;
    return query_job(args, args.batch.sequences[tile.sequence], tile.first_row + row, min(rows, tile.rows - row),
                     of_heads / head_parts * group + first, min(heads, group - first));
  }
};

/// State that combines a split with earlier ones; the rest of a split lies in its part's scratch memory.
struct SplitState {
  float largest, sum;
};

template <class V, class Out>
void check_batch(const AttentionArgs<V, Out>& args) {
  if (args.batch.rows > 0 && (args.batch.longest <= 0 || args.batch.tile_count <= 0)) {
    throw Error(Error::Kind::internal, "attention",
                "the batch was not put on the device: on_device() says how long its texts are, and cuts tiles");
  }
}

}  // namespace tenon::cuda
