// Norms of many rows for products on tensor cores. A block copies eight rows, gain and bias into shared memory at once
// and writes the rounded norms.
#pragma once
#include <cstddef>

#include "tenon/core/operand_tiles.h"
#include "tenon/ops/cuda/lanes.cuh"
#include "tenon/ops/cuda/operand.cuh"
#include "tenon/ops/cuda/staged.cuh"

namespace tenon::cuda {

template <class E>
struct NormedRows {
  MatrixView<const float> x;
  const float* gain;
  const float* bias;  ///< null: root mean square norm
  float epsilon;
  int rows, cols;
};

/// Shared memory of a block: the rounded rows in the layout of OperandTiles, one chunk after another, then floats.
template <class E>
struct NormScratch {
  int cols;

  __host__ __device__ int tokens_bytes() const {
    return chunk_count(cols) * kCoreRows * kChunkColumns * static_cast<int>(sizeof(E));
  }
  __host__ __device__ int stride() const { return (cols + 3) / 4 * 4; }  ///< floats of gain, of bias, and of a row
  __host__ __device__ int bytes(int rows) const {
    return tokens_bytes() + (2 + rows) * stride() * static_cast<int>(sizeof(float));
  }  // a multiple of 16
};

/// Norms the rows into `room`, by `threads` threads of a block (a multiple of 32), of which this is number `thread`.
/// barrier: of these threads. The bits are those of layer_norm or rms_norm, rounded.
template <class E>
__device__ __forceinline__ void norm_rows(const NormedRows<E>& from, std::byte* room, int thread, int threads,
                                          int barrier) {
  const NormScratch<E> shape{from.cols};
  const int n = from.cols, stride = shape.stride();
  auto* gain = reinterpret_cast<float*>(room + shape.tokens_bytes());
  float *bias = gain + stride, *rows = bias + stride;
  for (int i = thread; i < n; i += threads) copy_float(gain + i, from.gain + i);
  for (int i = thread; from.bias && i < n; i += threads) copy_float(bias + i, from.bias + i);
  wait_for_earlier();
  const bool whole = n % 4 == 0 && from.x.stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(from.x.data) % 16 == 0;
  for (int r = 0; r < from.rows; ++r) {
    if (whole)
      copy_by(rows + r * stride, from.x.row(r), n * static_cast<int>(sizeof(float)), thread, threads);
    else
      for (int i = thread; i < n; i += threads) copy_float(rows + r * stride + i, from.x.row(r) + i);
  }
  end_copies();
  wait_for_copies<0>();
  sync_threads(barrier, threads);
  // If there are more half-warps than rows, some share a row: each sums all of it and writes every `parts`-th strip.
  const int halves = threads / 16, parts = max(1, halves / from.rows), part = thread / 16 / from.rows,
            steps = chunk_count(n) * kChunkColumns / 16;
  for (int r = thread / 16 % from.rows; r < from.rows && part < parts; r += halves) {
    const float* x = rows + r * stride;
    lanes::Normal normal{lanes::zero(), lanes::zero()};
    if (from.bias)
      normal = lanes::layer_normal(x, n, from.epsilon);
    else
      normal.inverse = lanes::rms_inverse(x, n, from.epsilon);
    E* to = reinterpret_cast<E*>(room) + r * kCoreColumns + lanes::lane() / 8 * kCoreElements + lanes::lane() % 8;
#pragma unroll 4
    for (int i = part; i < steps; i += parts) {
      const int k = min(16 * i + lanes::lane(), n - 1);
      const float value = from.bias
                              ? __fmaf_rn(__fmul_rn(__fsub_rn(x[k], normal.mean.v), normal.inverse.v), gain[k], bias[k])
                              : __fmul_rn(__fmul_rn(x[k], normal.inverse.v), gain[k]);
      to[i * 2 * kCoreElements] = E(16 * i + lanes::lane() < n ? value : 0.0f);  // zeros after the row
    }
  }
  sync_threads(barrier, threads);
}

/// One block for eight rows, one half-warp per row.
template <class E>
__global__ void __launch_bounds__(lanes::kThreads) norm_eight_kernel(NormedRows<E> all, OperandTiles<E> to) {
  extern __shared__ __align__(128) std::byte norm_scratch[];
  const int first = static_cast<int>(blockIdx.x) * kCoreRows, thread = static_cast<int>(threadIdx.x);
  NormedRows<E> own = all;
  own.rows = min(kCoreRows, all.rows - first);
  own.x = all.x.rows_from(first, own.rows);
  norm_rows(own, norm_scratch, thread, lanes::kThreads, 1);
  const auto* from = reinterpret_cast<const uint4*>(norm_scratch);  // eight columns of a row each
  auto* out = reinterpret_cast<uint4*>(to.data);
  const std::ptrdiff_t chunk = kCoreRows * kChunkColumns / 8;  // in these units
  for (int i = thread; i < chunk_count(to.cols) * chunk; i += lanes::kThreads) {
    if (i % kCoreRows < own.rows) out[(i / chunk * to.row_blocks() + blockIdx.x) * chunk + i % chunk] = from[i];
  }
}

}  // namespace tenon::cuda
