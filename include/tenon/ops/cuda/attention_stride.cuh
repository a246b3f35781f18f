// A stride of 64 keys and values in shared memory, attended by at most sixteen queries of a warp on tensor cores.
// Caches of bfloat16 and float16 are copied as they are; queries and weights are rounded to the same element. Other
// elements are rounded to bfloat16 during the copy.
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

/// Element of products over a cache of E.
template <class E>
using FlashElement = std::conditional_t<std::is_same_v<E, float16>, float16, bfloat16>;

inline constexpr int kWarpQueries = 16;   ///< rows of an instruction
inline constexpr int kColumnTiles = 8;    ///< groups of eight positions in a stride, or of eight elements in 64 columns
inline constexpr int kValueColumns = 64;  ///< columns per pass over values

/// Loads four 8 x 8 matrices, transposed. Lanes 8 i .. 8 i + 7 give the addresses of the rows, sixteen bytes each, of
/// matrix i.
__device__ inline void load_transposed(std::uint32_t (&to)[4], const std::uint16_t* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}

/// Both halves of a register as floats.
template <class F>
__device__ inline float2 floats_of_pair(std::uint32_t pair) {
  if constexpr (std::is_same_v<F, bfloat16>)
    return {low_of_pair(pair), high_of_pair(pair)};
  else
    return {__half2float(__ushort_as_half(static_cast<unsigned short>(pair & 0xffffu))),
            __half2float(__ushort_as_half(static_cast<unsigned short>(pair >> 16)))};
}
/// 0 if both are finite: adding one to an exponent of ones carries into the sign.
template <class F>
__device__ inline std::uint32_t not_finite(std::uint32_t pair) {
  constexpr std::uint32_t kExponents = std::is_same_v<F, bfloat16> ? 0x7f807f80u : 0x7c007c00u,
                          kOnes = std::is_same_v<F, bfloat16> ? 0x00800080u : 0x04000400u;
  return ((pair & kExponents) + kOnes) & 0x80008000u;
}

/// A stride in shared memory. Keys are as in the cache, [head_dim, 16] per tile, with the halves of rows 4 .. 7 of each
/// eight exchanged. Rows of values are eight elements longer. So no two of the eight rows that an instruction loads
/// share a bank.
template <int Dims>
struct StrideStage {
  static constexpr int kValueRow = Dims + 8;
  alignas(16) std::uint16_t keys[lanes::kStrideTiles][Dims * kTilePositions];
  alignas(16) std::uint16_t values[lanes::kStride][kValueRow];
};
/// Place of a tile's sixteen bytes `chunk` of keys in its stage.
TENON_HD constexpr int staged_chunk(int chunk) { return chunk ^ (chunk >> 3 & 1); }

/// Stages eight elements times scale(i). Each thread waits for its own copies.
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
      return round_pair_to<bfloat16>(scale(i) * static_cast<float>(eight.e[i]),
                                     scale(i + 1) * static_cast<float>(eight.e[i + 1]));
    };
    *reinterpret_cast<uint4*>(to) = {pair(0), pair(2), pair(4), pair(6)};
  }
}

/// Whether a range meets positions first .. first + size - 1.
__device__ inline bool meets(lanes::Range range, int first, int size) {
  return range.begin < first + size && range.end > first;
}
__device__ inline bool covers(lanes::Range range, int first, int size) {
  return range.begin <= first && range.end >= first + size;
}
/// Bit t: tile t of the stride at `first` meets the range.
__device__ inline unsigned tiles_met(lanes::Range range, int first) {
  unsigned tiles = 0;
#pragma unroll
  for (int t = 0; t < lanes::kStrideTiles; ++t)
    tiles |= meets(range, first + t * kTilePositions, kTilePositions) ? 1u << t : 0u;
  return tiles;
}

/// A thread's part in copies of strides. `Threads` threads copy a tile: eight of a warp, or all. A tile's address is
/// looked up while the previous stride is attended.
template <int Dims, class V, int Threads>
struct StrideCopy {
  using E = typename V::Element;
  int tile, thread;  ///< tile of the stride; number among the threads of that tile
  int begin = 0;     ///< first position of the tile
  bool meets_seen = false;
  KvTile<const E> from = {};

  /// Looks up the stride at `first`, without tiles that do not meet `seen`. Branch-free, so that other work continues
  /// during the look-up.
  __device__ void find(const QueryJob<V>& job, lanes::Range seen, int first) {
    begin = first + tile * kTilePositions;
    const int last = (seen.end - 1) / kTilePositions, number = min(max(begin, seen.begin) / kTilePositions, last);
    QueryJob<V>::tiles(job.view, job.layer, job.sequence, job.head, number, 1, &from);
    meets_seen = meets(seen, begin, kTilePositions);
  }

