// Low-rank updates: a block for each row, whatever its adapter and ranks (BGMV of Punica; Chen et al., 2023). Products of a row
// with its factors a stay in shared memory, and meet the factors b in the same kernel.
#pragma once
#include <algorithm>
#include <vector>

#include "tenon/device/cuda.cuh"
#include "tenon/ops/args.h"
#include "tenon/ops/cuda/lanes.cuh"

namespace tenon {
namespace cuda {

// Products that a block keeps at a time; of updates with more, their outputs are gone over again.
inline constexpr int kRanksAtOnce = 64;

// scale * (a[i] . x) for ranks first .. first + count - 1, one for each half-warp at a time.
template <class Factor>
__device__ void shrink(const float* x, int inputs, const LowRank& update, int first, int count, float* out) {
  const auto* a = static_cast<const Factor*>(update.a);
  const int halves = static_cast<int>(blockDim.x) / 16;
  for (int i = static_cast<int>(threadIdx.x) / 16; i < count; i += halves) {
    const Factor* row = a + static_cast<std::ptrdiff_t>(first + i) * inputs;
    lanes::F32x16 strips = lanes::zero();
    for (int k = lanes::lane(); k < inputs; k += 16) strips = lanes::fma({static_cast<float>(row[k])}, {x[k]}, strips);
    const float product = lanes::sum(strips);
    if (lanes::lane() == 0) out[i] = __fmul_rn(update.scale, product);
  }
}

// An output a thread.
template <class Factor>
__device__ void expand(const LowRank& update, int first, int count, const float* products, float* delta) {
  const auto* b = static_cast<const Factor*>(update.b);
  for (int o = static_cast<int>(threadIdx.x); o < update.outputs; o += static_cast<int>(blockDim.x)) {
    const int block = o / kFactorBlock * kFactorBlock, rest = update.outputs - block;
    const int width = rest < kFactorBlock ? rest : kFactorBlock;
    const Factor* column = b + static_cast<std::ptrdiff_t>(block) * update.rank + (o - block);
    float sum = delta[update.first_output + o];
    for (int i = 0; i < count; ++i) {
      sum = __fmaf_rn(static_cast<float>(column[static_cast<std::ptrdiff_t>(first + i) * width]), products[i], sum);
    }
    delta[update.first_output + o] = sum;
  }
}

template <class Factor>
__device__ void add_update(const float* x, int inputs, const LowRank& update, float* products, float* delta) {
  for (int first = 0; first < update.rank; first += kRanksAtOnce) {
    const int count = update.rank - first < kRanksAtOnce ? update.rank - first : kRanksAtOnce;
    shrink<Factor>(x, inputs, update, first, count, products);
    __syncthreads();
    expand<Factor>(update, first, count, products, delta);
    __syncthreads();
  }
}

// sets: [rows], of which those without adapters have null tables.
template <class = void>
__global__ void low_rank_kernel(MatrixView<const float> x, const AdapterSet* sets, int layer, Site site, MatrixView<float> delta,
                                const float** deltas) {
  __shared__ float products[kRanksAtOnce];
  const int row = static_cast<int>(blockIdx.x);
  const AdapterSet set = sets[row];
  const std::span<const LowRank> updates = set.updates ? set.at(layer, site) : std::span<const LowRank>{};
  float* const out = delta.row(row);
  if (threadIdx.x == 0) deltas[row] = updates.empty() ? nullptr : out;
  if (updates.empty()) return;
  for (int o = static_cast<int>(threadIdx.x); o < delta.cols; o += static_cast<int>(blockDim.x)) out[o] = 0.0f;
  __syncthreads();
  for (const LowRank& update : updates) {
    switch (update.type) {
      case FactorType::float32: add_update<float>(x.row(row), x.cols, update, products, out); break;
      case FactorType::float16: add_update<float16>(x.row(row), x.cols, update, products, out); break;
      case FactorType::bfloat16: add_update<bfloat16>(x.row(row), x.cols, update, products, out); break;
    }
  }
}

}  // namespace cuda

// Groups say which rows there are; how they are taken together is the kernel's own.
inline void low_rank(Cuda& device, const LowRankArgs& args) {
  std::vector<AdapterSet> sets(static_cast<std::size_t>(args.x.rows));
  for (const AdapterGroup& group : args.groups->groups) {
    for (int i = group.first; i < group.first + group.count; ++i) {
      sets[static_cast<std::size_t>(args.groups->rows[static_cast<std::size_t>(i)])] = *group.adapters;
    }
  }
  device.launch("low_rank", cuda::low_rank_kernel<>, cuda::blocks(args.x.rows), 256, 0, args.x,
                device.put(std::span<const AdapterSet>(sets)), args.layer, args.site, args.delta, args.deltas);
}

}  // namespace tenon
