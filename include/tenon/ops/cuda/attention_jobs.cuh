// How the warps of a block compute a job of attention on tensor cores (attention_tensor.cuh). With few queries they
// take strides in turn, with many queries sixteen queries each.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tenon/device/cuda.cuh"
#include "tenon/ops/args.h"
#include "tenon/ops/cuda/attention_stride.cuh"
#include "tenon/ops/cuda/flash_grid.cuh"
#include "tenon/ops/cuda/operand.cuh"

namespace tenon::cuda {

/// Writes elements d and d + 1 of a head, d even, except those past head_dim.
template <class Out>
struct HeadWriter {
  const Out& to;
  const int row, first, head_dim;  ///< first: the head's first column
  const bool in_pairs;

  __device__ HeadWriter(const Out& out, int r, int column, int dims)
      : to(out), row(r), first(column), head_dim(dims), in_pairs(dims % 2 == 0 && aligned(out)) {}

  __device__ void pair(int d, float low, float high) const {
    if (d >= head_dim) return;
    if constexpr (std::is_same_v<Out, MatrixView<float>>)
      *reinterpret_cast<float2*>(to.row(row) + first + d) = {low, high};
    else
      write_pair(to, row, first + d, low, high);
  }
  __device__ void each(int d, float low, float high) const {
    if (d < head_dim) write_element(to, row, first + d, low);
    if (d + 1 < head_dim) write_element(to, row, first + d + 1, high);
  }

 private:
  __device__ static bool aligned(const MatrixView<float>& out) {
    return out.stride % 2 == 0 && reinterpret_cast<std::uintptr_t>(out.data) % sizeof(float2) == 0;
  }
  template <class E>
  __device__ static bool aligned(const OperandTiles<E>&) {
    return true;
  }
};

/// Zeroes the columns past all heads that the next product reads, by the job with the last head.
template <class V, class Out>
__device__ void clear_tail_columns(const AttentionArgs<V, Out>& args, const QueryJob<V>& job) {
  const int begin = args.heads * args.head_dim, width = written_columns(args.out) - begin;
  if (width <= 0 || job.first_head + job.heads < args.heads) return;
  for (int i = static_cast<int>(threadIdx.x); i < job.rows * width; i += static_cast<int>(blockDim.x)) {
    write_element(args.out, job.first_row + i / width, begin + i % width, 0.0f);
  }
}

/// The combination of all strides of a query so far, and the factors of it and of the next stride.
struct FlashTotal {
  float largest = -std::numeric_limits<float>::infinity(), sum = 0.0f;
  float before = 1.0f, here = 0.0f;

  /// Returns false if the query sees nothing of the stride; `here` is 0 then. Branch-free, so that exponents of several
  /// strides are in flight at once.
  __device__ bool add(float largest_here, float sum_here) {
    const bool sees = sum_here != 0.0f;
    const float now = sees ? fmaxf(largest, largest_here) : largest;
    before = sees ? exp2_near(__fsub_rn(largest, now)) : 1.0f;
    here = sees ? exp2_near(__fsub_rn(largest_here, now)) : 0.0f;
    sum = __fmaf_rn(sum, before, __fmul_rn(sum_here, here));
    largest = now;
    return sees;
  }
  __device__ float combined(float total, float value) const { return __fmaf_rn(total, before, __fmul_rn(value, here)); }
  /// + 0, because the sign of a zero may be that of a product with zero.
  __device__ float mean(float total) const { return __fadd_rn(__fmul_rn(total, __frcp_rn(sum)), 0.0f); }
};

/// Shared memory of a block: `stages` strides, then `room` rows with the sums of a query over a stride and their state.
template <int Dims>
struct FlashMemory {
  StrideStage<Dims>* stages;
  float* sums;     ///< [room, Dims]
  float2* states;  ///< [room] largest score, sum of weights

