// A stride of 64 keys and values in shared memory, and the answer of a warp's queries, sixteen at most, to it on tensor cores.
// Caches of bfloat16 and float16 are copied as they are, and queries and weights are rounded to the same element. Other
// elements are rounded to bfloat16 while they are copied.
#pragma once
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tenon/core/elements.h"
#include "tenon/device/cuda.cuh"
#include "tenon/ops/cuda/flash_grid.cuh"
#include "tenon/ops/cuda/operand.cuh"
#include "tenon/ops/cuda/staged.cuh"
#include "tenon/ops/cuda/tensor_core.cuh"

namespace tenon::cuda {

// The element of products over a cache of E.
template <class E>
using FlashElement = std::conditional_t<std::is_same_v<E, float16>, float16, bfloat16>;

inline constexpr int kWarpQueries = 16;  // rows of an instruction
inline constexpr int kColumnTiles = 8;   // of eight positions in a stride; of eight elements in a chunk of 64
inline constexpr int kValueColumns = 64;  // of a chunk

// Four 8 x 8 matrices, transposed, whose rows of sixteen bytes lie where lanes 8 i .. 8 i + 7 say for matrix i.
__device__ inline void load_transposed(std::uint32_t (&to)[4], const std::uint16_t* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}

// Both halves of a register, as floats; whether both are finite.
template <class F>
__device__ inline float2 floats_of_pair(std::uint32_t pair) {
  if constexpr (std::is_same_v<F, bfloat16>) return {low_of_pair(pair), high_of_pair(pair)};
  else return {__half2float(__ushort_as_half(static_cast<unsigned short>(pair & 0xffffu))), __half2float(__ushort_as_half(static_cast<unsigned short>(pair >> 16)))};
}
template <class F>
__device__ inline bool is_finite_pair(std::uint32_t pair) {
  constexpr std::uint32_t kExponent = std::is_same_v<F, bfloat16> ? 0x7f80u : 0x7c00u;
  return (pair & kExponent) != kExponent && (pair >> 16 & kExponent) != kExponent;
}

// Keys are as the cache has them, [head_dim, 16] a tile, but that the halves of rows 4 .. 7 of each eight are exchanged; rows of
// values are eight elements longer. So no two of the eight rows that an instruction loads share a bank.
template <int Dims>
struct StrideStage {
  static constexpr int kValueRow = Dims + 8;
  alignas(16) std::uint16_t keys[lanes::kStrideTiles][Dims * kTilePositions];
  alignas(16) std::uint16_t values[lanes::kStride][kValueRow];
};
// Where a tile's sixteen bytes `chunk` of keys lie in its stage.
TENON_HD constexpr int staged_chunk(int chunk) { return chunk ^ (chunk >> 3 & 1); }

// Eight elements, times scale(i); each of the threads waits for its own.
template <class E, class Scale>
__device__ void stage_eight(std::uint16_t* to, const E* from, Scale&& scale) {
  if constexpr (std::is_same_v<E, FlashElement<E>>) {
    copy_16_bytes(to, from);
  } else {
    struct alignas(sizeof(E) > 2 ? 16 : 8 * sizeof(E)) Eight {
      E e[8];
    };
    const Eight eight = *reinterpret_cast<const Eight*>(from);
    const auto pair = [&](int i) {
      return round_pair_to<bfloat16>(scale(i) * static_cast<float>(eight.e[i]), scale(i + 1) * static_cast<float>(eight.e[i + 1]));
    };
    *reinterpret_cast<uint4*>(to) = {pair(0), pair(2), pair(4), pair(6)};
  }
}

// Whether some of the positions first .. first + size - 1 are in a range.
__device__ inline bool meets(lanes::Range range, int first, int size) { return range.begin < first + size && range.end > first; }
__device__ inline bool covers(lanes::Range range, int first, int size) { return range.begin <= first && range.end >= first + size; }
// Bit t: tile t of the stride at `first` has some of the range.
__device__ inline unsigned tiles_met(lanes::Range range, int first) {
  unsigned tiles = 0;
#pragma unroll
  for (int t = 0; t < lanes::kStrideTiles; ++t) tiles |= meets(range, first + t * kTilePositions, kTilePositions) ? 1u << t : 0u;
  return tiles;
}

// Brings the keys of the stride at `first` by `threads` threads, a multiple of 16, of which this is number `thread`; tiles that meet
// `seen` only.
template <int Dims, class V>
__device__ void stage_keys(const QueryJob<V>& job, lanes::Range seen, int first, int thread, int threads, StrideStage<Dims>& to) {
#pragma unroll 1
  for (int t = 0; t < lanes::kStrideTiles; ++t) {
    if (!meets(seen, first + t * kTilePositions, kTilePositions)) continue;
    KvTile<const typename V::Element> tile;
    QueryJob<V>::tiles(job.view, job.layer, job.sequence, job.head, first / kTilePositions + t, 1, &tile);
    for (int chunk = thread, there = staged_chunk(thread); chunk < 2 * job.head_dim; chunk += threads, there += threads) {
      stage_eight(to.keys[t] + 8 * there, tile.keys + 8 * chunk, [&](int i) {
        if constexpr (has_scales<typename V::Element>) return tile.key_scales[chunk % 2 * 8 + i];
        else return 1.0f;
      });
    }
  }
}

// The same of values. Positions of a tile that are not in `seen` become zeros: anything may lie there.
template <int Dims, class V>
__device__ void stage_values(const QueryJob<V>& job, lanes::Range seen, int first, int thread, int threads, StrideStage<Dims>& to) {
  constexpr int kChunks = Dims / 8;
  const int chunk = thread % kChunks;
  if (8 * chunk >= job.value_stride) return;
#pragma unroll 1
  for (int t = 0; t < lanes::kStrideTiles; ++t) {
    const int begin = first + t * kTilePositions;
    if (!meets(seen, begin, kTilePositions)) continue;
    KvTile<const typename V::Element> tile;
    QueryJob<V>::tiles(job.view, job.layer, job.sequence, job.head, begin / kTilePositions, 1, &tile);
    for (int p = thread / kChunks; p < kTilePositions; p += threads / kChunks) {
      std::uint16_t* row = to.values[t * kTilePositions + p] + 8 * chunk;
      if (begin + p >= seen.begin && begin + p < seen.end) {
        stage_eight(row, tile.values + p * job.value_stride + 8 * chunk, [&](int) {
          if constexpr (has_scales<typename V::Element>) return tile.value_scales[p];
          else return 1.0f;
        });
      } else {
        *reinterpret_cast<uint4*>(row) = uint4{0, 0, 0, 0};
      }
    }
  }
}

// Rows of keys behind head_dim, up to a multiple of sixteen, which no copy writes: zeros.
template <int Dims>
__device__ void clear_behind_keys(StrideStage<Dims>& stage, int head_dim, int thread, int threads) {
  const int begin = head_dim * kTilePositions, end = (head_dim + 15) / 16 * 16 * kTilePositions;
#pragma unroll
  for (int t = 0; t < lanes::kStrideTiles; ++t) {
    for (int i = begin + thread; i < end; i += threads) stage.keys[t][i] = 0;
  }
}

// Queries lane / 4 and lane / 4 + 8 of a warp's. Behind the last there is one that sees nothing.
struct QueryPair {
  lanes::Range seen[2];
  float slope[2];  // times log2(e)
};
inline constexpr float kLog2e = 1.44269504f;

// The queries first .. first + count - 1 of a job: what any of them sees, and what all do.
struct WarpQueries {
  int first, count;
  lanes::Range any, all;

