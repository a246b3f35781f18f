// Mixtures of experts with the CPU's bits: the router, the pairs of a row and an expert sorted by expert, and the
// products of all experts by one kernel. The host knows the number of pairs, but not how many chose which expert.
#pragma once
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "tenon/device/cuda.cuh"
#include "tenon/ops/args.h"
#include "tenon/ops/cuda/columns.cuh"
#include "tenon/ops/cuda/lanes.cuh"
#include "tenon/ops/cuda/linear.cuh"
#include "tenon/ops/cuda/rows.cuh"

namespace tenon {
namespace cuda {

/// An expert as kernels read it.
template <class Source>
struct ExpertSource {
  Source up, down;
  const float *up_bias, *down_bias;  ///< [2 inner] and [hidden], or null
};

template <class W>
using SourceOf = decltype(columns_of(std::declval<const W&>(), 0));

/// Device memory of a mixture between its kernels.
struct MixtureMemory {
  ExpertChoice* choices;  ///< [rows, chosen], each row's in order of experts
  int* places;            ///< [rows, chosen]: the pair of each choice
  int* first;             ///< [experts + 1]: the first pair of each expert, and the number of pairs

  /// In device.scratch(), until its next use.
  MixtureMemory(Cuda& device, int pairs, int experts) {
    static_assert(sizeof(ExpertChoice) == 2 * sizeof(float) && sizeof(int) == sizeof(float));
    const auto count = static_cast<std::size_t>(pairs);
    float* memory = device.scratch(3 * count + static_cast<std::size_t>(experts) + 1);
    choices = reinterpret_cast<ExpertChoice*>(memory);
    places = reinterpret_cast<int*>(memory + 2 * count);
    first = places + count;
  }
};

/// The router's arguments. Pointers are the device's.
struct RouteJob {
  MatrixView<const float> x;   ///< [rows, hidden]
  const float *router, *bias;  ///< [experts, hidden]; [experts] or null
  int experts, chosen;
  RouterKind kind;
  ExpertChoice* choices;  ///< [rows, chosen]
};

/// Writes softmax of values [n] over themselves, like cpu::softmax_row. Sixteen threads.
template <class = void>
__device__ void softmax_row(int n, float* values) {
  float top = values[0];
  for (int i = 1; i < n; ++i) top = top < values[i] ? values[i] : top;
  lanes::fence();
  for (int i = lanes::lane(); i < n; i += 16) values[i] = __fsub_rn(values[i], top);
  lanes::fence();
  lanes::exp_row(values, n, values);
  lanes::fence();
  float sum = 0;
  for (int i = 0; i < n; ++i) sum = __fadd_rn(sum, values[i]);
  lanes::fence();
  for (int i = lanes::lane(); i < n; i += 16) values[i] = __fdiv_rn(values[i], sum);
  lanes::fence();
}

/// Marks the `chosen` largest of logits [n], the lower id among equal ones. Sixteen threads; is_chosen: [n].
template <class = void>
__device__ void mark_largest(const float* logits, int n, int chosen, bool* is_chosen) {
  for (int i = lanes::lane(); i < n; i += 16) is_chosen[i] = false;
  for (int round = 0; round < chosen; ++round) {
    lanes::fence();
    int best = n;
    for (int i = lanes::lane(); i < n; i += 16) {
      if (!is_chosen[i] && (best == n || logits[i] > logits[best])) best = i;
    }
    for (int width = 8; width > 0; width /= 2) {
      const int other = __shfl_xor_sync(lanes::together(), best, width, 16);
      const bool is_better =
          other < n && (best == n || logits[other] > logits[best] || (logits[other] == logits[best] && other < best));
      if (is_better) best = other;
    }
    if (lanes::lane() == 0) is_chosen[best] = true;
  }
  lanes::fence();
}

/// Writes the choices of a row, like cpu::choose_experts. Sixteen threads. logits: [experts], finite, overwritten;
/// weights: [chosen]; is_chosen: [experts].
template <class = void>
__device__ void choose_experts(const RouteJob& job, float* logits, float* weights, bool* is_chosen,
                               ExpertChoice* choices) {
  mark_largest(logits, job.experts, job.chosen, is_chosen);
  if (job.kind != RouterKind::chosen_softmax) softmax_row(job.experts, logits);
  for (int e = 0, i = 0; e < job.experts; ++e) {
    if (!is_chosen[e]) continue;
    if (lanes::lane() == 0) {
      choices[i].expert = e;
      weights[i] = logits[e];
    }
    ++i;
  }
  lanes::fence();
  if (job.kind == RouterKind::chosen_softmax) softmax_row(job.chosen, weights);
  float sum = 1;
  if (job.kind == RouterKind::normalised) {
    sum = 0;
    for (int i = 0; i < job.chosen; ++i) sum = __fadd_rn(sum, weights[i]);
  }
  for (int i = lanes::lane(); i < job.chosen; i += 16) choices[i].weight = __fdiv_rn(weights[i], sum);
}

/// One block per row. A row with a logit that is not finite takes the first experts, with weights of NaN.
template <class = void>
__global__ void __launch_bounds__(lanes::kThreads) route_kernel(RouteJob job) {
  extern __shared__ __align__(16) float route_shared[];
  float* const logits = route_shared;                                     // [experts]
  float* const weights = logits + job.experts;                            // [chosen]
  bool* const is_chosen = reinterpret_cast<bool*>(weights + job.chosen);  // [experts]
  const int row = static_cast<int>(blockIdx.x), half = static_cast<int>(threadIdx.x) / 16;
  ExpertChoice* const choices = job.choices + std::ptrdiff_t{row} * job.chosen;  // [chosen]
  wait_for_earlier();
  for (int e = half; e < job.experts; e += lanes::kRowsABlock) {
    lanes::products<1>(job.x.row(row), job.router + std::ptrdiff_t{e} * job.x.cols, job.x.cols, logits + e);
    lanes::fence();  // all sixteen have written the product
    if (job.bias && lanes::lane() == 0) logits[e] = __fadd_rn(job.bias[e], logits[e]);
  }
  __syncthreads();
  if (half > 0) return;
  if (isfinite(lanes::finite_max(logits, job.experts))) return choose_experts(job, logits, weights, is_chosen, choices);
  for (int i = lanes::lane(); i < job.chosen; i += 16) choices[i] = {i, std::numeric_limits<float>::quiet_NaN()};
}

inline constexpr int kPairThreads = 256;

/// One block per expert: counts the pairs of earlier experts, then places its own in the order of their rows.
template <class = void>
__global__ void __launch_bounds__(kPairThreads)
    sort_pairs_kernel(const ExpertChoice* choices, int pairs, int* places, int* first) {
  constexpr int kWarps = kPairThreads / 32;
  __shared__ int counts[kWarps];
  const int expert = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x), warp = thread / 32;
  wait_for_earlier();
  int own = 0;
  for (int i = thread; i < pairs; i += kPairThreads) own += choices[i].expert < expert;
  const int of_warp = __reduce_add_sync(0xffffffffu, own);
  if (thread % 32 == 0) counts[warp] = of_warp;
  __syncthreads();
  int next = 0;
  for (const int count : counts) next += count;
  if (thread == 0) {
    first[expert] = next;
    if (expert == 0) first[gridDim.x] = pairs;
  }
  for (int begin = 0; begin < pairs; begin += kPairThreads) {
    const int i = begin + thread;
    const bool is_own = i < pairs && choices[i].expert == expert;
    const unsigned of_lanes = __ballot_sync(0xffffffffu, is_own);
    __syncthreads();  // the counts of the round before are read
    if (thread % 32 == 0) counts[warp] = __popc(of_lanes);
    __syncthreads();
    int place = next + __popc(of_lanes & ((1u << thread % 32) - 1));
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp) place += counts[w];
      next += counts[w];
    }
    if (is_own) places[i] = place;
  }
}

