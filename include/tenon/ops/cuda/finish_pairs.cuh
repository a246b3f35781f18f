// The epilogue of products on tensor cores. A thread holds two neighbouring outputs of a token, and two more every
// eight outputs. Kernels copy this code once per pair, and each launch fetches it anew, so it must stay small.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tenon/ops/args.h"
#include "tenon/ops/cuda/operand.cuh"
#include "tenon/ops/cuda/tensor_core.cuh"

namespace tenon::cuda {

/// An activation as tensor-core kernels compute it. silu, quick_gelu and gelu_new are x / (1 + 2^u) with u = factor
/// (cubic x^3 + x).
struct NearActivation {
  Activation kind = Activation::none;
  bool logistic = false;
  float factor = 0, cubic = 0;

  explicit NearActivation(Activation activation) : kind(activation) {
    constexpr float kLog2e = 1.44269504f;
    logistic = kind == Activation::silu || kind == Activation::quick_gelu || kind == Activation::gelu_new;
    if (kind == Activation::silu) factor = -kLog2e;
    if (kind == Activation::quick_gelu) factor = -1.702f * kLog2e;
    if (kind == Activation::gelu_new) factor = -2 * 0.797884561f * kLog2e, cubic = 0.044715f;
  }
};

/// relu, relu2 and gelu. Not inlined, to keep kernels small. erff() is within 2 ulp (CUDA's guide).
template <class = void>
__device__ __noinline__ float activate_rarely(float x, Activation activation) {
  const float positive = x < 0.0f ? 0.0f : x;  // NaN stays
  if (activation == Activation::relu) return positive;
  if (activation == Activation::relu2) return __fmul_rn(positive, positive);
  return __fmul_rn(__fmul_rn(0.5f, x), __fadd_rn(1.0f, erff(__fmul_rn(x, 0.707106781f))));
}

/// By the hardware's approximations of 2^x and of a quotient, whose bits depend on x alone.
__device__ __forceinline__ float activate_near(float x, const NearActivation& activation) {
  if (activation.kind == Activation::none) return x;
  if (!activation.logistic) return activate_rarely(x, activation.kind);
  const float u = __fmul_rn(activation.factor, __fmaf_rn(__fmul_rn(__fmul_rn(activation.cubic, x), x), x, x));
  return __fdividef(x, __fadd_rn(1.0f, exp2_near(u)));
}

/// y = activation(sum + bias + delta) + residual, as LinearArgs defines it.
template <class Y>
struct PairJob {
  int tokens, outputs;
  const float* bias;          ///< [outputs] or null
  const float* const* delta;  ///< [tokens] of [outputs], or null
  NearActivation activation;
  const float* residual;  ///< [tokens, residual_stride] or null; may be y
  std::ptrdiff_t residual_stride;
  Y y;  ///< [tokens, outputs]
  /// all pairs begin at multiples of eight bytes; otherwise finish_apart_kernel writes
  bool even;
};

inline bool has_even_rows(const MatrixView<float>& y) {
  return y.stride % 2 == 0 && reinterpret_cast<std::uintptr_t>(y.data) % 8 == 0;
}
template <class E>
bool has_even_rows(const OperandTiles<E>&) {
  return true;
}

template <class Args, class Y>
PairJob<Y> pair_job(const Args& args, const Y& y) {
  const bool even = has_even_rows(y) && reinterpret_cast<std::uintptr_t>(args.bias) % 8 == 0 &&
                    (!args.delta || y.cols % 2 == 0) && args.residual.stride % 2 == 0 &&
                    reinterpret_cast<std::uintptr_t>(args.residual.data) % 8 == 0 &&
                    (y.cols % 2 == 0 || (!args.bias && !args.residual.data));
  return {args.x.rows,          y.cols, args.bias, args.delta, NearActivation(args.activation), args.residual.data,
          args.residual.stride, y,      even};
}

__device__ __forceinline__ void add_pair(float& first, float& second, float2 pair) {
  first = __fadd_rn(first, pair.x);
  second = __fadd_rn(second, pair.y);
}
/// Writes sums[i][2 h] and the next to columns first + 8 i and the next of a row. Nothing is written after a row.
template <int Count>
__device__ __forceinline__ void write_pairs(const MatrixView<float>& to, int row, int first, int outputs, int, int h,
                                            const float (&sums)[Count][4]) {
  float* const y = to.row(row) + first;
  const int left = outputs - first;
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    if (i * kCoreColumns + 1 < left)
      *reinterpret_cast<float2*>(y + i * kCoreColumns) = {sums[i][2 * h], sums[i][2 * h + 1]};
    if (i * kCoreColumns + 1 == left) y[i * kCoreColumns] = sums[i][2 * h];
  }
}
/// The same for an operand, which has zeros after the outputs up to column `written`.
template <class E, int Count>
__device__ __forceinline__ void write_pairs(const OperandTiles<E>& to, int row, int first, int outputs, int written,
                                            int h, const float (&sums)[Count][4]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    const int o = first + i * kCoreColumns;
    const bool real = o < outputs;
    if (o < written) write_pair(to, row, o, real ? sums[i][2 * h] : 0.0f, real ? sums[i][2 * h + 1] : 0.0f);
  }
}

