// Matrix products of integers on tensor cores, with rounded activations. Integer sums are exact in any order, so they
// equal the CPU's (ops/cpu/kernels/dot.inc) for every block shape. Everything after a sum follows the CPU's order.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tenon/core/panels.h"
#include "tenon/device/cuda.cuh"
#include "tenon/ops/args.h"
#include "tenon/ops/cuda/finish.cuh"
#include "tenon/ops/cuda/rounded_tokens.cuh"
#include "tenon/ops/cuda/tensor_core.cuh"
#include "tenon/ops/cuda/tensor_tiles.cuh"

namespace tenon::cuda {

inline constexpr int kTokens = 8;  ///< tokens of one instruction
inline constexpr int kTile = kPanelRows * kTokens;
inline constexpr int kWarps = 4;

/// Place of a sum in a tile of [kTokens, kPanelRows], as the finishing threads read it.
__device__ inline int place_of_sum(int lane, int i) {
  return column_of_sum(lane, i) * kPanelRows + row_of_sum(lane, i);
}

/// Steps per chunk for few tokens. A block has a panel and eight tokens, and its warps take different columns. Their
/// sums meet in shared memory, one place per group, chunk by chunk. Then each thread adds up one output of a token.
inline constexpr int kChunkSteps = 32;

template <class Tiles>
__global__ void __launch_bounds__(kTile)
    few_tokens_kernel(cpu::PanelJob job, cpu::DotForm form, RoundedTokens tokens, Tiles weight) {
  __shared__ std::int32_t groups[kChunkSteps][kTile];
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int panel = static_cast<int>(blockIdx.x), first_token = static_cast<int>(blockIdx.y) * kTokens;
  const int left = job.tokens - first_token, group_steps = weight.group_steps(tokens.steps);
  wait_for_earlier();
  const std::uint32_t* words = tokens.token(first_token + min(lane / 4, left - 1));

  const int row = panel * kPanelRows + thread % kPanelRows, token = thread / kPanelRows;  // this thread's output
  const std::int32_t* token_sums = tokens.sums + std::ptrdiff_t{first_token + min(token, left - 1)} * form.groups;
  float total = 0.0f;
  std::int32_t open = 0;  // of a group that continues in the next chunk
  for (int begin = 0; begin < tokens.steps; begin += kChunkSteps) {
    const int end = min(begin + kChunkSteps, tokens.steps), first_group = begin / group_steps;
    const int last_group = (end - 1) / group_steps;
    for (int g = first_group; g <= last_group; ++g) groups[g - first_group][thread] = 0;
    __syncthreads();
    std::int32_t sums[4] = {};
    for (int step = begin + warp; step < end; step += kWarps) {
      std::uint32_t a[4], b[2];
      weight.load(panel, step, lane, a);
      Tiles::load_token(words, step, lane, b);
      multiply_add(sums, a, b);
      const int group = step / group_steps, next = step + kWarps;
      if (next < end && next / group_steps == group) continue;
      for (int i = 0; i < 4; ++i) {
        atomicAdd(&groups[group - first_group][place_of_sum(lane, i)], sums[i]);
        sums[i] = 0;
      }
    }
    __syncthreads();
    for (int g = first_group; g <= last_group; ++g) {
      open += groups[g - first_group][thread];
      if ((g + 1) * group_steps > end && end < tokens.steps) continue;
      total = weight.add(total, open, token_sums[g], row, g);
      open = 0;
    }
    __syncthreads();
  }
  if (token < left)
    finish(job, first_token + token, row, weight.scaled(total, row, tokens.scales[first_token + token]));
}

/// For many tokens: a warp has Panels panels and Tiles * 8 tokens, with all their columns.
template <class Tiles, int Panels, int TokenTiles>
__global__ void __launch_bounds__(32 * kWarps)
    many_tokens_kernel(cpu::PanelJob job, cpu::DotForm form, RoundedTokens tokens, Tiles weight) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32,
            panels = (job.outputs + kPanelRows - 1) / kPanelRows;
  const int first_panel = (static_cast<int>(blockIdx.x) * kWarps + thread / 32) * Panels;
  const int first_token = static_cast<int>(blockIdx.y) * TokenTiles * kTokens;
  wait_for_earlier();
  if (first_panel >= panels) return;
  const std::uint32_t* words[TokenTiles];
#pragma unroll
  for (int t = 0; t < TokenTiles; ++t)
    words[t] = tokens.token(min(first_token + t * kTokens + lane / 4, job.tokens - 1));
  float totals[Panels][TokenTiles][4] = {};
  const int group_steps = weight.group_steps(tokens.steps);
  // body(panel, tile, place in a thread, row, token)
  const auto for_each = [&](auto&& body) {
#pragma unroll
    for (int p = 0; p < Panels; ++p) {
#pragma unroll
      for (int t = 0; t < TokenTiles; ++t) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int panel = min(first_panel + p, panels - 1),
                    token = first_token + t * kTokens + column_of_sum(lane, i);
          body(p, t, i, panel * kPanelRows + row_of_sum(lane, i), token);
        }
      }
    }
  };
  for (int group = 0; group * group_steps < tokens.steps; ++group) {
    std::int32_t sums[Panels][TokenTiles][4] = {};
    const int end = min((group + 1) * group_steps, tokens.steps);
    for (int step = group * group_steps; step < end; ++step) {
      std::uint32_t a[Panels][4];
#pragma unroll
      for (int p = 0; p < Panels; ++p) weight.load(min(first_panel + p, panels - 1), step, lane, a[p]);
#pragma unroll
      for (int t = 0; t < TokenTiles; ++t) {
        std::uint32_t b[2];
        Tiles::load_token(words[t], step, lane, b);
#pragma unroll
        for (int p = 0; p < Panels; ++p) multiply_add(sums[p][t], a[p], b);
      }
    }
    for_each([&](int p, int t, int i, int row, int token) {
      const std::int32_t token_sum = tokens.sums[std::ptrdiff_t{min(token, job.tokens - 1)} * form.groups + group];
      totals[p][t][i] = weight.add(totals[p][t][i], sums[p][t][i], token_sum, row, group);
    });
  }
  for_each([&](int p, int t, int i, int row, int token) {
    if (first_panel + p < panels && token < job.tokens)
      finish(job, token, row, weight.scaled(totals[p][t][i], row, tokens.scales[token]));
  });
}