  template <class V>
  __device__ WarpQueries(const QueryJob<V>& job, int first_query, int most) : first(first_query), count(min(most, job.rows * job.heads - first_query)) {
    if (count <= 0) {
      any = all = {0, 0};
      return;
    }
    const lanes::Range of_first = lanes::query_of(job, first).seen, of_last = lanes::query_of(job, first + count - 1).seen;
    any = {of_first.begin, of_last.end};
    all = {of_last.begin, of_first.end};
  }

  template <class V>
  __device__ QueryPair pair(const QueryJob<V>& job, int lane) const {
    QueryPair pair;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int i = lane / 4 + 8 * h;
      const lanes::Query query = lanes::query_of(job, i < count ? first + i : first);
      pair.seen[h] = i < count ? query.seen : lanes::Range{0, 0};
      pair.slope[h] = kLog2e * query.slope;
    }
    return pair;
  }

  // Rounded, as the left operand of an instruction has sixteen columns of them: zeros behind head_dim and the last query.
  template <int Dims, class V>
  __device__ void load(const QueryJob<V>& job, int lane, std::uint32_t (&q)[Dims / 16][4]) const {
    using F = FlashElement<typename V::Element>;
    const bool in_pairs = job.head_dim % 2 == 0 && job.q_stride % 2 == 0 && reinterpret_cast<std::uintptr_t>(job.q) % sizeof(float2) == 0;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int i = first + lane / 4 + 8 * h;
      const float* from = job.q + i / job.heads * job.q_stride + i % job.heads * job.head_dim;
#pragma unroll
      for (int k = 0; k < Dims / 8; ++k) {
        const int d = 8 * k + 2 * (lane % 4);
        float2 two = {0.0f, 0.0f};
        if (i < first + count && d < job.head_dim) {
          if (in_pairs) two = *reinterpret_cast<const float2*>(from + d);
          else two = {from[d], d + 1 < job.head_dim ? from[d + 1] : 0.0f};
        }
        q[k / 2][h + k % 2 * 2] = round_pair_to<F>(two.x, two.y);
      }
    }
  }
};

