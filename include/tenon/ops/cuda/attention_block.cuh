// Attention by blocks of 128 threads with up to 64 queries that read the same keys. A block copies each stride of keys
// and values into shared memory once. A thread multiplies tiles of four queries by eight keys, then by eight elements
// of their values; for decoded rows it has one of up to 16 queries. The order of additions is that of
// ops/cpu/kernels/attention.inc, so the bits are the same.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>

#include "tenon/device/cuda.cuh"
#include "tenon/ops/args.h"
#include "tenon/ops/cuda/flash_grid.cuh"
#include "tenon/ops/cuda/lanes.cuh"
#include "tenon/ops/cuda/staged.cuh"

namespace tenon::cuda {

inline constexpr int kBlockDims = 64;   ///< largest head_dim
inline constexpr int kTileThreads = 8;  ///< threads that share a tile of queries: eight keys, or elements, each
inline constexpr int kQueryTiles = lanes::kThreads / kTileThreads;
static_assert(kTileThreads * 8 == lanes::kStride && kBlockDims == lanes::kStride);
static_assert(Cuda::queries_together == 4 * kQueryTiles);

/// Loads four elements as floats.
template <class E>
__device__ float4 four_of(const E* p) {
  struct alignas(4 * sizeof(E)) Four {
    E e[4];
  };
  const Four four = *reinterpret_cast<const Four*>(p);
  return {static_cast<float>(four.e[0]), static_cast<float>(four.e[1]), static_cast<float>(four.e[2]),
          static_cast<float>(four.e[3])};
}

/// Shared memory of a block. Rows of floats are four longer, and tiles of keys sixteen elements, so that neighbouring
/// threads read different banks.
template <class E, int Queries>
struct BlockScratch {
  static constexpr int kRow = kBlockDims + 4;
  float q[Queries][kRow];              ///< times the scale
  float weights[Queries][kRow];        ///< scores of a stride, then weights
  float factors[Queries];              ///< of earlier strides
  float2 shares[Queries];              ///< of all previous splits, and of this one
  float totals[Queries];               ///< divisors of what the splits so far add up to
  float scales[2][2][lanes::kStride];  ///< by parity of the stride: of keys, of values
  alignas(16) E keys[lanes::kStrideTiles][(kBlockDims + 1) * kTilePositions];
  alignas(16) E values[lanes::kStrideTiles][kBlockDims * kTilePositions];
};

/// State of one query between strides and splits, kept by its half-warp.
struct QueryState {
  float largest, total_largest, total_sum;
  lanes::F32x16 sums;

  template <class V>
  __device__ lanes::Query of(const QueryJob<V>& job, int i) const {
    lanes::Query query = lanes::query_of(job, i);
    query.largest = largest, query.total_largest = total_largest, query.total_sum = total_sum, query.sums = sums;
    return query;
  }
  __device__ void keep(const lanes::Query& query) {
    largest = query.largest, total_largest = query.total_largest, total_sum = query.total_sum, sums = query.sums;
  }
};

/// Tile: queries per thread.
template <class V, int Tile>
struct BlockWalk {
  using E = typename V::Element;
  using Scratch = BlockScratch<E, Tile * kQueryTiles>;
  static constexpr int kOwn = Tile * kQueryTiles / lanes::kRowsABlock;  ///< queries per half-warp

  const QueryJob<V>& job;
  Scratch& shared;
  const int count;          ///< of queries
  const lanes::Range seen;  ///< union over the queries
  const int thread = static_cast<int>(threadIdx.x), first_query = thread / kTileThreads * Tile,
            column = thread % kTileThreads * 4;
  float part[Tile][8], total[Tile][8];  ///< elements column .. + 3 and column + 32 .. + 3 of each query's output
  lanes::Range sees[Tile];
  QueryState states[kOwn];

  __device__ BlockWalk(const QueryJob<V>& j, Scratch& s)
      : job(j),
        shared(s),
        count(j.rows * j.heads),
        seen{lanes::query_of(j, 0).seen.begin, lanes::query_of(j, count - 1).seen.end} {
    for (int i = thread / 16; i < count; i += lanes::kRowsABlock) lanes::scale_query(job, i, shared.q[i]);
#pragma unroll
    for (int i = 0; i < Tile; ++i) {
      sees[i] = first_query + i < count ? lanes::query_of(job, first_query + i).seen : lanes::Range{0, 0};
#pragma unroll
      for (int c = 0; c < 8; ++c) total[i][c] = 0.0f;
    }
#pragma unroll
    for (int u = 0; u < kOwn; ++u) states[u].keep(lanes::query_of(job, 0));  // empty state
  }

  __device__ int own_query(int u) const { return thread / 16 * kOwn + u; }
  __device__ int tiles_of(int first) const {
    return min((seen.end - first + kTilePositions - 1) / kTilePositions, lanes::kStrideTiles);
  }