  __device__ void copy_keys(const QueryJob<V>& job, StrideStage<Dims>& to) const {
    if (!meets_seen) return;
    if (job.head_dim == Dims)
      copy_keys_of(Dims, to);
    else
      copy_keys_of(job.head_dim, to);
  }
  /// Positions outside `seen` become zeros, because their memory may hold anything.
  __device__ void copy_values(const QueryJob<V>& job, lanes::Range seen, StrideStage<Dims>& to) const {
    if (!meets_seen) return;
    const bool whole = covers(seen, begin, kTilePositions);
    if (whole && job.head_dim == Dims)
      copy_values_of<true>(Dims, seen, to);
    else if (whole)
      copy_values_of<true>(job.value_stride, seen, to);
    else
      copy_values_of<false>(job.value_stride, seen, to);
  }

 private:
  __device__ __forceinline__ void copy_keys_of(int head_dim, StrideStage<Dims>& to) const {
    const int own[2] = {staged_chunk(thread), staged_chunk(thread + Threads) - Threads};
#pragma unroll(Dims <= 64 ? 16 : 8)
    for (int i = 0; i < 2 * Dims / Threads; ++i) {
      const int chunk = thread + Threads * i;
      if (chunk >= 2 * head_dim) break;
      stage_eight(to.keys[tile] + 8 * own[i % 2] + 8 * Threads * i, from.keys + 8 * thread + 8 * Threads * i,
                  [&](int e) {
                    if constexpr (has_scales<E>)
                      return from.key_scales[chunk % 2 * 8 + e];
                    else
                      return 1.0f;
                  });
    }
  }

  template <bool Whole>
  __device__ __forceinline__ void copy_values_of(int value_stride, lanes::Range seen, StrideStage<Dims>& to) const {
    constexpr int kChunks = Dims / 8, kAcross = Threads < kChunks ? Threads : kChunks, kRows = Threads / kAcross,
                  kSteps = kTilePositions / kRows;
    const int row = thread / kAcross, across = thread % kAcross;
    std::uint16_t* there = to.values[tile * kTilePositions + row] + 8 * across;
    const E* here = from.values + row * value_stride + 8 * across;
#pragma unroll(Whole&& Dims <= 64 ? 16 : 2)
    for (int i = 0; i < kSteps; ++i) {
#pragma unroll
      for (int c = 0; c < kChunks / kAcross; ++c) {
        if (8 * (across + kAcross * c) >= value_stride) continue;
        std::uint16_t* const put = there + i * kRows * StrideStage<Dims>::kValueRow + 8 * kAcross * c;
        const int p = row + kRows * i;
        if (Whole || (begin + p >= seen.begin && begin + p < seen.end)) {
          stage_eight(put, here + i * kRows * value_stride + 8 * kAcross * c, [&](int) {
            if constexpr (has_scales<E>)
              return from.value_scales[p];
            else
              return 1.0f;
          });
        } else {
          *reinterpret_cast<uint4*>(put) = uint4{0, 0, 0, 0};
        }
      }
    }
  }
};

/// Zeroes keys past head_dim, which no copy writes, so that products need not know where heads end.
template <int Dims>
__device__ void clear_tail_keys(StrideStage<Dims>& stage, int head_dim, int thread, int threads) {
  for (int i = head_dim * kTilePositions + thread; i < Dims * kTilePositions; i += threads) {
#pragma unroll
    for (int t = 0; t < lanes::kStrideTiles; ++t) stage.keys[t][i] = 0;
  }
}

/// Queries lane / 4 and lane / 4 + 8 of a warp. Past the last query there is one that sees nothing.
struct QueryPair {
  lanes::Range seen[2];
  float slope[2];  ///< times log2(e)
};
inline constexpr float kLog2e = 1.44269504f;

/// Queries first .. first + count - 1 of a job; `any`: positions that at least one sees, `all`: that all see.
struct WarpQueries {
  int first, count;
  lanes::Range any, all;

  template <class V>
  __device__ WarpQueries(const QueryJob<V>& job, int first_query, int most)
      : first(first_query), count(min(most, job.rows * job.heads - first_query)) {
    if (count <= 0) {
      any = all = {0, 0};
      return;
    }
    const lanes::Range of_first = lanes::query_of(job, first).seen,
                       of_last = lanes::query_of(job, first + count - 1).seen;
    any = {of_first.begin, of_last.end};
    all = {of_last.begin, of_first.end};
  }