/// One block per choice: copies its row to its pair.
template <class = void>
__global__ void copy_pairs_kernel(MatrixView<const float> x, const int* places, int chosen, MatrixView<float> pairs) {
  wait_for_earlier();
  const int i = static_cast<int>(blockIdx.x);
  const float* from = x.row(i / chosen);
  float* to = pairs.row(places[i]);
  for (int c = static_cast<int>(threadIdx.x); c < x.cols; c += static_cast<int>(blockDim.x)) to[c] = from[c];
}

/// The tile `tile` of `Rows` pairs of one expert, counted over all experts in turn; count 0: there are fewer.
struct ExpertTile {
  int expert = 0, first = 0, count = 0;

  /// first_pairs: [experts + 1]. All lanes of a warp get the same.
  template <int Rows>
  static __device__ ExpertTile find(const int* first_pairs, int experts, int tile) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int begin = 0; begin < experts; begin += 32) {
      const int e = begin + lane, from = e < experts ? first_pairs[e] : 0, to = e < experts ? first_pairs[e + 1] : 0;
      const int own = (to - from + Rows - 1) / Rows;
      int up_to = own;  // tiles of the experts begin .. e
      for (int width = 1; width < 32; width *= 2) {
        const int before = __shfl_up_sync(0xffffffffu, up_to, width);
        if (lane >= width) up_to += before;
      }
      const unsigned beyond = __ballot_sync(0xffffffffu, tile < up_to);
      if (beyond == 0) {
        tile -= __shfl_sync(0xffffffffu, up_to, 31);
        continue;
      }
      const int found = __ffs(static_cast<int>(beyond)) - 1;
      const int at = __shfl_sync(0xffffffffu, from + (tile - up_to + own) * Rows, found);
      return {begin + found, at, min(Rows, __shfl_sync(0xffffffffu, to, found) - at)};
    }
    return {};
  }
};