  __device__ FlashMemory(float* shared, int stage_count, int room)
      : stages(reinterpret_cast<StrideStage<Dims>*>(shared)),
        sums(reinterpret_cast<float*>(stages + stage_count)),
        states(reinterpret_cast<float2*>(sums + room * Dims)) {}
  static std::size_t bytes(int stage_count, int room) {
    return sizeof(StrideStage<Dims>) * static_cast<std::size_t>(stage_count) +
           (Dims * sizeof(float) + sizeof(float2)) * static_cast<std::size_t>(room);
  }
};

/// A job of at most sixteen queries, by a block. Warp w takes strides w, w + stages, ... of what the job sees, with a
/// stage of its own. A round ends when the room for sums of strides is full; they are combined into the first row of
/// each query.
template <int Dims, class V, class Out>
struct StridesApart {
  using F = FlashElement<typename V::Element>;

  using Copy = StrideCopy<Dims, V, 8>;

  const AttentionArgs<V, Out>& args;
  const QueryJob<V>& job;
  const FlashMemory<Dims>& memory;
  const int stages, room;
  const WarpQueries queries{job, 0, kWarpQueries};
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;

  __device__ void run() const {
    StrideStage<Dims>& stage = memory.stages[warp < stages ? warp : 0];
    const int begin = queries.any.begin / lanes::kStride, end = (queries.any.end + lanes::kStride - 1) / lanes::kStride;
    const int strides = room / queries.count - 1;  // of a round
    int stride = warp < stages ? begin + warp : end;
    std::uint32_t q[Dims / 16][4];
    Copy copy{lane / 8, lane % 8};
    if (stride < end) {
      copy.find(job, queries.any, stride * lanes::kStride);
      clear_tail_keys(stage, job.head_dim, lane, 32);
      copy.copy_keys(job, stage);
      end_copies();
      copy.copy_values(job, queries.any, stage);
      end_copies();
      queries.load<Dims>(job, lane, q);
    }
    for (int first = begin; first < end; first += strides) {
      for (; stride < min(first + strides, end); stride += stages)
        attend(stage, copy, q, stride, stride - first + 1, stride + stages < end);
      __syncthreads();
      combine(first == begin ? 1 : 0, min(strides, end - first) + 1, first + strides >= end);
    }
    clear_tail_columns(args, job);
  }

 private:
  // Copies of the stage's next stride start as soon as its keys, then its values, have been read.
  __device__ void attend(StrideStage<Dims>& stage, Copy& copy, const std::uint32_t (&q)[Dims / 16][4], int stride,
                         int slot, bool goes_on) const {
    const int first = stride * lanes::kStride;
    float scores[kColumnTiles][4];
    std::uint32_t weights[kColumnTiles][2];
    if (goes_on) copy.find(job, queries.any, first + stages * lanes::kStride);
    wait_for_copies<1>();
    __syncwarp();
    multiply_keys<Dims, F>(stage, lane, q, scores);
    __syncwarp();
    if (goes_on) copy.copy_keys(job, stage);
    end_copies();
    const StrideState state = queries.count <= kWarpQueries / 2
                                  ? weigh<F, 1>(job, queries, first, lane, scores, weights)
                                  : weigh<F, 2>(job, queries, first, lane, scores, weights);
    wait_for_copies<1>();
    __syncwarp();
    const unsigned tiles = tiles_met(queries.any, first);
    const bool whole = covers(queries.all, first, lanes::kStride);
    if (whole) {
      add_up<Values::all>(stage, first, tiles, weights, slot, 0);
    } else if (job.rows == 1 ||
               has_finite_values<Dims, F>(stage, first, queries.any, queries, job.value_stride, lane)) {
      add_up<Values::of_tiles>(stage, first, tiles, weights, slot, 0);
    } else {
#pragma unroll 1
      for (int query = 0; query < queries.count; ++query)
        add_up<Values::seen>(stage, first, tiles, weights, slot, query);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int query = lane / 4 + 8 * h;
      if (lane % 4 == 0 && query < queries.count)
        memory.states[slot * queries.count + query] = {state.largest[h], state.sum[h]};
    }
    __syncwarp();
    if (goes_on) copy.copy_values(job, queries.any, stage);
    end_copies();
  }

