// Attention on tensor cores: queries, keys, weights and values are rounded to bfloat16, and a warp has up to sixteen queries
// that share keys. Strides of 64 keys and splits of 256 lie at fixed positions, splits are combined in their order, and what a
// query does not see enters its sums as products with zero: no bit depends on the queries beside it, nor on how many splits
// are walked at once. A class of its own, as the hardware has an order of its own for the products of an instruction.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "tenon/device/cuda.cuh"
#include "tenon/ops/args.h"
#include "tenon/ops/attention.h"
#include "tenon/ops/cuda/flash_grid.cuh"
#include "tenon/ops/cuda/tensor_core.cuh"

namespace tenon {
namespace cuda {

inline constexpr int kTensorQueries = FlashMma::queries_together;
inline constexpr int kTensorTiles = lanes::kStride / kTilePositions;

// A block's warps: with so many, every device since sm_80 has the shared memory that they ask for.
template <int Dims>
inline constexpr int kFlashWarps = Dims > 128 ? 2 : 4;

// Shared memory of a warp, for heads of Dims elements. Rows lie so that threads of one instruction meet few others in a bank.
template <int Dims>
struct TensorScratch {
  static constexpr int kWords = Dims / 2 + 4, kFloats = Dims + 8;
  std::uint32_t q[kTensorQueries][kWords];  // pairs of bfloat16
  float split[kTensorQueries][kFloats];     // weighted values of a split
  float total[kTensorQueries][kFloats];     // and of all before it: of a job's first warp
};

// q[16, Dims] in pairs; zeros behind the job's queries and behind head_dim.
template <int Dims, class V>
__device__ void round_queries(const QueryJob<V>& job, int lane, std::uint32_t (&q)[kTensorQueries][TensorScratch<Dims>::kWords]) {
  const int count = job.rows * job.heads;
  for (int i = lane; i < kTensorQueries * Dims / 2; i += 32) {
    const int query = i / (Dims / 2), d = i % (Dims / 2) * 2;
    const float* from = job.q + query / job.heads * job.q_stride + query % job.heads * job.head_dim;
    const auto element = [&](int at) { return query < count && at < job.head_dim ? from[at] : 0.0f; };
    q[query][d / 2] = round_pair(element(d), element(d + 1));
  }
}

// scores[16, 64] of a stride, as sums of tensor cores lie; tiles of which no query sees anything are null, and stay zero.
template <int Dims, class V>
__device__ void multiply_keys(const QueryJob<V>& job, const KvTile<const typename V::Element> (&tiles)[kTensorTiles], int lane,
                              const std::uint32_t (&q)[kTensorQueries][TensorScratch<Dims>::kWords], float (&scores)[2 * kTensorTiles][4]) {
  const int r = lane / 4, c = lane % 4;
#pragma unroll
  for (int n = 0; n < 2 * kTensorTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) scores[n][i] = 0.0f;
  }
  for (int first = 0; first < job.head_dim; first += 16) {
    const std::uint32_t a[4] = {q[r][first / 2 + c], q[r + 8][first / 2 + c], q[r][first / 2 + c + 4], q[r + 8][first / 2 + c + 4]};
#pragma unroll
    for (int n = 0; n < 2 * kTensorTiles; ++n) {
      const auto& tile = tiles[n / 2];
      if (!tile.keys) continue;
      const int position = n % 2 * 8 + r;
      float scale = 1.0f;
      if constexpr (has_scales<typename V::Element>) scale = tile.key_scales[position];
      const auto key = [&](int d) { return d < job.head_dim ? scale * static_cast<float>(tile.keys[d * kTilePositions + position]) : 0.0f; };
      const int d = first + 2 * c;
      const std::uint32_t b[2] = {round_pair(key(d), key(d + 1)), round_pair(key(d + 8), key(d + 9))};
      multiply_add(scores[n], a, b);
    }
  }
}

// Element d of a tile's value at `position`, of which `here` are seen: zero elsewhere, where anything may lie.
template <class V>
__device__ float value_of(const QueryJob<V>& job, const KvTile<const typename V::Element>& tile, lanes::Range here, int position, int d) {
  if (position < here.begin || position >= here.end) return 0.0f;
  float scale = 1.0f;
  if constexpr (has_scales<typename V::Element>) scale = tile.value_scales[position];
  return scale * static_cast<float>(tile.values[position * job.value_stride + d]);
}

// Whether all values that are seen stay finite as bfloat16; the same for all of a warp.
template <class V>
__device__ bool has_finite_values(const QueryJob<V>& job, const KvTile<const typename V::Element> (&tiles)[kTensorTiles], lanes::Range here,
                                  int lane) {
  bool finite = true;
#pragma unroll
  for (int t = 0; t < kTensorTiles; ++t) {
    const lanes::Range of_tile = here.in(t * kTilePositions, kTilePositions);
    for (int position = of_tile.begin; position < of_tile.end; ++position) {
      for (int d = lane; d < job.head_dim; d += 32) {
        finite = finite && isfinite(low_of_pair(round_pair(value_of(job, tiles[t], of_tile, position, d), 0.0f)));
      }
    }
  }
  return __all_sync(0xffffffffu, finite) != 0;
}

// sums[16, Dims] += weights[16, 64] times values.
template <int Dims, class V>
__device__ void multiply_values(const QueryJob<V>& job, const KvTile<const typename V::Element> (&tiles)[kTensorTiles], lanes::Range here,
                                int lane, const std::uint32_t (&weights)[2 * kTensorTiles][2], float (&sums)[Dims / 8][4]) {
  const int r = lane / 4, c = lane % 4;
#pragma unroll
  for (int t = 0; t < kTensorTiles; ++t) {
    const auto& tile = tiles[t];
    if (!tile.values) continue;
    const lanes::Range of_tile = here.in(t * kTilePositions, kTilePositions);
    const std::uint32_t a[4] = {weights[2 * t][0], weights[2 * t][1], weights[2 * t + 1][0], weights[2 * t + 1][1]};
#pragma unroll
    for (int n = 0; n < Dims / 8; ++n) {
      if (8 * n >= job.value_stride) continue;
      const auto value = [&](int position) { return value_of(job, tile, of_tile, position, 8 * n + r); };
      const std::uint32_t b[2] = {round_pair(value(2 * c), value(2 * c + 1)), round_pair(value(2 * c + 8), value(2 * c + 9))};
      multiply_add(sums[n], a, b);
    }
  }
}

// Where `sums` of a warp's thread lie in its scratch memory.
template <int Dims, class Move>
__device__ void for_each_sum(float (&sums)[Dims / 8][4], TensorScratch<Dims>& scratch, int lane, Move&& move) {
#pragma unroll
  for (int n = 0; n < Dims / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) move(sums[n][i], scratch.split[row_of_sum(lane, i)][8 * n + column_of_sum(lane, i)], row_of_sum(lane, i));
  }
}