  template <class V>
  __device__ QueryPair pair(const QueryJob<V>& job, int lane) const {
    QueryPair pair;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int i = lane / 4 + 8 * h;
      pair.seen[h] = i >= count ? lanes::Range{0, 0} : job.rows == 1 ? all : lanes::query_of(job, first + i).seen;
      pair.slope[h] = job.slopes && i < count ? __fmul_rn(kLog2e, job.slopes[(first + i) % job.heads]) : 0.0f;
    }
    return pair;
  }

  /// Loads the queries, rounded, as left operands of sixteen columns: zeros past head_dim and past the last query.
  template <int Dims, class V>
  __device__ void load(const QueryJob<V>& job, int lane, std::uint32_t (&q)[Dims / 16][4]) const {
    using F = FlashElement<typename V::Element>;
    const bool in_pairs =
        job.head_dim % 2 == 0 && job.q_stride % 2 == 0 && reinterpret_cast<std::uintptr_t>(job.q) % sizeof(float2) == 0;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int i = first + lane / 4 + 8 * h, row = job.rows == 1 ? 0 : i / job.heads,
                end = i < first + count ? job.head_dim : 0;
      const float* from = job.q + row * job.q_stride + (i - row * job.heads) * job.head_dim + 2 * (lane % 4);
      float2 two[Dims / 8];
#pragma unroll
      for (int k = 0; k < Dims / 8; ++k) two[k] = {0.0f, 0.0f};
      if (in_pairs) {
#pragma unroll
        for (int k = 0; k < Dims / 8; ++k) {
          if (8 * k + 2 * (lane % 4) < end) two[k] = *reinterpret_cast<const float2*>(from + 8 * k);
        }
      } else {
#pragma unroll
        for (int k = 0; k < Dims / 8; ++k) {
          if (8 * k + 2 * (lane % 4) < end) two[k].x = from[8 * k];
          if (8 * k + 2 * (lane % 4) + 1 < end) two[k].y = from[8 * k + 1];
        }
      }
#pragma unroll
      for (int k = 0; k < Dims / 8; ++k) q[k / 2][h + k % 2 * 2] = round_pair_to<F>(two[k].x, two[k].y);
    }
  }
};

/// scores[16, 64] of a stride: one sum over the elements of a head, in ascending steps of sixteen. Keys that were not
/// copied give unspecified scores.
template <int Dims, class F>
__device__ void multiply_keys(const StrideStage<Dims>& stage, int lane, const std::uint32_t (&q)[Dims / 16][4],
                              float (&scores)[kColumnTiles][4]) {
  const int own = 8 * staged_chunk(2 * (lane % 16) + lane / 16);
#pragma unroll
  for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) scores[n][i] = 0.0f;
  }
#pragma unroll
  for (int k = 0; k < Dims / 16; ++k) {
    std::uint32_t b[lanes::kStrideTiles][4];
#pragma unroll
    for (int t = 0; t < lanes::kStrideTiles; ++t) load_transposed(b[t], stage.keys[t] + k * 16 * kTilePositions + own);
#pragma unroll
    for (int t = 0; t < lanes::kStrideTiles; ++t) {
      multiply_add<F>(scores[2 * t], q[k], b[t][0], b[t][1]);
      multiply_add<F>(scores[2 * t + 1], q[k], b[t][2], b[t][3]);
    }
  }
}

/// Largest score and sum of weights of a stride, for a thread's two queries. Sum 0: nothing is visible.
struct StrideState {
  float largest[2], sum[2];
};

/// Turns the scores of the stride at `first` into weights 2^(score - largest), rounded, then sums them. Halves 1: the
/// warp has at most eight queries.
template <class F, int Halves, class V>
__device__ StrideState weigh(const QueryJob<V>& job, const WarpQueries& queries, int first, int lane,
                             float (&scores)[kColumnTiles][4], std::uint32_t (&weights)[kColumnTiles][2]) {
  const float minus_infinity = -std::numeric_limits<float>::infinity(), scale = __fmul_rn(job.scale, kLog2e);
  const bool whole = covers(queries.all, first, lanes::kStride);
#pragma unroll
  for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 2 * Halves; ++i) scores[n][i] = __fmul_rn(scores[n][i], scale);
  }
  if (job.slopes || !whole) {
    const QueryPair pair = queries.pair(job, lane);
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2 * Halves; ++i) {
        const int position = first + 8 * n + column_of_sum(lane, i);
        const lanes::Range seen = pair.seen[i / 2];
        const float score = __fmaf_rn(pair.slope[i / 2], static_cast<float>(position - seen.end + 1), scores[n][i]);
        scores[n][i] = position >= seen.begin && position < seen.end ? score : minus_infinity;
      }
    }
  }
  StrideState state;
  float from[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    state.largest[h] = minus_infinity, state.sum[h] = 0.0f;
#pragma unroll
    for (int n = 0; n < kColumnTiles && h < Halves; ++n)
      state.largest[h] = fmaxf(state.largest[h], fmaxf(scores[n][2 * h], scores[n][2 * h + 1]));
  }