// scores[16, 64] of the tiles in the set: over the elements of a head in ascending steps of sixteen, in one sum. Zeros elsewhere.
template <int Dims, class F>
__device__ void multiply_keys(const StrideStage<Dims>& stage, int head_dim, unsigned tiles, int lane, const std::uint32_t (&q)[Dims / 16][4],
                              float (&scores)[kColumnTiles][4]) {
  const int own = 8 * staged_chunk(2 * (lane % 16) + lane / 16);
#pragma unroll
  for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) scores[n][i] = 0.0f;
  }
#pragma unroll
  for (int k = 0; k < Dims / 16; ++k) {
    if (16 * k >= head_dim) continue;
#pragma unroll
    for (int t = 0; t < lanes::kStrideTiles; ++t) {
      if (!(tiles >> t & 1u)) continue;
      std::uint32_t b[4];
      load_transposed(b, stage.keys[t] + k * 16 * kTilePositions + own);
      multiply_add<F>(scores[2 * t], q[k], b[0], b[1]);
      multiply_add<F>(scores[2 * t + 1], q[k], b[2], b[3]);
    }
  }
}

// The largest score of a stride and the sum of its weights, of a thread's two queries; a sum of zero: nothing is seen.
struct StrideState {
  float largest[2], sum[2];
};

// Scores of the stride at `first` become weights, 2^(score - the largest), rounded, of which sums are then taken.
template <class F, class V>
__device__ StrideState weigh(const QueryJob<V>& job, const WarpQueries& queries, int first, int lane, float (&scores)[kColumnTiles][4],
                             std::uint32_t (&weights)[kColumnTiles][2]) {
  const float minus_infinity = -std::numeric_limits<float>::infinity(), scale = __fmul_rn(job.scale, kLog2e);
#pragma unroll
  for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) scores[n][i] = __fmul_rn(scores[n][i], scale);
  }
  if (job.slopes || !covers(queries.all, first, lanes::kStride)) {
    const QueryPair pair = queries.pair(job, lane);
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int position = first + 8 * n + column_of_sum(lane, i);
        const lanes::Range seen = pair.seen[i / 2];
        const float score = __fmaf_rn(pair.slope[i / 2], static_cast<float>(position - seen.end + 1), scores[n][i]);
        scores[n][i] = position >= seen.begin && position < seen.end ? score : minus_infinity;
      }
    }
  }
  StrideState state;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (h == 1 && queries.count <= kWarpQueries / 2) {
      state.largest[1] = minus_infinity, state.sum[1] = 0.0f;
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) weights[n][1] = 0;
      continue;
    }
    float top = minus_infinity, sum = 0.0f;
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) top = fmaxf(top, fmaxf(scores[n][2 * h], scores[n][2 * h + 1]));
#pragma unroll
    for (int width = 1; width <= 2; width *= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, width));
    const float from = top == minus_infinity ? 0.0f : top;
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
      weights[n][h] = round_pair_to<F>(exp2_near(__fsub_rn(scores[n][2 * h], from)), exp2_near(__fsub_rn(scores[n][2 * h + 1], from)));
      const float2 two = floats_of_pair<F>(weights[n][h]);
      sum = __fadd_rn(sum, __fadd_rn(two.x, two.y));
    }
