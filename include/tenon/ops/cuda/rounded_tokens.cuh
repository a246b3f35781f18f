// Activations for integer tensor cores: rounded to int8, one scale per token.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tenon/core/elements.h"
#include "tenon/device/cuda.cuh"
#include "tenon/ops/cpu/dot_kernels.h"

namespace tenon::cuda {

inline constexpr int kStepWords = 8;  ///< per instruction: 32 columns of one byte

/// A step's tokens; zeros after their columns.
struct RoundedTokens {
  std::uint32_t* words;  ///< [tokens, steps, kStepWords]
  std::int32_t* sums;    ///< [tokens, groups]: of a group's bytes, times the form's factor
  float* scales;         ///< [tokens]
  int steps;

  __device__ std::uint32_t* token(int i) const { return words + std::ptrdiff_t{i} * steps * kStepWords; }
};

/// Rounds to bytes, one block per token. A row that cannot be read back becomes zeros: times its scale, its outputs are
/// zeros or NaN.
template <class = void>
__global__ void round_to_bytes_kernel(MatrixView<const float> x, cpu::DotForm form, RoundedTokens to) {
  __shared__ unsigned largest;
  wait_for_earlier();
  const int token = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x),
            threads = static_cast<int>(blockDim.x);
  const float* row = x.row(token);
  std::int32_t* sums = to.sums + std::ptrdiff_t{token} * form.groups;
  if (thread == 0) largest = 0;
  for (int g = thread; g < form.groups; g += threads) sums[g] = 0;
  __syncthreads();
  unsigned own = 0;  // bits of magnitudes order like the magnitudes
  for (int k = thread; k < x.cols; k += threads) own = max(own, __float_as_uint(row[k]) & 0x7fffffffu);
  atomicMax(&largest, own);
  __syncthreads();
  const float most = __uint_as_float(largest), scale = int8_scale(&most, 1),
              inverse = scale > 0 ? __fdiv_rn(1.0f, scale) : 0.0f;
  if (thread == 0) to.scales[token] = scale;
  auto* bytes = reinterpret_cast<std::int8_t*>(to.token(token));
  for (int k = thread; k < to.steps * kStepWords * 4; k += threads) {  // 32 columns of a warp belong to one group
    const int value = scale > 0 && k < x.cols ? static_cast<int>(rintf(__fmul_rn(row[k], inverse))) : 0;
    bytes[k] = static_cast<std::int8_t>(value);
    int sum = value;
    for (int width = 16; width > 0; width /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, width);
    if (thread % 32 == 0 && k < x.cols) atomicAdd(&sums[k / form.group], form.factor * sum);
  }
}

}  // namespace tenon::cuda
