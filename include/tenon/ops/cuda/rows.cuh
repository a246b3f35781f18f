// Ops on single rows or elements: norms, gate, rotary positions, embedding, and moves of rows and blocks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tenon/device/cuda.cuh"
#include "tenon/ops/args.h"
#include "tenon/ops/cuda/finish_pairs.cuh"
#include "tenon/ops/cuda/lanes.cuh"
#include "tenon/ops/cuda/normed_rows.cuh"
#include "tenon/ops/cuda/operand.cuh"
#include "tenon/ops/cuda/staged.cuh"
#include "tenon/ops/sincos.h"

namespace tenon {
namespace cuda {

/// Most columns of a row that a block stages for a norm. The block copies its row, gain and bias into shared memory at
/// once. Each half-warp sums the whole row and writes its part. Weights do not wait for the kernel that makes the row.
/// A longer row takes one half-warp and is read in place: y may be x, which another half-warp would still be reading.
inline constexpr int kStagedColumns = 4096;

/// norm(x, gain, bias, y, first, step) writes strips of sixteen columns from `first` on. staged: [Vectors, n], or empty
/// for longer rows. If y is rounded, the row before rounding comes first, in whole chunks.
template <int Vectors, class Y, class Norm>
__device__ void norm_of_row(MatrixView<const float> x, const float* gain, const float* bias, const Y& y, Norm&& norm) {
  constexpr bool rounds = !std::is_same_v<Y, MatrixView<float>>;
  extern __shared__ __align__(16) float staged_row[];
  const int r = static_cast<int>(blockIdx.x), n = x.cols, written = written_columns(y);
  float* staged = staged_row + (rounds ? written : 0);
  if constexpr (!rounds) {
    if (n > kStagedColumns) {
      wait_for_earlier();
      if (threadIdx.x < 16) norm(x.row(r), gain, bias, y.row(r), 0, 16);
      return;
    }
  }
  const auto stage = [&](const float* from, float* to) {
    for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) copy_float(to + i, from + i);
  };
  stage(gain, staged + n);
  if constexpr (Vectors == 3) stage(bias, staged + 2 * n);
  wait_for_earlier();
  stage(x.row(r), staged);
  end_copies();
  wait_for_copies<0>();
  __syncthreads();
  const int first = static_cast<int>(threadIdx.x) / 16 * 16, step = static_cast<int>(blockDim.x);
  if constexpr (rounds) {
    for (int k = n + static_cast<int>(threadIdx.x); k < written; k += step) staged_row[k] = 0.0f;
    norm(staged, staged + n, staged + 2 * n, staged_row, first, step);
    __syncthreads();
    for (int k = 8 * static_cast<int>(threadIdx.x); k < written; k += 8 * step) write_eight(y, r, k, staged_row + k);
  } else {
    norm(staged, staged + n, staged + 2 * n, y.row(r), first, step);
  }
}

template <class Y>
__global__ void layer_norm_kernel(LayerNormArgsOf<Y> args) {
  norm_of_row<3>(args.x, args.gain, args.bias, args.y,
                 [&](const float* x, const float* gain, const float* bias, float* y, int first, int step) {
                   lanes::layer_norm_strips(x, gain, bias, args.x.cols,
                                            lanes::layer_normal(x, args.x.cols, args.epsilon), first, step, y);
                 });
}

template <class Y>
__global__ void rms_norm_kernel(RmsNormArgsOf<Y> args) {
  norm_of_row<2>(args.x, args.gain, nullptr, args.y,
                 [&](const float* x, const float* gain, const float*, float* y, int first, int step) {
                   lanes::rms_norm_strips(x, gain, args.x.cols, lanes::rms_inverse(x, args.x.cols, args.epsilon), first,
                                          step, y);
                 });
}

template <int Vectors, class Y>
std::size_t norm_bytes(int columns, const Y& y) {
  const int rounded = std::is_same_v<Y, MatrixView<float>> ? 0 : written_columns(y);
  return columns > kStagedColumns ? 0 : sizeof(float) * static_cast<std::size_t>(Vectors * columns + rounded);
}

/// Calls launch(args) for rows that a block can stage. Longer rows are normed as floats, then rounded.
template <class Args, class Launch>
void launch_norm(Cuda& device, const Args& args, Launch&& launch) {
  if constexpr (requires { args.y.stride; }) {
    launch(args);
  } else if (args.x.rows > kCudaTuning.few_normed_rows &&
             NormScratch<typename decltype(args.y)::Element>{args.x.cols}.bytes(kCoreRows) <=
                 kCudaTuning.norm_scratch_bytes) {
    using E = typename decltype(args.y)::Element;
    const float* bias = nullptr;
    if constexpr (requires { args.bias; }) bias = args.bias;
    const NormedRows<E> all{args.x, args.gain, bias, args.epsilon, args.x.rows, args.x.cols};
    device.launch_early("norm", norm_eight_kernel<E>, blocks(static_cast<std::size_t>(args.x.rows), kCoreRows),
                        lanes::kThreads, static_cast<std::size_t>(NormScratch<E>{args.x.cols}.bytes(kCoreRows)), all,
                        args.y);
  } else if (args.x.cols <= kStagedColumns) {
    launch(args);
  } else {
    const auto rows = static_cast<std::size_t>(args.x.rows), cols = static_cast<std::size_t>(args.x.cols);
    const MatrixView<float> floats{device.scratch(rows * cols, ScratchUse::rounded), args.x.rows, args.x.cols,
                                   args.x.cols};
    if constexpr (requires { args.bias; })
      launch(LayerNormArgs{args.x, args.gain, args.bias, args.epsilon, floats});
    else
      launch(RmsNormArgs{args.x, args.gain, args.epsilon, floats});
    round_operand(device, floats, args.y);
  }
}

/// For tensor cores: eight columns per thread, zeros after the row.
template <class E>
__global__ void rounded_gate_kernel(MatrixView<const float> x, NearActivation activation, OperandTiles<E> y) {
  wait_for_earlier();
  const int r = static_cast<int>(blockIdx.x), n = y.cols;
  const float* row = x.row(r);  // [2 n]
  for (int k = 8 * static_cast<int>(threadIdx.x); k < written_columns(y); k += 8 * static_cast<int>(blockDim.x)) {
    float value[8];
#pragma unroll
    for (int i = 0; i < 8; ++i)
      value[i] = k + i < n ? __fmul_rn(activate_near(row[k + i], activation), row[n + k + i]) : 0.0f;
    write_eight(y, r, k, value);
  }
}

/// One block per row: sixteen columns for sixteen threads.
template <class = void>
__global__ void gate_kernel(GateArgs args) {
  wait_for_earlier();
  const int n = args.y.cols, begin = static_cast<int>(threadIdx.x / 16) * 16, step = static_cast<int>(blockDim.x);
  const float* x = args.x.row(static_cast<int>(blockIdx.x));  // [2 n]
  float* y = args.y.row(static_cast<int>(blockIdx.x));
  for (int i = begin; i < n; i += step) {
    lanes::gate_row(x + i, x + n + i, n - i < 16 ? n - i : 16, args.activation, y + i);
  }
}

/// One block per row, one thread per pair.
template <class = void>
__global__ void rotary_angles_kernel(RotaryAnglesArgs args) {
  wait_for_earlier();
  const int r = static_cast<int>(blockIdx.x), half = args.angles.cols / 2;
  const float position = static_cast<float>(args.batch.positions[r]);
  const float* frequencies = args.frequencies + r * args.frequency_stride;  // [half]
  for (int i = static_cast<int>(threadIdx.x); i < half; i += static_cast<int>(blockDim.x)) {
    const exact::SinCos turn = exact::sincos(static_cast<double>(__fmul_rn(position, frequencies[i])));
    const float scale = frequencies[i] == 0.0f ? 1.0f : args.scale;
    args.angles.row(r)[i] = __fmul_rn(static_cast<float>(turn.cosine), scale);
    args.angles.row(r)[half + i] = __fmul_rn(static_cast<float>(turn.sine), scale);
  }
}

/// One block per row, sixteen threads per head.
template <class = void>
__global__ void rotate_kernel(RotateArgs args) {
  wait_for_earlier();
  const int r = static_cast<int>(blockIdx.x);
  for (int h = static_cast<int>(threadIdx.x) / 16; h < args.heads + args.kv_heads;
       h += static_cast<int>(blockDim.x) / 16) {
    float* x = h < args.heads ? args.q.row(r) + h * args.head_dim : args.k.row(r) + (h - args.heads) * args.head_dim;
    lanes::rotate_row(args.angles.row(r), 1, args.head_dim / 2, x);
  }
}

/// One block per row.
template <class W>
__global__ void embed_kernel(EmbedArgs<W> args) {
  wait_for_earlier();
  const int r = static_cast<int>(blockIdx.x), token = token_of(args.batch, r);
  const float* position = nullptr;  // [hidden]
  if (args.position_table)
    position = args.position_table + static_cast<std::ptrdiff_t>(args.batch.positions[r]) * args.x.cols;
  for (int c = static_cast<int>(threadIdx.x); c < args.x.cols; c += static_cast<int>(blockDim.x)) {
    const float x = __fmul_rn(args.scale, args.table.at(token, c));
    args.x.row(r)[c] = position ? __fadd_rn(x, position[c]) : x;
  }
}

/// One block per row, sixteen threads per head.
template <class = void>
__global__ void head_norm_kernel(HeadNormArgs args) {
  wait_for_earlier();
  const int n = args.head_dim;
  for (int h = static_cast<int>(threadIdx.x) / 16; h < args.heads; h += static_cast<int>(blockDim.x) / 16) {
    float* x = args.x.row(static_cast<int>(blockIdx.x)) + h * n;  // [head_dim]
    if (args.bias)
      lanes::layer_norm_strips(x, args.gain + h * n, args.bias + h * n, n, lanes::layer_normal(x, n, args.epsilon), 0,
                               16, x);
    else
      lanes::rms_norm_strips(x, args.gain + h * n, n, lanes::rms_inverse(x, n, args.epsilon), 0, 16, x);
  }
}

/// One block per row.
template <class = void>
__global__ void add_kernel(AddArgs args) {
  wait_for_earlier();
  const int r = static_cast<int>(blockIdx.x);
  for (int c = static_cast<int>(threadIdx.x); c < args.x.cols; c += static_cast<int>(blockDim.x))
    args.x.row(r)[c] = __fmaf_rn(args.scale, args.y.row(r)[c], args.x.row(r)[c]);
}

/// One block per row.
template <class = void>
__global__ void clamp_kernel(ClampArgs args) {
  wait_for_earlier();
  for (int c = static_cast<int>(threadIdx.x); c < args.x.cols; c += static_cast<int>(blockDim.x)) {
    float& x = args.x.row(static_cast<int>(blockIdx.x))[c];
    x = x < -args.bound ? -args.bound : args.bound < x ? args.bound : x;  // std::clamp
  }
}

/// One block per row.
template <class = void>
__global__ void add_positions_kernel(AddPositionsArgs args) {
  wait_for_earlier();
  const int r = static_cast<int>(blockIdx.x);
  const float* position = args.table + static_cast<std::ptrdiff_t>(args.batch.positions[r]) * args.x.cols;
  for (int c = static_cast<int>(threadIdx.x); c < args.x.cols; c += static_cast<int>(blockDim.x))
    args.x.row(r)[c] = __fadd_rn(args.x.row(r)[c], position[c]);
}

/// Sixteen columns for sixteen threads.
template <class = void>
__global__ void finish_logits_kernel(FinishLogitsArgs args) {
  wait_for_earlier();
  float* x = args.logits.row(static_cast<int>(blockIdx.y));  // [vocab]
  const int n = args.logits.cols, step = static_cast<int>(gridDim.x * blockDim.x);
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) / 16 * 16; i < n; i += step)
    lanes::finish_row(args.bias ? args.bias + i : nullptr, args.soft_cap, n - i < 16 ? n - i : 16, x + i);
}