/// One product of every expert for its pairs. x and job.y: [pairs, ...]; up: the first product, else the second.
template <int Panels, int Tokens, class Source>
__global__ void __launch_bounds__(lanes::kThreads)
    expert_linear_kernel(cpu::PanelJob job, MatrixView<const float> x, const ExpertSource<Source>* experts, int count,
                         const int* first, bool up, bool whole) {
  wait_for_earlier();
  const auto tile =
      ExpertTile::find<LinearTile<Panels, Tokens, Source>::kTokens>(first, count, static_cast<int>(blockIdx.y));
  if (tile.count == 0) return;
  const ExpertSource<Source>& expert = experts[tile.expert];
  job.bias = up ? expert.up_bias : expert.down_bias;
  const Source weight = up ? expert.up : expert.down;
  linear_block<Panels, Tokens>(job, x, weight, whole, tile.first, tile.count);
}

/// One block per pair: the gate with a limit, over the first half of its row.
template <class = void>
__global__ void clamped_gate_kernel(MatrixView<float> gate_and_up, ExpertGate gate) {
  wait_for_earlier();
  const int n = gate_and_up.cols / 2, begin = static_cast<int>(threadIdx.x / 16) * 16;
  float* x = gate_and_up.row(static_cast<int>(blockIdx.x));  // [2 n]
  for (int i = begin; i < n; i += static_cast<int>(blockDim.x))
    lanes::clamped_gate_row(x + i, x + n + i, n - i < 16 ? n - i : 16, gate.limit, gate.steepness, x + i);
}

/// One block per row: the sum over its experts, in their order, is added to y.
template <class = void>
__global__ void add_experts_kernel(MatrixView<const float> out, MixtureMemory memory, int chosen, MatrixView<float> y) {
  wait_for_earlier();
  const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(blockIdx.x);
  const ExpertChoice* choices = memory.choices + row * chosen;
  const int* places = memory.places + row * chosen;
  for (int c = static_cast<int>(threadIdx.x); c < y.cols; c += static_cast<int>(blockDim.x)) {
    float sum = 0;
    for (int i = 0; i < chosen; ++i) sum = __fmaf_rn(choices[i].weight, out.row(places[i])[c], sum);
    float& value = y.row(static_cast<int>(row))[c];
    value = __fadd_rn(value, sum);
  }
}

/// Mixtures of a weight format whose products are chains over columns.
template <class W>
concept HasExperts = HasPanels<W> && HasColumns<W> && !HasTiles<W> && !HasOperandTiles<W>;

