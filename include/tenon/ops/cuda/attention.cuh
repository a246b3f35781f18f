// Attention over any cache: sixteen threads a query, which walk its keys as the CPU's lanes do.
#pragma once
#include <cstddef>

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

// One row, one head.
template <class V>
__device__ QueryJob<V> query_job(const AttentionArgs<V>& args, int row, int head) {
  const SequenceRows& s = sequence_of(args.batch, row);
  return {{.q = args.q.row(row) + head * args.head_dim,
          .q_stride = args.q.stride,
          .rows = 1,
          .heads = 1,
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

// scratch: of one query, a multiple of 16 floats.
template <CacheView V>
__global__ void flash_kernel(AttentionArgs<V> args, int scratch) {
  extern __shared__ float shared[];
  const int i = lanes::job_of_thread();
  if (i >= args.batch.rows * args.heads) return;
  lanes::flash_rows(query_job(args, i / args.heads, i % args.heads), shared + static_cast<int>(threadIdx.x) / 16 * scratch);
}

// scores: [queries, positions]
template <CacheView V>
__global__ void direct_kernel(AttentionArgs<V> args, int scratch, float* scores, int positions) {
  extern __shared__ float shared[];
  const int i = lanes::job_of_thread();
  if (i >= args.batch.rows * args.heads) return;
  lanes::direct_row(query_job(args, i / args.heads, i % args.heads), scores + static_cast<std::ptrdiff_t>(i) * positions,
                    shared + static_cast<int>(threadIdx.x) / 16 * scratch);
}

inline int scratch_of_query(int head_dim) { return (static_cast<int>(cpu::attention_scratch(1, head_dim)) + 15) / 16 * 16; }

}  // namespace cuda

template <cuda::ViewOnDevice V>
void attention(Cuda& device, FlashAttention, const AttentionArgs<V>& args) {
  const std::size_t queries = static_cast<std::size_t>(args.batch.rows) * static_cast<std::size_t>(args.heads);
  const int scratch = cuda::scratch_of_query(args.head_dim);
  device.launch("attention", cuda::flash_kernel<V>, cuda::lanes::blocks_for(queries), cuda::lanes::kThreads,
                sizeof(float) * static_cast<std::size_t>(scratch) * cuda::lanes::kRowsABlock, args, scratch);
}

template <cuda::ViewOnDevice V>
void attention(Cuda& device, DirectAttention, const AttentionArgs<V>& args) {
  const std::size_t queries = static_cast<std::size_t>(args.batch.rows) * static_cast<std::size_t>(args.heads);
  if (queries > 0 && args.batch.longest <= 0) throw Error(Error::Kind::internal, "attention", "the batch does not say how long its longest text is");
  const int scratch = cuda::scratch_of_query(args.head_dim), positions = (args.batch.longest + 63) / 64 * 64;
  float* scores = device.scratch(queries * static_cast<std::size_t>(positions));
  device.launch("attention", cuda::direct_kernel<V>, cuda::lanes::blocks_for(queries), cuda::lanes::kThreads,
                sizeof(float) * static_cast<std::size_t>(scratch) * cuda::lanes::kRowsABlock, args, scratch, scores, positions);
}

}  // namespace tenon