// The same where some queries see less than others: 0 times a value that is not finite would reach those that do not see it, so
// that each then gets what it gets alone.
template <int Dims, class V>
__device__ void multiply_values_apart(const QueryJob<V>& job, const KvTile<const typename V::Element> (&tiles)[kTensorTiles], int first,
                                      int lane, const std::uint32_t (&weights)[2 * kTensorTiles][2], float (&sums)[Dims / 8][4],
                                      TensorScratch<Dims>& scratch) {
  const auto load = [](float& sum, float& kept, int) { sum = kept; };
  for_each_sum(sums, scratch, lane, [](float& sum, float& kept, int) { kept = sum; });
  for (int query = 0; query < job.rows * job.heads; ++query) {
    multiply_values<Dims>(job, tiles, lanes::query_of(job, query).seen.in(first, lanes::kStride), lane, weights, sums);
    for_each_sum(sums, scratch, lane, [&](float& sum, float& kept, int row) {
      if (row == query) kept = sum;
    });
    for_each_sum(sums, scratch, lane, load);
  }
}

// Queries lane / 4 and lane / 4 + 8 of a job, and their online softmax: exponents of 2, so scores come times log2(e).
struct QueryPair {
  lanes::Range seen[2];
  float slope[2], largest[2], sum[2];
};

template <class V>
__device__ QueryPair query_pair(const QueryJob<V>& job, int lane) {
  constexpr float kLog2e = 1.44269504f;
  QueryPair pair;
  for (int h = 0; h < 2; ++h) {
    const int i = lane / 4 + 8 * h;
    const bool is_query = i < job.rows * job.heads;
    const lanes::Query query = lanes::query_of(job, is_query ? i : 0);
    pair.seen[h] = is_query ? query.seen : lanes::Range{0, 0};
    pair.slope[h] = kLog2e * query.slope;
    pair.largest[h] = -std::numeric_limits<float>::infinity();
    pair.sum[h] = 0.0f;
  }
  return pair;
}