/// The epilogue of any job, one output a thread, from the sums of a product: [tokens, stride].
template <class Y>
__global__ void finish_apart_kernel(const __grid_constant__ PairJob<Y> job, MatrixView<const float> sums) {
  wait_for_earlier();
  const int o = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x), token = static_cast<int>(blockIdx.x);
  if (o >= written_columns(job.y)) return;
  float value = 0.0f;
  if (o < job.outputs) {
    value = sums.row(token)[o];
    if (job.bias) value = __fadd_rn(value, job.bias[o]);
    if (job.delta && job.delta[token]) value = __fadd_rn(value, job.delta[token][o]);
    value = activate_near(value, job.activation);
    if (job.residual) value = __fadd_rn(value, job.residual[token * job.residual_stride + o]);
  }
  write_element(job.y, token, o, value);
}

/// Bias and residual of a thread's sums, prefetched during the product. Count 0: no prefetch.
template <class Y, int Count>
struct PairTerms {
  float2 bias[Count], residual[Count][2];

  __device__ __forceinline__ void load(const PairJob<Y>& job, int token, int first) {
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const int output = min(first + i * kCoreColumns, job.outputs - 2);
      bias[i] = job.bias ? *reinterpret_cast<const float2*>(job.bias + output) : float2{0.0f, 0.0f};
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float* row = job.residual + min(token + h * kCoreRows, job.tokens - 1) * job.residual_stride;
        residual[i][h] = job.residual ? *reinterpret_cast<const float2*>(row + output) : float2{0.0f, 0.0f};
      }
    }
  }
};

template <class Y>
struct PairTerms<Y, 0> {
  __device__ __forceinline__ void load(const PairJob<Y>&, int, int) {}
};

/// Finishes the sums of a thread as mma holds them. sums[i]: tokens `token` and `token` + 8, outputs first + 8 i (even)
/// and the next. Outputs past job.outputs become zeros where an operand has them. Terms: Count prefetched ones, or 0:
/// read bias and residual before anything is written.
template <int Count, int Terms, class Y>
__device__ __forceinline__ void finish_pairs(const PairJob<Y>& job, int token, int first, float (&sums)[Count][4],
                                             const PairTerms<Y, Terms>& terms) {
  const int written = written_columns(job.y);
  const auto output = [&](int i) { return min(first + i * kCoreColumns, job.outputs - 2); };
  if (job.bias) {
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      float2 pair;
      if constexpr (Terms > 0)
        pair = terms.bias[i];
      else
        pair = *reinterpret_cast<const float2*>(job.bias + output(i));
#pragma unroll
      for (int h = 0; h < 2; ++h) add_pair(sums[i][2 * h], sums[i][2 * h + 1], pair);
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float* delta = job.delta && token + h * kCoreRows < job.tokens ? job.delta[token + h * kCoreRows] : nullptr;
    if (!delta) continue;
#pragma unroll
    for (int i = 0; i < Count; ++i)
      add_pair(sums[i][2 * h], sums[i][2 * h + 1], *reinterpret_cast<const float2*>(delta + output(i)));
  }
  if (job.activation.kind != Activation::none) {
#pragma unroll
    for (int i = 0; i < 4 * Count; ++i) sums[i / 4][i % 4] = activate_near(sums[i / 4][i % 4], job.activation);
  }
  if (job.residual) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float* row = job.residual + min(token + h * kCoreRows, job.tokens - 1) * job.residual_stride;
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        float2 pair;
        if constexpr (Terms > 0)
          pair = terms.residual[i][h];
        else
          pair = *reinterpret_cast<const float2*>(row + output(i));
        add_pair(sums[i][2 * h], sums[i][2 * h + 1], pair);
      }
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (token + h * kCoreRows >= job.tokens) continue;
    write_pairs(job.y, token + h * kCoreRows, first, job.outputs, written, h, sums);
  }
}

}  // namespace tenon::cuda