#pragma unroll
    for (int width = 1; width <= 2; width *= 2) sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, width));
    state.largest[h] = top;
    state.sum[h] = sum;
  }
  return state;
}

// Whether values are finite where some of the warp's queries see them and others do not: 0 times what is not would reach those.
// The same for all of a warp. seen: by the job, outside of which there are zeros
template <int Dims, class F>
__device__ bool has_finite_values(const StrideStage<Dims>& stage, int first, lanes::Range seen, const WarpQueries& queries, int value_stride,
                                  int lane) {
  // Of the tiles that some query sees, each of which is multiplied whole.
  const int begin = max(max(queries.any.begin / kTilePositions * kTilePositions, seen.begin), first);
  const int end = min(min((queries.any.end + kTilePositions - 1) / kTilePositions * kTilePositions, seen.end), first + lanes::kStride);
  bool finite = true;
  for (int position = begin; position < end; ++position) {
    if (position >= queries.all.begin && position < queries.all.end) continue;
    const auto* row = reinterpret_cast<const std::uint32_t*>(stage.values[position - first]);
    for (int i = lane; i < value_stride / 2; i += 32) finite = finite && is_finite_pair<F>(row[i]);
  }
  return __all_sync(0xffffffffu, finite) != 0;
}

// sums[16, 64] = weights[16, 64] times elements column .. column + 63 of the values in the set's tiles, in ascending order. Masked:
// values outside `seen` count as zeros.
template <int Dims, class F, bool Masked>
__device__ void multiply_values(const StrideStage<Dims>& stage, int first, int column, int value_stride, unsigned tiles, lanes::Range seen,
                                int lane, const std::uint32_t (&weights)[kColumnTiles][2], float (&sums)[kColumnTiles][4]) {
  const std::uint16_t* own = stage.values[lane % 16] + column + 8 * (lane / 16);
#pragma unroll
  for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[n][i] = 0.0f;
  }
#pragma unroll
  for (int t = 0; t < lanes::kStrideTiles; ++t) {
    if (!(tiles >> t & 1u)) continue;
    const std::uint32_t a[4] = {weights[2 * t][0], weights[2 * t][1], weights[2 * t + 1][0], weights[2 * t + 1][1]};
    std::uint32_t masks[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int position = first + t * kTilePositions + 8 * half + 2 * (lane % 4);
      const std::uint32_t low = position >= seen.begin && position < seen.end ? 0xffffu : 0u;
      const std::uint32_t high = position + 1 >= seen.begin && position + 1 < seen.end ? 0xffff0000u : 0u;
      masks[half] = Masked ? low | high : 0xffffffffu;
    }
#pragma unroll
    for (int n = 0; n < kColumnTiles / 2; ++n) {
      if (column + 16 * n >= value_stride) continue;
      std::uint32_t b[4];
      load_transposed(b, own + t * kTilePositions * StrideStage<Dims>::kValueRow + 16 * n);
      multiply_add<F>(sums[2 * n], a, b[0] & masks[0], b[1] & masks[1]);
      multiply_add<F>(sums[2 * n + 1], a, b[2] & masks[0], b[3] & masks[1]);
    }
  }
}

}  // namespace tenon::cuda
