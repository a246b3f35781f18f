// Logits of the rows that need them, or only the best of them.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "tenon/device/cuda.cuh"
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/best_logits.h"
#include "tenon/ops/cpu/kernels.h"
#include "tenon/ops/cuda/linear.cuh"

namespace tenon {

template <class W>
  requires cuda::HasColumns<W>
void head(Cuda& device, const HeadArgs<W>& args) {
  linear(device, LinearArgs<W>{.x = args.hidden, .weight = args.weight, .y = args.logits});
}

namespace cuda {

inline constexpr TokenId kNotFinite = -1;

// Orders as (logit ascending, id descending) do; the zeros are equal.
__device__ inline unsigned long long rank_of(float logit, int id) {
  const std::uint32_t bits = __float_as_uint(logit == 0.0f ? 0.0f : logit);
  const std::uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return static_cast<unsigned long long>(ordered) << 32 | (0xffffffffu - static_cast<std::uint32_t>(id));
}

// A block a row; the best of its logits, or kNotFinite where one is not finite.
template <class = void>
__global__ void best_kernel(MatrixView<const float> logits, TokenLogit* best) {
  __shared__ unsigned long long of_threads[256];
  const float* row = logits.row(static_cast<int>(blockIdx.x));
  unsigned long long own = 0;
  bool finite = true;
  for (int id = static_cast<int>(threadIdx.x); id < logits.cols; id += 256) {
    const unsigned long long rank = rank_of(row[id], id);
    own = rank > own ? rank : own;
    finite = finite && isfinite(row[id]);
  }
  of_threads[threadIdx.x] = own;
  const bool all_finite = __syncthreads_and(finite) != 0;
  for (unsigned width = 128; width > 0; width /= 2) {
    if (threadIdx.x < width && of_threads[threadIdx.x + width] > of_threads[threadIdx.x]) {
      of_threads[threadIdx.x] = of_threads[threadIdx.x + width];
    }
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  const int id = static_cast<int>(0xffffffffu - static_cast<std::uint32_t>(of_threads[0] & 0xffffffffu));
  best[blockIdx.x] = all_finite ? TokenLogit{row[id], id} : TokenLogit{0.0f, kNotFinite};
}

}  // namespace cuda

// Where each row wants one, the rows of logits do not leave the device; where some want more, the host finds them.
template <class W>
  requires cuda::HasColumns<W>
void head_best(Cuda& device, const HeadBestArgs<W>& args) {
  const int rows = args.hidden.rows;
  const std::size_t floats = static_cast<std::size_t>(rows) * static_cast<std::size_t>(args.vocab);
  float* memory = device.scratch(floats + 2 * static_cast<std::size_t>(rows));
  const MatrixView<float> logits{memory, rows, args.vocab, args.vocab};
  auto* found = reinterpret_cast<TokenLogit*>(memory + floats);  // [rows]
  head(device, HeadArgs<W>{args.hidden, args.weight, logits});
  bool one_each = true;
  for (int r = 0; r < rows; ++r) one_each = one_each && args.counts[r] == 1;
  if (one_each) {
    device.launch("head_best", cuda::best_kernel<>, cuda::blocks(rows), 256, 0, logits, found);
    const TokenLogit* best = device.fetch(found, static_cast<std::size_t>(rows));
    for (int r = 0; r < rows; ++r) {
      args.best[r].clear();
      if (best[r].id != cuda::kNotFinite) args.best[r].push_back(best[r]);
    }
    return;
  }
  const float* values = device.fetch(memory, floats);
  const auto& kernels = cpu::kernels_for(best_isa());
  device.pool().share(rows, 1, [&](int begin, int end, int) {
    for (int r = begin; r < end; ++r) {
      const float* row = values + static_cast<std::ptrdiff_t>(r) * args.vocab;
      cpu::BestLogits best;
      best.reset(args.counts[r]);
      best.offer(row, args.vocab, 0, kernels.finite_max(row, args.vocab));
      args.best[r] = best.take();
    }
  });
}

}  // namespace tenon