/// One thread per column, the rows in order: each is read before it is overwritten.
template <class = void>
__global__ void gather_rows_kernel(GatherRowsArgs args) {
  wait_for_earlier();
  int c = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (c >= args.x.cols + args.q.cols) return;
  const MatrixView<float> m = c < args.x.cols ? args.x : args.q;
  if (c >= args.x.cols) c -= args.x.cols;
  for (int i = 0; i < args.count; ++i) m.row(i)[c] = m.row(args.rows[i])[c];
}

/// One thread for four bytes of every block of a layer, the copies in order.
template <class = void>
__global__ void copy_blocks_kernel(std::uint32_t* storage, std::size_t layer_words, std::size_t block_words,
                                   const BlockCopy* copies, int count) {
  wait_for_earlier();
  const std::size_t word = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (word >= block_words) return;
  std::uint32_t* layer = storage + blockIdx.y * layer_words + word;
  for (int i = 0; i < count; ++i) {
    layer[static_cast<std::size_t>(copies[i].to) * block_words] =
        layer[static_cast<std::size_t>(copies[i].from) * block_words];
  }
}

}  // namespace cuda

template <class Y>
void layer_norm(Cuda& device, const LayerNormArgsOf<Y>& args) {
  cuda::launch_norm(device, args, [&]<class To>(const LayerNormArgsOf<To>& to) {
    device.launch_early("layer_norm", cuda::layer_norm_kernel<To>, cuda::blocks(to.x.rows), 128,
                        cuda::norm_bytes<3>(to.x.cols, to.y), to);
  });
}
template <class Y>
void rms_norm(Cuda& device, const RmsNormArgsOf<Y>& args) {
  cuda::launch_norm(device, args, [&]<class To>(const RmsNormArgsOf<To>& to) {
    device.launch_early("rms_norm", cuda::rms_norm_kernel<To>, cuda::blocks(to.x.rows), 128,
                        cuda::norm_bytes<2>(to.x.cols, to.y), to);
  });
}
template <class E>
void gate(Cuda& device, const GateArgsOf<OperandTiles<E>>& args) {
  device.launch_early("gate", cuda::rounded_gate_kernel<E>, cuda::blocks(args.x.rows), 256, 0, args.x,
                      cuda::NearActivation(args.activation), args.y);
}
inline void gate(Cuda& device, const GateArgs& args) {
  device.launch_early("gate", cuda::gate_kernel<>, cuda::blocks(args.x.rows), 256, 0, args);
}
inline void rotary_angles(Cuda& device, const RotaryAnglesArgs& args) {
  device.launch_early("rotary_angles", cuda::rotary_angles_kernel<>, cuda::blocks(args.batch.rows), 64, 0, args);
}
inline void rotate(Cuda& device, const RotateArgs& args) {
  device.launch_early("rotate", cuda::rotate_kernel<>, cuda::blocks(args.q.rows), 256, 0, args);
}
template <class W>
void embed(Cuda& device, const EmbedArgs<W>& args) {
  device.launch_early("embed", cuda::embed_kernel<W>, cuda::blocks(args.batch.rows), 256, 0, args);
}
inline void head_norm(Cuda& device, const HeadNormArgs& args) {
  device.launch_early("head_norm", cuda::head_norm_kernel<>, cuda::blocks(args.x.rows), 256, 0, args);
}
inline void add(Cuda& device, const AddArgs& args) {
  device.launch_early("add", cuda::add_kernel<>, cuda::blocks(args.x.rows), 256, 0, args);
}
inline void clamp(Cuda& device, const ClampArgs& args) {
  device.launch_early("clamp", cuda::clamp_kernel<>, cuda::blocks(args.x.rows), 256, 0, args);
}
inline void add_positions(Cuda& device, const AddPositionsArgs& args) {
  device.launch_early("add_positions", cuda::add_positions_kernel<>, cuda::blocks(args.x.rows), 256, 0, args);
}
inline void finish_logits(Cuda& device, const FinishLogitsArgs& args) {
  dim3 grid = cuda::blocks(static_cast<std::size_t>(args.logits.cols), 1024);
  grid.y = static_cast<unsigned>(args.logits.rows);
  device.launch_early("finish_logits", cuda::finish_logits_kernel<>, grid, 256, 0, args);
}
inline void gather_rows(Cuda& device, const GatherRowsArgs& args) {
  device.launch_early(
      "gather_rows", cuda::gather_rows_kernel<>,
      args.count == 0 ? dim3(0) : cuda::blocks(static_cast<std::size_t>(args.x.cols + args.q.cols), 128), 128, 0, args);
}
inline void copy_blocks(Cuda& device, const CopyBlocksArgs& args) {
  if (args.copies.empty()) return;
  const std::size_t words = args.layout.block_bytes / 4;
  dim3 grid = cuda::blocks(words, 256);
  grid.y = static_cast<unsigned>(args.layers);
  device.launch_early("copy_blocks", cuda::copy_blocks_kernel<>, grid, 256, 0,
                      reinterpret_cast<std::uint32_t*>(args.storage), words * args.layout.blocks, words,
                      device.put(args.copies), static_cast<int>(args.copies.size()));
}

}  // namespace tenon