#pragma unroll
  for (int width = 1; width <= 2; width *= 2) {
#pragma unroll
    for (int h = 0; h < Halves; ++h)
      state.largest[h] = fmaxf(state.largest[h], __shfl_xor_sync(0xffffffffu, state.largest[h], width));
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    from[h] = state.largest[h] == minus_infinity ? 0.0f : state.largest[h];
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
      weights[n][h] = h >= Halves ? 0u
                                  : round_pair_to<F>(exp2_near(__fsub_rn(scores[n][2 * h], from[h])),
                                                     exp2_near(__fsub_rn(scores[n][2 * h + 1], from[h])));
      if (h >= Halves) continue;
      const float2 two = floats_of_pair<F>(weights[n][h]);
      state.sum[h] = __fadd_rn(state.sum[h], __fadd_rn(two.x, two.y));
    }
  }
#pragma unroll
  for (int width = 1; width <= 2; width *= 2) {
#pragma unroll
    for (int h = 0; h < Halves; ++h)
      state.sum[h] = __fadd_rn(state.sum[h], __shfl_xor_sync(0xffffffffu, state.sum[h], width));
  }
  return state;
}

/// Whether values are finite that only some of the warp's queries see: 0 times a value that is not would reach the
/// others. The same result for the whole warp. seen: positions that the job sees; zeros lie outside.
template <int Dims, class F>
__device__ bool has_finite_values(const StrideStage<Dims>& stage, int first, lanes::Range seen,
                                  const WarpQueries& queries, int value_stride, int lane) {
  // Positions of the tiles that some query sees, each of which is multiplied whole.
  const int begin = max(max(queries.any.begin / kTilePositions * kTilePositions, seen.begin), first);
  const int end = min(min((queries.any.end + kTilePositions - 1) / kTilePositions * kTilePositions, seen.end),
                      first + lanes::kStride);
  std::uint32_t found = 0;
  const auto check = [&](int from, int to) {
#pragma unroll 4
    for (int position = from + lane / 8; position < to; position += 4) {
      for (int chunk = lane % 8; 8 * chunk < value_stride; chunk += 8) {
        const uint4 eight = *reinterpret_cast<const uint4*>(stage.values[position - first] + 8 * chunk);
        found |= not_finite<F>(eight.x) | not_finite<F>(eight.y) | not_finite<F>(eight.z) | not_finite<F>(eight.w);
      }
    }
  };
  check(begin, min(queries.all.begin, end));
  check(max(queries.all.end, begin), end);
  return __all_sync(0xffffffffu, found == 0) != 0;
}

/// Values that count: all of the copied tiles, those of some tiles, or those that one query sees.
enum class Values { all, of_tiles, seen };

/// sums[16, 64] = weights[16, 64] times elements column .. column + 63 of values, in ascending order. Unspecified past
/// value_stride.
template <int Dims, class F, Values Which>
__device__ void multiply_values(const StrideStage<Dims>& stage, int first, int column, unsigned tiles,
                                lanes::Range seen, int lane, const std::uint32_t (&weights)[kColumnTiles][2],
                                float (&sums)[kColumnTiles][4]) {
  const std::uint16_t* own = stage.values[lane % 16] + column + 8 * (lane / 16);
#pragma unroll
  for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[n][i] = 0.0f;
  }
#pragma unroll
  for (int t = 0; t < lanes::kStrideTiles; ++t) {
    if (Which != Values::all && !(tiles >> t & 1u)) continue;
    const std::uint32_t a[4] = {weights[2 * t][0], weights[2 * t][1], weights[2 * t + 1][0], weights[2 * t + 1][1]};
    std::uint32_t b[kColumnTiles / 2][4];
#pragma unroll
    for (int n = 0; n < kColumnTiles / 2; ++n)
      load_transposed(b[n], own + t * kTilePositions * StrideStage<Dims>::kValueRow + 16 * n);
    if constexpr (Which == Values::seen) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int position = first + t * kTilePositions + 8 * half + 2 * (lane % 4);
        const std::uint32_t low = position >= seen.begin && position < seen.end ? 0xffffu : 0u;
        const std::uint32_t high = position + 1 >= seen.begin && position + 1 < seen.end ? 0xffff0000u : 0u;
#pragma unroll
        for (int n = 0; n < kColumnTiles / 2; ++n) b[n][half] &= low | high, b[n][half + 2] &= low | high;
      }
    }
#pragma unroll
    for (int n = 0; n < kColumnTiles / 2; ++n) {
      multiply_add<F>(sums[2 * n], a, b[n][0], b[n][1]);
      multiply_add<F>(sums[2 * n + 1], a, b[n][2], b[n][3]);
    }
  }
}

}  // namespace tenon::cuda