  /// Starts copies of the keys of the stride at `first`, with all scales, or of its values. Tiles that are gone are
  /// replaced by another.
  template <bool Keys>
  __device__ void fetch(int first) {
    for (int j = 0; first < seen.end && j < tiles_of(first); ++j) {
      KvTile<const E> tile;
      QueryJob<V>::tiles(job.view, job.layer, job.sequence, job.head,
                         max(first / kTilePositions + j, seen.begin / kTilePositions), 1, &tile);
      const auto copy = [&](void* to, const void* from, std::size_t bytes) {
        copy_by(to, from, static_cast<int>(bytes), thread, lanes::kThreads);
      };
      if constexpr (Keys)
        copy(shared.keys[j], tile.keys, sizeof(E) * kTilePositions * job.head_dim);
      else
        copy(shared.values[j], tile.values, sizeof(E) * kTilePositions * job.value_stride);
      if constexpr (Keys && has_scales<E>) {
        auto& scales = shared.scales[first / lanes::kStride % 2];
        copy(scales[0] + j * kTilePositions, tile.key_scales, sizeof(float) * kTilePositions);
        copy(scales[1] + j * kTilePositions, tile.value_scales, sizeof(float) * kTilePositions);
      }
    }
    end_copies();
  }

  /// scores = q . k, a chain over the elements. Keys: lanes column % 16 .. + 3 of tiles column / 16 and + 2.
  /// body<First, Count>() takes all queries of a full tile, or each existing one.
  template <class Body>
  __device__ __forceinline__ void for_queries(Body&& body) {
    if (first_query + Tile <= count) return body.template operator()<0, Tile>();
    if constexpr (Tile == 4) {
      if (first_query < count) body.template operator()<0, 1>();
      if (first_query + 1 < count) body.template operator()<1, 1>();
      if (first_query + 2 < count) body.template operator()<2, 1>();
    }
  }

