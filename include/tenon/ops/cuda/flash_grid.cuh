// The queries of a step as jobs of flash attention, and where a job finds keys, values and room for its answer.
#pragma once
#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "tenon/device/cuda.cuh"
#include "tenon/ops/args.h"
#include "tenon/ops/cuda/lanes.cuh"
#include "tenon/ops/cuda/sequences.cuh"

namespace tenon::cuda {

// Finds tiles by a call that the compiler sees through: the stack of one that it does not is not known when a kernel
// begins.
template <class V>
struct QueryJob : cpu::FlashJob<typename V::Element> {
  int first_row, first_head;  // of the batch, of all heads

  __device__ static void tiles(const void* view, int layer, int sequence, int head, int first, int count,
                               KvTile<const typename V::Element>* out) {
    for (int i = 0; i < count; ++i) {
      const auto tile = static_cast<const V*>(view)->tile(layer, sequence, head, first + i);
      out[i] = {tile.keys, tile.values, tile.key_scales, tile.value_scales};
    }
  }
};

// Rows of sequence s from `row` on, and heads from `head` on that share keys and values. Where the answer is not
// floats, `out` is null.
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
           .out_stride = out_stride},
          row,
          head};
}

// What a kernel takes: queries of a job, at most; jobs of a block; and threads of one.
struct JobSize {
  int queries, a_block, threads;
};

// How the queries of a step are cut into jobs.
struct FlashGrid {
  int rows, heads;            // of a job, at most
  int row_parts, head_parts;  // jobs for a tile of rows, and for the heads that share keys and values
  int jobs;
  int parts;        // that walk a job's splits beside one another, in one block; a power of 2
  int rounds;       // in which all have done theirs
  int block_parts;  // of all its jobs

  template <class V, class Out>
  FlashGrid(const AttentionArgs<V, Out>& args, int processors, JobSize size) : block_parts(size.a_block) {
    const int group = args.heads / args.kv_heads;
    const int tile = args.batch.tile_count == args.batch.rows ? 1 : args.batch.tile_rows;  // rows, at most
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

  // Pieces of `size` positions that a tile's rows see, at most.
  template <class V, class Out>
  static int pieces(const AttentionArgs<V, Out>& args, int size) {
    const int tile = args.batch.tile_count == args.batch.rows ? 1 : args.batch.tile_rows,
              all = (args.batch.longest + size - 1) / size;
    return args.window > 0 ? std::min(all, (args.window + tile - 2) / size + 2) : all;
  }

  dim3 blocks() const {
    return cuda::blocks(static_cast<std::size_t>(jobs) * static_cast<std::size_t>(parts), block_parts);
  }

  // Jobs that lie side by side read the same keys, or those of the same head.
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

// What combines a split with those before it; the rest of a split lies in its part's scratch.
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