  // Sums over the stride at `first`, for all queries or for one whose visible range differs.
  template <Values Which>
  __device__ void add_up(const StrideStage<Dims>& stage, int first, unsigned tiles,
                         const std::uint32_t (&weights)[kColumnTiles][2], int slot, int alone) const {
    constexpr bool Apart = Which == Values::seen;
    const lanes::Range seen = Apart ? lanes::query_of(job, alone).seen : queries.any;
#pragma unroll
    for (int column = 0; column < Dims; column += kValueColumns) {
      if (column >= job.value_stride) continue;
      float sums[kColumnTiles][4];
      multiply_values<Dims, F, Which>(stage, first, column, tiles, seen, lane, weights, sums);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int query = lane / 4 + 8 * h;
        if (Apart ? query != alone : query >= queries.count) continue;
        float* to = memory.sums + (slot * queries.count + query) * Dims + column + 2 * (lane % 4);
#pragma unroll
        for (int n = 0; n < kColumnTiles; ++n)
          *reinterpret_cast<float2*>(to + 8 * n) = {sums[n][2 * h], sums[n][2 * h + 1]};
      }
    }
  }

  // Combines slots begin .. end - 1 of all queries, two elements a thread at a time, into slot 0 or into the result.
  __device__ void combine(int begin, int end, bool ends) const {
    constexpr int kPairs = Dims / 2;
    const int threads = static_cast<int>(blockDim.x);
    FlashTotal total;
    for (int i = thread; i < queries.count * kPairs; i += threads) {
      const int query = i / kPairs, d = 2 * (i % kPairs);
      if (d >= job.head_dim) continue;
      total = {};
      float2 sums = {0.0f, 0.0f};
#pragma unroll 4
      for (int slot = begin; slot < end; ++slot) {
        const int row = slot * queries.count + query;
        const float2 state = memory.states[row], here = *reinterpret_cast<const float2*>(memory.sums + row * Dims + d);
        const bool sees = total.add(state.x, state.y);
        sums = {total.combined(sums.x, sees ? here.x : 0.0f), total.combined(sums.y, sees ? here.y : 0.0f)};
      }
      if (ends) {
        const HeadWriter<Out> write(args.out, job.first_row + query / job.heads,
                                    (job.first_head + query % job.heads) * job.head_dim, job.head_dim);
        if (write.in_pairs)
          write.pair(d, total.mean(sums.x), total.mean(sums.y));
        else
          write.each(d, total.mean(sums.x), total.mean(sums.y));
      } else {
        *reinterpret_cast<float2*>(memory.sums + query * Dims + d) = sums;
      }
    }
    if (ends) return;
    __syncthreads();
    for (int query = thread; query < queries.count; query += threads) {
      total = {};
      for (int slot = begin; slot < end; ++slot) {
        const float2 state = memory.states[slot * queries.count + query];
        total.add(state.x, state.y);
      }
      memory.states[query] = {total.largest, total.sum};
    }
    __syncthreads();
  }
};

/// Warps of a job with up to 64 queries. Each has sixteen of them and attends all strides, which the warps copy
/// together, one ahead.
inline constexpr int kFlashWarps = 4;

template <int Dims, class V, class Out>
struct QueriesApart {
  using F = FlashElement<typename V::Element>;

  const AttentionArgs<V, Out>& args;
  const QueryJob<V>& job;
  const FlashMemory<Dims>& memory;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const WarpQueries of_job{job, 0, kFlashWarps*kWarpQueries}, queries{job, warp*kWarpQueries, kWarpQueries};

