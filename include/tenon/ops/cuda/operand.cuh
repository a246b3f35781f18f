// How kernels write a result as floats, or rounded for the next product.
#pragma once
#include <cstdint>
#include <type_traits>

#include "tenon/core/elements.h"
#include "tenon/core/operand_tiles.h"
#include "tenon/core/views.h"
#include "tenon/device/cuda.cuh"

namespace tenon::cuda {

/// Rounds two floats to a register of sixteen-bit elements, the first in the low half, ties to even.
template <class E>
__device__ inline std::uint32_t round_pair_to(float low, float high) {
  std::uint32_t pair;
  if constexpr (std::is_same_v<E, bfloat16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// Writes elements `col` and `col` + 1 of a row, `col` even and below `cols`; only the first if the second is past the
/// end.
__device__ inline void write_pair(const MatrixView<float>& to, int row, int col, float first, float second) {
  float* out = to.row(row) + col;
  out[0] = first;
  if (col + 1 < to.cols) out[1] = second;
}
template <class E>
__device__ inline void write_pair(const OperandTiles<E>& to, int row, int col, float first, float second) {
  *reinterpret_cast<std::uint32_t*>(to.data + to.at(row, col)) =
      round_pair_to<E>(first, col + 1 < to.cols ? second : 0.0f);
}

__device__ inline void write_element(const MatrixView<float>& to, int row, int col, float value) {
  to.row(row)[col] = value;
}
template <class E>
__device__ inline void write_element(const OperandTiles<E>& to, int row, int col, float value) {
  to.data[to.at(row, col)].bits = static_cast<std::uint16_t>(round_pair_to<E>(value, 0.0f));
}

/// Columns to write: a float row's own, or a rounded operand's up to a whole chunk, with zeros past the end.
__host__ __device__ inline int written_columns(const MatrixView<float>& to) { return to.cols; }
template <class E>
__host__ __device__ inline int written_columns(const OperandTiles<E>& to) {
  return chunk_count(to.cols) * kChunkColumns;
}

/// Writes columns col .. col + 7 of a row, col a multiple of 8: sixteen bytes.
template <class E>
__device__ inline void write_eight(const OperandTiles<E>& to, int row, int col, const float* from) {
  *reinterpret_cast<uint4*>(to.data + to.at(row, col)) = {
      round_pair_to<E>(from[0], from[1]), round_pair_to<E>(from[2], from[3]), round_pair_to<E>(from[4], from[5]),
      round_pair_to<E>(from[6], from[7])};
}

/// One block per row, zeros after its columns.
template <class E>
__global__ void round_operand_kernel(MatrixView<const float> x, OperandTiles<E> to) {
  wait_for_earlier();
  const int r = static_cast<int>(blockIdx.x);
  const float* row = x.row(r);
  for (int k = 8 * static_cast<int>(threadIdx.x); k < written_columns(to); k += 8 * static_cast<int>(blockDim.x)) {
    float value[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) value[i] = k + i < x.cols ? row[k + i] : 0.0f;
    write_eight(to, r, k, value);
  }
}
template <class E>
void round_operand(Cuda& device, MatrixView<const float> x, const OperandTiles<E>& to) {
  device.launch_early("round", round_operand_kernel<E>, blocks(x.rows), 128, 0, x, to);
}

}  // namespace tenon::cuda