// Scores of the stride at `first` become weights, rounded, of which sums are then taken; returns in `factors` what all before
// shrinks by. Of a query that sees nothing here weights are 0, and the factor 1 unless it has seen nothing at all.
__device__ inline void weigh_pair(QueryPair& queries, int first, int lane, float scale, float (&scores)[2 * kTensorTiles][4],
                                  std::uint32_t (&weights)[2 * kTensorTiles][2], float (&factors)[2]) {
  const float minus_infinity = -std::numeric_limits<float>::infinity();
  float top[2] = {queries.largest[0], queries.largest[1]};
#pragma unroll
  for (int n = 0; n < 2 * kTensorTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int h = i / 2, position = first + 8 * n + column_of_sum(lane, i);
      const lanes::Range seen = queries.seen[h];
      const float distance = static_cast<float>(position - seen.end + 1);
      const float score = __fmaf_rn(queries.slope[h], distance, __fmul_rn(scores[n][i], scale));
      scores[n][i] = position >= seen.begin && position < seen.end ? score : minus_infinity;
      top[h] = fmaxf(top[h], scores[n][i]);
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    for (int width = 1; width <= 2; width *= 2) top[h] = fmaxf(top[h], __shfl_xor_sync(0xffffffffu, top[h], width));
    const float from = top[h] == minus_infinity ? 0.0f : top[h];
    factors[h] = exp2_near(__fsub_rn(queries.largest[h], from));
    float sum = 0.0f;
#pragma unroll
    for (int n = 0; n < 2 * kTensorTiles; ++n) {
      weights[n][h] = round_pair(exp2_near(__fsub_rn(scores[n][2 * h], from)), exp2_near(__fsub_rn(scores[n][2 * h + 1], from)));
      sum = __fadd_rn(sum, __fadd_rn(low_of_pair(weights[n][h]), high_of_pair(weights[n][h])));
    }
    queries.sum[h] = __fmaf_rn(queries.sum[h], factors[h], sum);
    queries.largest[h] = top[h];
  }
}

// The split at position `split`, of which the job's queries see some, by a warp. states: [16]
template <int Dims, class V>
__device__ void tensor_split(const QueryJob<V>& job, lanes::Range seen, int split, int lane, TensorScratch<Dims>& scratch, SplitState* states) {
  using E = typename V::Element;
  QueryPair queries = query_pair(job, lane);
  float sums[Dims / 8][4] = {};
  const float scale = __fmul_rn(job.scale, 1.44269504f);
  const int end = min(split + lanes::kSplitPositions, seen.end);
  for (int first = max(split, seen.begin) / lanes::kStride * lanes::kStride; first < end; first += lanes::kStride) {
    const lanes::Range here = seen.in(first, lanes::kStride);
    KvTile<const E> tiles[kTensorTiles];
#pragma unroll
    for (int t = 0; t < kTensorTiles; ++t) {
      if (here.in(t * kTilePositions, kTilePositions).empty()) continue;
      QueryJob<V>::tiles(job.view, job.layer, job.sequence, job.head, first / kTilePositions + t, 1, tiles + t);
    }
    float scores[2 * kTensorTiles][4], factors[2];
    std::uint32_t weights[2 * kTensorTiles][2];
    multiply_keys<Dims>(job, tiles, lane, scratch.q, scores);
    weigh_pair(queries, first, lane, scale, scores, weights, factors);
#pragma unroll
    for (int n = 0; n < Dims / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[n][i] = __fmul_rn(sums[n][i], factors[i / 2]);
    }
    // What the first and the last see, all between them do.
    const lanes::Range first_sees = lanes::query_of(job, 0).seen.in(first, lanes::kStride);
    const lanes::Range last_sees = lanes::query_of(job, job.rows * job.heads - 1).seen.in(first, lanes::kStride);
    const bool alike = first_sees.end == here.end && last_sees.begin == here.begin;
    if (alike || has_finite_values(job, tiles, here, lane)) multiply_values<Dims>(job, tiles, here, lane, weights, sums);
    else multiply_values_apart<Dims>(job, tiles, first, lane, weights, sums, scratch);
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float sum = queries.sum[h];
    for (int width = 1; width <= 2; width *= 2) sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, width));
    if (lane % 4 == 0) states[lane / 4 + 8 * h] = {queries.largest[h], sum};
  }
#pragma unroll
  for (int n = 0; n < Dims / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) scratch.split[row_of_sum(lane, i)][8 * n + column_of_sum(lane, i)] = sums[n][i];
  }
}