/// Rounds the rows of x into scratch memory.
template <class Layout>
RoundedTokens round_tokens(Cuda& device, MatrixView<const float> x, const Layout& layout, cpu::DotForm& form) {
  constexpr int kColumns = kStepWords * 4;
  RoundedTokens tokens{};
  tokens.steps = (x.cols + kColumns - 1) / kColumns;
  form = cpu::dot_form(layout);
  const auto rows = static_cast<std::size_t>(x.rows);
  const std::size_t words = rows * static_cast<std::size_t>(tokens.steps) * kStepWords;
  float* memory = device.scratch(words + rows * static_cast<std::size_t>(form.groups + 1), ScratchUse::rounded);
  tokens.words = reinterpret_cast<std::uint32_t*>(memory);
  tokens.sums = reinterpret_cast<std::int32_t*>(memory + words);
  tokens.scales = memory + words + rows * static_cast<std::size_t>(form.groups);
  device.launch_early("round", round_to_bytes_kernel<>, blocks(x.rows), 128, 0, x, form, tokens);
  return tokens;
}

template <class Layout>
void linear_tensor(Cuda& device, const cpu::PanelJob& job, MatrixView<const float> x, const Layout& layout) {
  const auto weight = tiles_of_layout(layout);
  using Tiles = std::remove_cv_t<decltype(weight)>;
  cpu::DotForm form{};
  const RoundedTokens tokens = round_tokens(device, x, layout, form);
  const int panels = static_cast<int>(panel_count(job.outputs));
  const auto grid = [&](int panels_a_block, int tokens_a_block) {
    return dim3(static_cast<unsigned>((panels + panels_a_block - 1) / panels_a_block),
                static_cast<unsigned>((x.rows + tokens_a_block - 1) / tokens_a_block));
  };
  constexpr int kPanels = 2, kTokenTiles = 4;
  if (x.rows > 2 * kTokens) {
    device.launch_early("linear", many_tokens_kernel<Tiles, kPanels, kTokenTiles>,
                        grid(kWarps * kPanels, kTokenTiles * kTokens), 32 * kWarps, 0, job, form, tokens, weight);
  } else {
    device.launch_early("linear", few_tokens_kernel<Tiles>, grid(1, kTokens), kTile, 0, job, form, tokens, weight);
  }
}

}  // namespace tenon::cuda
