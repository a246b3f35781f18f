// Logits of the rows that need them, or only the largest logits.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cub/block/block_radix_sort.cuh>
#include <limits>
#include <vector>

#include "tenon/device/cuda.cuh"
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/kernels.h"
#include "tenon/ops/cpu/top_k.h"
#include "tenon/ops/cuda/linear.cuh"

namespace tenon {

template <class W>
requires cuda::HasProduct<W>
void head(Cuda& device, const HeadArgs<W>& args) {
  linear(device, LinearArgs<W>{.x = args.hidden, .weight = args.weight, .y = args.logits});
}

namespace cuda {

inline constexpr TokenId kNotFinite = -1;

/// Stride of our own logit rows, so that they begin at multiples of sixteen bytes.
inline int logit_stride(int vocab) { return (vocab + 3) / 4 * 4; }

/// Orders like (logit ascending, id descending); both zeros are equal.
__device__ inline unsigned long long rank_of(float logit, int id) {
  const std::uint32_t bits = __float_as_uint(logit == 0.0f ? 0.0f : logit);
  const std::uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return static_cast<unsigned long long>(ordered) << 32 | (0xffffffffu - static_cast<std::uint32_t>(id));
}

/// Destination of a row's best logit.
struct BestLogits {
  TokenLogit* best;  ///< [rows]
  __device__ void put(unsigned row, float logit, TokenId id) const { best[row] = {logit, id}; }
};
struct BestTokens {
  TokenId *picks, *for_host;  ///< [rows], as in HeadPickArgs
  __device__ void put(unsigned row, float, TokenId id) const {
    picks[row] = id;
    if (for_host) for_host[row] = id;
  }
};

inline constexpr int kBestThreads = 1024;

/// One block per row. Finds its best logit, or kNotFinite if one is not finite.
template <class Best>
__global__ void __launch_bounds__(kBestThreads) best_kernel(MatrixView<const float> logits, Best best) {
  wait_for_earlier();
  __shared__ unsigned long long of_threads[kBestThreads];
  const float* row = logits.row(static_cast<int>(blockIdx.x));
  unsigned long long own = 0;
  bool finite = true;
#pragma unroll 8
  for (int id = static_cast<int>(threadIdx.x); id < logits.cols; id += kBestThreads) {
    const float logit = row[id];
    const unsigned long long rank = rank_of(logit, id);
    own = rank > own ? rank : own;
    finite = finite && isfinite(logit);
  }
  of_threads[threadIdx.x] = own;
  const bool all_finite = __syncthreads_and(finite) != 0;
  for (unsigned width = kBestThreads / 2; width > 0; width /= 2) {
    if (threadIdx.x < width && of_threads[threadIdx.x + width] > of_threads[threadIdx.x]) {
      of_threads[threadIdx.x] = of_threads[threadIdx.x + width];
    }
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  const int id = static_cast<int>(0xffffffffu - static_cast<std::uint32_t>(of_threads[0] & 0xffffffffu));
  best.put(blockIdx.x, all_finite ? row[id] : 0.0f, all_finite ? id : kNotFinite);
}

// ---- more than one: the best of each tile of logits, sorted, then the best of these

inline constexpr int kSortThreads = 256, kSortItems = 16, kSortTile = kSortThreads * kSortItems;
inline constexpr unsigned long long kNotFiniteRank = ~0ull, kNoRank = 0;
using SortRanks = cub::BlockRadixSort<unsigned long long, kSortThreads, kSortItems>;

/// One block per tile of a row. best: [rows, tiles, kMostBest], largest first. Banned: -inf is neither a candidate nor
/// an error.
template <bool Banned>
__global__ void __launch_bounds__(kSortThreads)
    best_of_tiles_kernel(MatrixView<const float> logits, unsigned long long* best) {
  __shared__ typename SortRanks::TempStorage memory;
  wait_for_earlier();
  const int thread = static_cast<int>(threadIdx.x), tile = static_cast<int>(blockIdx.x),
            r = static_cast<int>(blockIdx.y);
  const float* row = logits.row(r);
  unsigned long long ranks[kSortItems];
  for (int i = 0; i < kSortItems; ++i) {
    const int id = tile * kSortTile + i * kSortThreads + thread;
    const float logit = id < logits.cols ? row[id] : 0.0f;
    const bool none = id >= logits.cols || (Banned && isinf(logit) && logit < 0);
    ranks[i] = none ? kNoRank : isfinite(logit) ? rank_of(logit, id) : kNotFiniteRank;
  }
  SortRanks(memory).SortDescending(ranks);
  best += (static_cast<std::ptrdiff_t>(r) * gridDim.x + tile) * kMostBest;
  for (int i = 0; i < kSortItems; ++i) {
    if (thread * kSortItems + i < kMostBest) best[thread * kSortItems + i] = ranks[i];
  }
}

/// One block per row, whose tiles have `count` ranks together. found: [rows, most], largest first; kNotFinite after the
/// last, or if a logit of the row is not finite.
template <class = void>
__global__ void __launch_bounds__(kSortThreads)
    best_of_rows_kernel(MatrixView<const float> logits, const unsigned long long* best, int count, int most,
                        TokenLogit* found) {
  __shared__ typename SortRanks::TempStorage memory;
  wait_for_earlier();
  const int first = static_cast<int>(threadIdx.x) * kSortItems, r = static_cast<int>(blockIdx.x);
  best += static_cast<std::ptrdiff_t>(r) * count;
  unsigned long long ranks[kSortItems];
  for (int i = 0; i < kSortItems; ++i) ranks[i] = first + i < count ? best[first + i] : kNoRank;
  SortRanks(memory).SortDescending(ranks);
  // The best so far keep their places; the next ranks take the places after them.
  for (int begin = kSortTile; begin < count; begin += kSortTile - kMostBest) {
    __syncthreads();
    for (int i = 0; first >= kMostBest && i < kSortItems; ++i) {
      const int at = begin + first - kMostBest + i;
      ranks[i] = at < count ? best[at] : kNoRank;
    }
    SortRanks(memory).SortDescending(ranks);
  }
  for (int i = 0; i < kSortItems && first + i < most; ++i) {
    const int id = static_cast<int>(0xffffffffu - static_cast<std::uint32_t>(ranks[i] & 0xffffffffu));
    const bool is_token = ranks[i] != kNoRank && ranks[i] != kNotFiniteRank;
    found[static_cast<std::ptrdiff_t>(r) * most + first + i] =
        is_token ? TokenLogit{logits.row(r)[id], id} : TokenLogit{0.0f, kNotFinite};
  }
}

/// Tiles of a row, and words that find_best() needs.
inline std::size_t sort_tiles(int vocab) { return static_cast<std::size_t>((vocab + kSortTile - 1) / kSortTile); }
inline std::size_t best_of_tiles_count(int rows, int vocab) {
  return static_cast<std::size_t>(rows) * sort_tiles(vocab) * kMostBest;
}

/// Finds the `most` best logits of each row, at most kMostBest. of_tiles: [best_of_tiles_count()]; found: [rows, most],
/// as best_of_rows_kernel leaves it.
template <bool Banned>
void find_best(Cuda& device, const char* what, MatrixView<const float> logits, unsigned long long* of_tiles, int most,
               TokenLogit* found) {
  const std::size_t tiles = sort_tiles(logits.cols);
  dim3 grid = blocks(tiles);
  grid.y = static_cast<unsigned>(logits.rows);
  device.launch_early(what, best_of_tiles_kernel<Banned>, grid, kSortThreads, 0, logits, of_tiles);
  device.launch_early(what, best_of_rows_kernel<>, blocks(logits.rows), kSortThreads, 0, logits, of_tiles,
                      static_cast<int>(tiles) * kMostBest, most, found);
}

/// Keeps the entries that are tokens.
inline void assign_best(const TokenLogit* list, int count, std::vector<TokenLogit>& best) {
  best.assign(list, std::find_if(list, list + count, [](const TokenLogit& each) { return each.id == kNotFinite; }));
}

}  // namespace cuda

/// Rows of logits stay on the device unless a row wants more than kMostBest: the host finds those.
template <class W>
requires cuda::HasProduct<W>
void head_best(Cuda& device, const HeadBestArgs<W>& args) {
  const int rows = args.hidden.rows, most = rows > 0 ? *std::max_element(args.counts, args.counts + rows) : 0;
  const auto count = static_cast<std::size_t>(rows);
  const int stride = cuda::logit_stride(args.vocab);
  const std::size_t floats = count * static_cast<std::size_t>(stride);
  const std::size_t ranks = most > 1 && most <= kMostBest ? cuda::best_of_tiles_count(rows, args.vocab) : 0;
  const std::size_t listed = most <= kMostBest ? count * static_cast<std::size_t>(most) : 0;
  float* memory = device.scratch(floats + 2 * (ranks + listed));
  const MatrixView<float> logits{memory, rows, args.vocab, stride};
  auto* of_tiles = reinterpret_cast<unsigned long long*>(memory + floats);   // [rows, tiles, kMostBest]
  auto* found = reinterpret_cast<TokenLogit*>(memory + floats + 2 * ranks);  // [rows, most]
  head(device, HeadArgs<W>{args.hidden, args.weight, logits});
  if (listed > 0) {
    if (most == 1) {
      device.launch_early("head_best", cuda::best_kernel<cuda::BestLogits>, cuda::blocks(rows), cuda::kBestThreads, 0,
                          logits, cuda::BestLogits{found});
    } else {
      cuda::find_best<false>(device, "head_best", logits, of_tiles, most, found);
    }
    const TokenLogit* list = device.fetch(found, listed);
    for (int r = 0; r < rows; ++r, list += most) {
      std::vector<TokenLogit>& best = args.best[r];
      cuda::assign_best(list, args.counts[r], best);
      std::sort(best.begin(), best.end(), [](const TokenLogit& a, const TokenLogit& b) { return a.id < b.id; });
    }
    return;
  }
  const float* values = device.fetch(memory, floats);
  const auto& kernels = cpu::kernels_for(best_isa());
  device.pool().share(rows, 1, [&](int begin, int end, int) {
    for (int r = begin; r < end; ++r) {
      const float* row = values + std::ptrdiff_t{r} * stride;
      cpu::TopK best;
      best.reset(args.counts[r]);
      best.offer(row, args.vocab, 0, kernels.finite_max(row, args.vocab));
      args.best[r] = best.take();
    }
  });
}

}  // namespace tenon