  __device__ void multiply_keys(int first) {
    for_queries([&]<int First, int Count>() { multiply_keys<First, Count>(first); });
  }
  template <int First, int Count>
  __device__ __forceinline__ void multiply_keys(int first) {
    const int lane = column % kTilePositions, tile = column / kTilePositions, query = first_query + First;
    float acc[Count][8] = {};
#pragma unroll 4
    for (int d = 0; d < job.head_dim; ++d) {
      const float4 low = four_of(shared.keys[tile] + d * kTilePositions + lane),
                   high = four_of(shared.keys[tile + 2] + d * kTilePositions + lane);
      const float keys[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        const float q = shared.q[query + i][d];
#pragma unroll
        for (int c = 0; c < 8; ++c) acc[i][c] = __fmaf_rn(keys[c], q, acc[i][c]);
      }
    }
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      const int key = column + c % 4 + c / 4 * 32;
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        float score = acc[i][c];
        if constexpr (has_scales<E>) score = __fmaf_rn(score, shared.scales[first / lanes::kStride % 2][0][key], 0.0f);
        shared.weights[query + i][key] = score;
      }
    }
  }

  /// Turns scores into weights, by the half-warps that have the queries.
  __device__ void weigh(int first) {
    KvTile<const E> tiles[lanes::kStrideTiles];
    for (int j = 0; j < lanes::kStrideTiles; ++j)
      tiles[j].value_scales = shared.scales[first / lanes::kStride % 2][1] + j * kTilePositions;
#pragma unroll
    for (int u = 0; u < kOwn; ++u) {
      const int i = own_query(u);
      if (i >= count) break;
      lanes::Query query = states[u].of(job, i);
      const lanes::Range here = query.seen.in(first, lanes::kStride);
      float factor = 1.0f;
      if (!here.empty()) {
        lanes::F32x16 scores[lanes::kStrideTiles];
        for (int j = 0; j < lanes::kStrideTiles; ++j) scores[j] = lanes::load(shared.weights[i] + j * kTilePositions);
        const lanes::F32x16 top = lanes::place_scores(scores, first, query, here, job.slopes != nullptr, job.soft_cap);
        factor = lanes::weigh(scores, top, tiles, here, query, shared.weights[i]);
        states[u].keep(query);
      }
      if (lanes::lane() == 0) shared.factors[i] = factor;
    }
  }

  /// part = part * factor, then a chain over what each query sees of the stride.
  __device__ void multiply_values(int first) {
    for_queries([&]<int First, int Count>() { multiply_values<First, Count>(first); });
  }
  template <int First, int Count>
  __device__ __forceinline__ void multiply_values(int first) {
    lanes::Range here[Count];
    int begin = lanes::kStride, end = 0;
    bool all = true;
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      here[i] = sees[First + i].in(first, lanes::kStride);
      if (!here[i].empty()) begin = min(begin, here[i].begin), end = max(end, here[i].end);
      // Not by `here`: ptxas 13.0 for sm_90a takes a number clamped to N for N if it is less (docs/decisions/0010).
      all = all && sees[First + i].begin <= first && sees[First + i].end >= first + lanes::kStride;
      const float factor = shared.factors[first_query + First + i];
#pragma unroll
      for (int c = 0; c < 8; ++c) part[First + i][c] = __fmul_rn(part[First + i][c], factor);
    }
    if (all)
      add_values<true, First>(0, lanes::kStride, here);
    else
      add_values<false, First>(begin, end, here);
  }

  template <bool All, int First, int Count>
  __device__ __forceinline__ void add_values(int begin, int end, const lanes::Range (&here)[Count]) {
#pragma unroll 4
    for (int t = begin; t < end; ++t) {
      const E* row = shared.values[t / kTilePositions] + t % kTilePositions * job.value_stride + column;
      const float4 low = column < job.value_stride ? four_of(row) : float4{},
                   high = column + 32 < job.value_stride ? four_of(row + 32) : float4{};
      const float values[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        if (!All && (t < here[i].begin || t >= here[i].end)) continue;
        const float w = shared.weights[first_query + First + i][t];
#pragma unroll
        for (int c = 0; c < 8; ++c) part[First + i][c] = __fmaf_rn(w, values[c], part[First + i][c]);
      }
    }
  }

  /// Combines a split like add_split(): the half-warps' share, then the tiles'.
  __device__ void end_split(int split) {
#pragma unroll
    for (int u = 0; u < kOwn; ++u) {
      const int i = own_query(u);
      if (i >= count) break;
      lanes::Query query = states[u].of(job, i);
      if (query.seen.in(split, lanes::kSplitPositions).empty()) continue;
      const float now = query.largest > query.total_largest ? query.largest : query.total_largest;
      const float before = lanes::exp(lanes::broadcast(query.total_largest - now)).v,
                  here = lanes::exp(lanes::broadcast(query.largest - now)).v;
      lanes::add_split(query, nullptr, 0, nullptr);
      states[u].keep(query);
      const float divisor = lanes::divisor_of(job, i, query.total_largest, query.total_sum);  // by all lanes
      if (lanes::lane() == 0) {
        shared.shares[i] = {before, here};
        shared.totals[i] = divisor;
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < Tile; ++i) {
      if (sees[i].in(split, lanes::kSplitPositions).empty()) continue;
      const float2 shares = shared.shares[first_query + i];
#pragma unroll
      for (int c = 0; c < 8; ++c) total[i][c] = __fmaf_rn(total[i][c], shares.x, __fmul_rn(part[i][c], shares.y));
    }
  }

  __device__ void begin_split() {
#pragma unroll
    for (int u = 0; u < kOwn; ++u) {
      states[u].largest = -std::numeric_limits<float>::infinity();
      states[u].sums = lanes::zero();
    }
#pragma unroll
    for (int i = 0; i < Tile; ++i) {
#pragma unroll
      for (int c = 0; c < 8; ++c) part[i][c] = 0.0f;
    }
  }

  __device__ void run() {
    const int begin = seen.begin / lanes::kStride * lanes::kStride;
    fetch<true>(begin);
    fetch<false>(begin);
    for (int first = begin; first < seen.end; first += lanes::kStride) {
      const int next = first + lanes::kStride, split = first / lanes::kSplitPositions * lanes::kSplitPositions;
      if (first == begin || first == split) begin_split();
      wait_for_copies<1>();  // keys
      __syncthreads();
      multiply_keys(first);
      __syncthreads();
      fetch<true>(next);
      weigh(first);
      wait_for_copies<1>();  // values
      __syncthreads();
      multiply_values(first);
      __syncthreads();
      fetch<false>(next);
      if (next >= seen.end || next % lanes::kSplitPositions == 0) end_split(split);
    }
    __syncthreads();
    write();
  }

  __device__ void write() {
#pragma unroll
    for (int i = 0; i < Tile; ++i) {
      const int query = first_query + i;
      if (query >= count) break;
      float* out = job.out + query / job.heads * job.out_stride + query % job.heads * job.head_dim;  // [head_dim]
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        const int d = column + c % 4 + c / 4 * 32;
        if (d < job.head_dim) out[d] = __fdiv_rn(total[i][c], shared.totals[query]);
      }
    }
  }
};

template <int Tile, CacheView V>
__global__ void __launch_bounds__(lanes::kThreads) flash_block_kernel(AttentionArgs<V> args, FlashGrid grid) {
  extern __shared__ __align__(16) float shared[];
  wait_for_earlier();
  const QueryJob<V> job = grid.job(args, static_cast<int>(blockIdx.x));
  if (job.rows <= 0) return;
  using Walk = BlockWalk<V, Tile>;
  Walk(job, *reinterpret_cast<typename Walk::Scratch*>(shared)).run();
}

template <int Tile, class V>
void launch_flash_block(Cuda& device, const AttentionArgs<V>& args) {
  const FlashGrid grid(args, device.processors(),
                       {.queries = Tile * kQueryTiles, .a_block = 1, .threads = lanes::kThreads});
  device.launch_early("attention", flash_block_kernel<Tile, V>, grid.blocks(), lanes::kThreads,
                      sizeof(typename BlockWalk<V, Tile>::Scratch), args, grid);
}

}  // namespace tenon::cuda