// A query's elements thread, thread + threads, .. of so many, over the splits so far.
template <int Dims>
struct TensorTotal {
  float largest = -std::numeric_limits<float>::infinity(), sum = 0.0f;

  __device__ void add(SplitState state, const float* split, float* total, int thread, int threads) {
    if (state.sum == 0.0f) return;  // it sees nothing of this one
    const float now = fmaxf(largest, state.largest);
    const float a = exp2_near(__fsub_rn(largest, now)), b = exp2_near(__fsub_rn(state.largest, now));
    sum = __fmaf_rn(sum, a, __fmul_rn(state.sum, b));
    largest = now;
    for (int d = thread; d < Dims; d += threads) total[d] = __fmaf_rn(total[d], a, __fmul_rn(split[d], b));
  }
};

template <int Dims, CacheView V>
__global__ void __launch_bounds__(32 * kFlashWarps<Dims>) flash_tensor_kernel(AttentionArgs<V> args, FlashGrid grid) {
  constexpr int kWarps = kFlashWarps<Dims>;
  extern __shared__ float shared[];
  __shared__ SplitState states[kWarps][kTensorQueries];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32, part = warp % grid.parts;
  const int i = static_cast<int>(blockIdx.x) * (kWarps / grid.parts) + warp / grid.parts;
  auto* scratch = reinterpret_cast<TensorScratch<Dims>*>(shared) + warp;
  auto* first_scratch = scratch - part;
  wait_for_earlier();
  QueryJob<V> job = {};
  if (i < grid.jobs) job = grid.job(args, i);
  const int count = job.rows * job.heads;  // none where a short tile has fewer parts
  const lanes::Range seen = count > 0 ? lanes::Range{lanes::query_of(job, 0).seen.begin, lanes::query_of(job, count - 1).seen.end} : lanes::Range{0, 0};
  if (count > 0) round_queries<Dims>(job, lane, scratch->q);

  // Behind each round, so many threads have a query of the job each.
  const int threads = 2 * grid.parts, own = part * 32 + lane, query = own / threads, thread = own % threads;
  float* total = first_scratch->total[query];
  TensorTotal<Dims> state;
  for (int d = thread; d < Dims; d += threads) total[d] = 0.0f;
  const int first = seen.begin / lanes::kSplitPositions * lanes::kSplitPositions;
  __syncwarp();
  for (int round = 0; round < grid.rounds; ++round) {
    const int round_first = first + round * grid.parts * lanes::kSplitPositions, split = round_first + part * lanes::kSplitPositions;
    if (split < seen.end) tensor_split(job, seen, split, lane, *scratch, states[warp]);
    grid.parts == 1 ? __syncwarp() : __syncthreads();
    for (int p = 0; p < grid.parts && round_first + p * lanes::kSplitPositions < seen.end; ++p) {
      state.add(states[warp - part + p][query], first_scratch[p].split[query], total, thread, threads);
    }
    grid.parts == 1 ? __syncwarp() : __syncthreads();
  }
  if (query >= count) return;
  float* out = job.out + query / job.heads * job.out_stride + query % job.heads * job.head_dim;
  // + 0: of a zero, the sign may be that of a product with zero.
  for (int d = thread; d < job.head_dim; d += threads) out[d] = __fadd_rn(__fdiv_rn(total[d], state.sum), 0.0f);
}

template <int Dims, class V>
void launch_flash_tensor(Cuda& device, const AttentionArgs<V>& args) {
  constexpr int kWarps = kFlashWarps<Dims>;
  const FlashGrid grid(args, device.processors(), {.queries = kTensorQueries, .a_block = kWarps, .threads = 32});
  device.launch_early("attention", flash_tensor_kernel<Dims, V>, grid.blocks(), 32 * kWarps, sizeof(TensorScratch<Dims>) * kWarps, args, grid);
}

}  // namespace cuda

// head_dim: 256 at most.
template <cuda::ViewOnDevice V>
void attention(Cuda& device, FlashMma, const AttentionArgs<V>& args) {
  cuda::check_batch(args);
  if (args.head_dim <= 64) cuda::launch_flash_tensor<64>(device, args);
  else if (args.head_dim <= 128) cuda::launch_flash_tensor<128>(device, args);
  else if (args.head_dim <= 256) cuda::launch_flash_tensor<256>(device, args);
  else throw Error(Error::Kind::unsupported, "head_dim", "FlashMma has kernels for 256 at most, and this model has " + std::to_string(args.head_dim));
}

}  // namespace tenon
