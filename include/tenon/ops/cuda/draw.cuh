// Picks of tokens on the device, and preparation of rows for a draw: biases, penalties, masks, the sum of weights, and
// the best logits.
#pragma once
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tenon/core/exact_math.h"
#include "tenon/device/cuda.cuh"
#include "tenon/ops/args.h"
#include "tenon/ops/cuda/head.cuh"

namespace tenon {
namespace cuda {

struct DrawLists {
  const DrawRow* draws;  ///< [rows]
  const TokenLogit* biases;
  const SeenToken* seen;
  const std::uint32_t* masks;  ///< [masks, (vocab + 31) / 32]
};

/// Like sample/penalties.h.
__device__ inline float tamed(float logit) { return isnan(logit) ? -INFINITY : fminf(logit, FLT_MAX); }

__device__ inline float penalised(float logit, const DrawRow& draw, int generated) {
  const float penalty = draw.repetition_penalty;
  if (penalty != 1.0f) logit = tamed(logit < 0.0f ? __fmul_rn(logit, penalty) : __fdiv_rn(logit, penalty));
  if (generated == 0 || (draw.presence_penalty == 0.0f && draw.frequency_penalty == 0.0f)) return logit;
  const float times = static_cast<float>(generated);
  return tamed(__fsub_rn(__fmaf_rn(-draw.frequency_penalty, times, logit), draw.presence_penalty));
}

inline constexpr int kDrawThreads = 256;

/// Prepares one row per block. A row that is not finite gets NaN as its first logit and no other change.
template <class = void>
__global__ void __launch_bounds__(kDrawThreads) prepare_draw_kernel(MatrixView<float> logits, DrawLists lists) {
  wait_for_earlier();
  const DrawRow draw = lists.draws[blockIdx.x];
  if (draw.best == 0) return;
  float* row = logits.row(static_cast<int>(blockIdx.x));
  const int thread = static_cast<int>(threadIdx.x);
  bool finite = true;
  for (int id = thread; id < logits.cols; id += kDrawThreads) finite = finite && isfinite(row[id]);
  if (__syncthreads_and(finite) == 0) {
    if (thread == 0) row[0] = NAN;
    return;
  }
  for (int i = thread; i < draw.biases; i += kDrawThreads) {
    const TokenLogit bias = lists.biases[draw.first_bias + i];
    row[bias.id] = tamed(__fadd_rn(row[bias.id], bias.logit));
  }
  __syncthreads();
  for (int i = thread; i < draw.seen; i += kDrawThreads) {
    const SeenToken token = lists.seen[draw.first_seen + i];
    row[token.id] = penalised(row[token.id], draw, token.generated);
  }
  __syncthreads();
  if (draw.mask < 0) return;
  const std::uint32_t* mask = lists.masks + static_cast<std::ptrdiff_t>(draw.mask) * ((logits.cols + 31) / 32);
  for (int id = thread; id < logits.cols; id += kDrawThreads) {
    if ((mask[id / 32] >> (id % 32) & 1u) == 0) row[id] = -INFINITY;
  }
}

/// Largest logit of a row, for every thread of the block.
__device__ inline float largest_of_row(const float* row, int n, float (&of_threads)[kDrawThreads]) {
  const int thread = static_cast<int>(threadIdx.x);
  float own = -INFINITY;
  for (int id = thread; id < n; id += kDrawThreads) own = row[id] > own ? row[id] : own;
  of_threads[thread] = own;
  __syncthreads();
  for (int width = kDrawThreads / 2; width > 0; width /= 2) {
    if (thread < width && of_threads[thread + width] > of_threads[thread])
      of_threads[thread] = of_threads[thread + width];
    __syncthreads();
  }
  return of_threads[0];
}

/// One block per row, and another for the sum at temperature 1. totals: [2, rows]. The order is that of
/// sample/strips.h: the first warp adds sixteen chains, sixteen terms apart, while the others compute the next terms.
template <class = void>
__global__ void __launch_bounds__(kDrawThreads)
    draw_total_kernel(MatrixView<const float> logits, const DrawRow* draws, double* totals) {
  constexpr int kTerms = 2048, kWarp = 32, kStrips = 16;
  __shared__ float of_threads[kDrawThreads], terms[2][kTerms];
  wait_for_earlier();
  const DrawRow draw = draws[blockIdx.x];
  const float temperature = blockIdx.y == 0 ? draw.temperature : draw.log_total ? 1.0f : 0.0f;
  totals += blockIdx.y * gridDim.x + blockIdx.x;
  if (draw.best == 0 || temperature == 0.0f) {
    if (threadIdx.x == 0) *totals = 0;
    return;
  }
  const float* row = logits.row(static_cast<int>(blockIdx.x));
  const float max = largest_of_row(row, logits.cols, of_threads);
  const int thread = static_cast<int>(threadIdx.x), pieces = (logits.cols + kTerms - 1) / kTerms;
  double sum = 0;
  for (int piece = 0; piece <= pieces; ++piece) {
    for (int i = thread - kWarp; piece < pieces && thread >= kWarp && i < kTerms; i += kDrawThreads - kWarp) {
      const int id = piece * kTerms + i;
      terms[piece % 2][i] = id < logits.cols ? exact::exp(__fdiv_rn(__fsub_rn(row[id], max), temperature)) : 0.0f;
    }
    for (int i = thread; piece > 0 && thread < kStrips && i < kTerms; i += kStrips) {
      sum = __dadd_rn(sum, static_cast<double>(terms[(piece - 1) % 2][i]));
    }
    __syncthreads();
  }
  if (thread >= kWarp) return;
  for (int width = kStrips / 2; width > 0; width /= 2)
    sum = __dadd_rn(sum, __shfl_down_sync(~0u, sum, static_cast<unsigned>(width)));
  if (thread == 0) *totals = sum;
}

/// One block per row. found: [rows, most], the best logits of each row, largest first. The order is that of
/// sample/filters.h and Sampler::draw_kept.
template <class = void>
__global__ void __launch_bounds__(kMostBest)
    pick_kernel(const TokenLogit* found, int most, const PickRow* rows, BestTokens picks) {
  __shared__ float weights[kMostBest];
  wait_for_earlier();
  const PickRow row = rows[blockIdx.x];
  found += static_cast<std::ptrdiff_t>(blockIdx.x) * most;
  const int thread = static_cast<int>(threadIdx.x);
  const bool draws = row.temperature != 0.0f && found[0].id != kNotFinite;
  if (draws && thread < row.best)
    weights[thread] = exact::exp(__fdiv_rn(__fsub_rn(found[thread].logit, found[0].logit), row.temperature));
  __syncthreads();
  if (thread != 0) return;
  if (!draws) return picks.put(blockIdx.x, 0, found[0].id);
  const auto weight = [&](int rank) { return static_cast<double>(weights[rank]); };
  double enough = INFINITY, total = 0, mass = 0;
  if (row.top_p < 1.0f) {
    for (int rank = 0; rank < row.best; ++rank) mass = __dadd_rn(mass, weight(rank));
    enough = __dmul_rn(static_cast<double>(row.top_p), mass);
  }
  int kept = 0;
  for (; kept < row.best && total < enough && weights[kept] >= row.min_p; ++kept)
    total = __dadd_rn(total, weight(kept));
  mass = 0;
  for (int rank = 0; rank < kept; ++rank) {
    mass = __dadd_rn(mass, weight(rank));
    if (mass > __dmul_rn(row.u, total)) return picks.put(blockIdx.x, 0, found[rank].id);
  }
  picks.put(blockIdx.x, 0, found[0].id);
}

}  // namespace cuda

/// No logits come to the host.
template <class W>
requires cuda::HasProduct<W>
void head_pick(Cuda& device, const HeadPickArgs<W>& args) {
  const int rows = args.hidden.rows;
  int most = 1;
  for (const PickRow& row : args.rows) most = std::max(most, row.best);
  if (rows == 0) return;
  if (most > kMostBest)
    throw Error(Error::Kind::unsupported, "head_pick",
                "draws among at most " + std::to_string(kMostBest) + " of a row");
  const int stride = cuda::logit_stride(args.vocab);
  const std::size_t floats = static_cast<std::size_t>(rows) * static_cast<std::size_t>(stride);
  const std::size_t ranks = most > 1 ? cuda::best_of_tiles_count(rows, args.vocab) : 0;
  float* memory =
      device.scratch(floats + 2 * (ranks + static_cast<std::size_t>(rows) * static_cast<std::size_t>(most)));
  const MatrixView<float> logits{memory, rows, args.vocab, stride};
  auto* of_tiles = reinterpret_cast<unsigned long long*>(memory + floats);   // [rows, tiles, kMostBest]
  auto* found = reinterpret_cast<TokenLogit*>(memory + floats + 2 * ranks);  // [rows, most]
  const cuda::BestTokens picks{args.picks, args.for_host};
  head(device, HeadArgs<W>{args.hidden, args.weight, logits});
  if (most == 1) {
    device.launch_early("head_pick", cuda::best_kernel<cuda::BestTokens>, cuda::blocks(rows), cuda::kBestThreads, 0,
                        logits, picks);
    return;
  }
  const PickRow* picked = device.put(args.rows);
  cuda::find_best<false>(device, "head_pick", logits, of_tiles, most, found);
  device.launch_early("head_pick", cuda::pick_kernel<>, cuda::blocks(rows), kMostBest, 0, found, most, picked, picks);
}

/// The host gets each row's best logits and one number, not its logits.
template <class W>
requires cuda::HasProduct<W>
void head_draw(Cuda& device, const HeadDrawArgs<W>& args) {
  const int rows = args.hidden.rows;
  const auto count = static_cast<std::size_t>(rows);
  int most = 1;
  for (const DrawRow& draw : args.draws) most = draw.best > most ? draw.best : most;
  if (rows == 0) return;
  if (most > kMostBest)
    throw Error(Error::Kind::unsupported, "head_draw", "finds at most " + std::to_string(kMostBest) + " of a row");
  const int stride = cuda::logit_stride(args.vocab);
  const std::size_t floats = count * static_cast<std::size_t>(stride);
  const std::size_t ranks = cuda::best_of_tiles_count(rows, args.vocab),
                    listed = count * static_cast<std::size_t>(most);
  float* memory = device.scratch(floats + 2 * (ranks + listed + 2 * count));
  const MatrixView<float> logits{memory, rows, args.vocab, stride};
  auto* of_tiles = reinterpret_cast<unsigned long long*>(memory + floats);   // [rows, tiles, kMostBest]
  auto* found = reinterpret_cast<TokenLogit*>(memory + floats + 2 * ranks);  // [rows, most]
  auto* totals = reinterpret_cast<double*>(found + listed);                  // [2, rows]
  head(device, HeadArgs<W>{args.hidden, args.weight, logits});
  const cuda::DrawLists lists{device.put(args.draws), device.put(args.biases), device.put(args.seen),
                              device.put(args.masks)};
  device.launch_early("head_draw", cuda::prepare_draw_kernel<>, cuda::blocks(rows), cuda::kDrawThreads, 0, logits,
                      lists);
  dim3 sums = cuda::blocks(rows);
  sums.y =
      std::any_of(args.draws.begin(), args.draws.end(), [](const DrawRow& draw) { return draw.log_total; }) ? 2 : 1;
  device.launch_early("head_draw", cuda::draw_total_kernel<>, sums, cuda::kDrawThreads, 0, logits, lists.draws, totals);
  cuda::find_best<true>(device, "head_draw", logits, of_tiles, most, found);
  static_assert(sizeof(TokenLogit) == sizeof(double));
  const double* all = device.fetch(reinterpret_cast<const double*>(found), listed + sums.y * count);
  const auto* lists_found = reinterpret_cast<const TokenLogit*>(all);
  const double* found_totals = all + listed;
  for (std::size_t r = 0; r < count; ++r) {
    cuda::assign_best(lists_found + r * static_cast<std::size_t>(most), args.draws[r].best, args.best[r]);
    args.totals[r] = found_totals[r];
    if (args.draws[r].log_total) args.log_totals[r] = found_totals[count + r];
  }
}

}  // namespace tenon