template <int Panels, int Tokens, class W>
void launch_experts(Cuda& device, const MixtureArgs<W>& args, MatrixView<const float> x, MatrixView<float> y,
                    const int* first, bool up) {
  using Source = SourceOf<W>;
  const LinearTile<Panels, Tokens, Source> tile(x.rows);
  const int experts = static_cast<int>(args.experts.size()), outputs = panel_count(y.cols);
  const cpu::PanelJob job = cpu::panel_job(LinearArgs<W>{.x = x, .weight = {}, .y = y});
  // Every expert may have a tile that is not full.
  const dim3 grid(static_cast<unsigned>((outputs + Panels - 1) / Panels),
                  static_cast<unsigned>(std::min(x.rows, experts + x.rows / tile.kTokens)));
  device.launch_early("experts", expert_linear_kernel<Panels, Tokens, Source>, grid, lanes::kThreads,
                      static_cast<std::size_t>(tile.bytes()), job, x,
                      reinterpret_cast<const ExpertSource<Source>*>(args.table), experts, first, up, copies_whole(x));
}

/// A tile has 8 pairs, or 32 where experts have 32 or more on average.
template <class W>
void multiply_experts(Cuda& device, const MixtureArgs<W>& args, MatrixView<const float> x, MatrixView<float> y,
                      const int* first, bool up) {
  if (x.rows < 32 * static_cast<int>(args.experts.size()))
    launch_experts<1, 1>(device, args, x, y, first, up);
  else
    launch_experts<4, 4>(device, args, x, y, first, up);
}

}  // namespace cuda

/// The experts of a layer in device memory, for MixtureArgs::table. Throws Error (unsupported) like linear().
template <class W>
requires cuda::HasExperts<W> Cuda::Memory expert_table(Cuda& device,
                                                       std::span<const ExpertParts<W, const float*>> experts) {
  using Source = cuda::ExpertSource<cuda::SourceOf<W>>;
  static_assert(std::is_trivially_copyable_v<Source>);
  Cuda::Memory table = device.allocate(experts.size() * sizeof(Source));
  device.fill({table.data(), table.bytes()}, [&](std::span<std::byte> host) {
    for (std::size_t e = 0; e < experts.size(); ++e) {
      const auto& [up, down] = experts[e];
      const Source source{cuda::columns_of(up.weight, 0), cuda::columns_of(down.weight, 0), up.bias, down.bias};
      cuda::check_copied(source.up);
      cuda::check_copied(source.down);
      std::memcpy(host.data() + e * sizeof source, &source, sizeof source);
    }
  });
  return table;
}

template <class W>
requires cuda::HasExperts<W>
void mixture(Cuda& device, const MixtureArgs<W>& args) {
  if (args.x.rows == 0) return;
  const int experts = static_cast<int>(args.experts.size()), pairs = args.x.rows * args.chosen;
  const cuda::MixtureMemory memory(device, pairs, experts);
  const auto floats = static_cast<std::size_t>(experts + args.chosen);
  device.launch_early(
      "route", cuda::route_kernel<>, cuda::blocks(args.x.rows), cuda::lanes::kThreads,
      floats * sizeof(float) + static_cast<std::size_t>(experts) * sizeof(bool),
      cuda::RouteJob{args.x, args.router, args.router_bias, experts, args.chosen, args.kind, memory.choices});
  device.launch_early("sort pairs", cuda::sort_pairs_kernel<>, cuda::blocks(experts), cuda::kPairThreads, 0,
                      memory.choices, pairs, memory.places, memory.first);
  device.launch_early("copy pairs", cuda::copy_pairs_kernel<>, cuda::blocks(pairs), 128, 0, args.x, memory.places,
                      args.chosen, args.memory->x);
  const MatrixView<float>& both = args.memory->gate_and_up;  // [pairs, 2 inner]
  const MatrixView<float> inner{both.data, both.rows, both.cols / 2, both.stride};
  cuda::multiply_experts(device, args, args.memory->x, both, memory.first, true);
  if (args.gate.limit > 0)
    device.launch_early("gate", cuda::clamped_gate_kernel<>, cuda::blocks(pairs), 256, 0, both, args.gate);
  else
    gate(device, GateArgs{both, args.gate.activation, inner});
  cuda::multiply_experts(device, args, inner, args.memory->out, memory.first, false);
  device.launch_early("add experts", cuda::add_experts_kernel<>, cuda::blocks(args.x.rows), 256, 0, args.memory->out,
                      memory, args.chosen, args.y);
}

}  // namespace tenon