  __device__ void run() const {
    const lanes::Range seen = of_job.any;
    const int begin = seen.begin / lanes::kStride * lanes::kStride;
    StrideCopy<Dims, V, 32> copy{warp, lane};
    const auto stage = [&](int first) {
      StrideStage<Dims>& to = memory.stages[first / lanes::kStride % 2];
      if (first < seen.end) copy.copy_keys(job, to), copy.copy_values(job, seen, to);
      end_copies();
      copy.find(job, seen, first + lanes::kStride);
    };
    for (int s = 0; s < 2; ++s) clear_tail_keys(memory.stages[s], job.head_dim, thread, 32 * kFlashWarps);
    copy.find(job, seen, begin);
    stage(begin);
    std::uint32_t q[Dims / 16][4];
    queries.load<Dims>(job, lane, q);
    FlashTotal totals[2];
    float sums[Dims / 8][4] = {};
#pragma unroll 1
    for (int first = begin; first < seen.end; first += lanes::kStride) {
      wait_for_copies<0>();
      __syncthreads();
      stage(first + lanes::kStride);
      if (meets(queries.any, first, lanes::kStride))
        attend(memory.stages[first / lanes::kStride % 2], q, first, totals, sums);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int i = lane / 4 + 8 * h, query = queries.first + i;
      if (i >= queries.count) continue;
      const HeadWriter<Out> write(args.out, job.first_row + query / job.heads,
                                  (job.first_head + query % job.heads) * job.head_dim, job.head_dim);
      const auto for_pairs = [&](auto&& body) {
#pragma unroll
        for (int n = 0; n < Dims / 8; ++n)
          body(8 * n + 2 * (lane % 4), totals[h].mean(sums[n][2 * h]), totals[h].mean(sums[n][2 * h + 1]));
      };
      if (write.in_pairs)
        for_pairs([&](int d, float low, float high) { write.pair(d, low, high); });
      else
        for_pairs([&](int d, float low, float high) { write.each(d, low, high); });
    }
    clear_tail_columns(args, job);
  }

 private:
  __device__ void attend(const StrideStage<Dims>& stage, const std::uint32_t (&q)[Dims / 16][4], int first,
                         FlashTotal (&totals)[2], float (&sums)[Dims / 8][4]) const {
    float scores[kColumnTiles][4];
    std::uint32_t weights[kColumnTiles][2];
    multiply_keys<Dims, F>(stage, lane, q, scores);
    const StrideState state = weigh<F, 2>(job, queries, first, lane, scores, weights);
    const bool sees[2] = {totals[0].add(state.largest[0], state.sum[0]), totals[1].add(state.largest[1], state.sum[1])};
    const unsigned tiles = tiles_met(queries.any, first);
    if (covers(queries.all, first, lanes::kStride)) {
      add_up<Values::all>(stage, first, tiles, weights, sees, totals, 0, sums);
    } else if (has_finite_values<Dims, F>(stage, first, of_job.any, queries, job.value_stride, lane)) {
      add_up<Values::of_tiles>(stage, first, tiles, weights, sees, totals, 0, sums);
    } else {
#pragma unroll 1
      for (int query = 0; query < queries.count; ++query)
        add_up<Values::seen>(stage, first, tiles, weights, sees, totals, query, sums);
    }
  }

  // Adds the stride at `first`, for all queries or for one whose visible range differs.
  template <Values Which>
  __device__ void add_up(const StrideStage<Dims>& stage, int first, unsigned tiles,
                         const std::uint32_t (&weights)[kColumnTiles][2], const bool (&sees)[2],
                         const FlashTotal (&totals)[2], int alone, float (&sums)[Dims / 8][4]) const {
    constexpr bool Apart = Which == Values::seen;
    const lanes::Range seen = Apart ? lanes::query_of(job, queries.first + alone).seen : queries.any;
#pragma unroll
    for (int column = 0; column < Dims; column += kValueColumns) {
      if (column >= job.value_stride) continue;
      float here[kColumnTiles][4];
      multiply_values<Dims, F, Which>(stage, first, column, tiles, seen, lane, weights, here);
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& sum = sums[column / 8 + n][i];
          if (sees[i / 2] && (!Apart || row_of_sum(lane, i) == alone)) sum = totals[i / 2].combined(sum, here[n][i]);
        }
      }
    }
  }
};

}  // namespace tenon::cuda
