// Panels of weights for integer tensor cores, and what becomes of a sum. A group is the columns whose integer sum
// becomes a float at once: those that share a scale, or that fit 32 bits.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tenon/core/panels.h"
#include "tenon/ops/cpu/dot_kernels.h"
#include "tenon/ops/cuda/rounded_tokens.cuh"

namespace tenon::cuda {

/// Step `step` of a panel as thread `lane` of a warp holds it. count: words per row of the layout.
__device__ inline void load_panel(const void* codes, int count, int panel, int step, int lane, std::uint32_t (&a)[4]) {
  const auto* words = static_cast<const std::uint32_t*>(codes) + std::ptrdiff_t{panel} * count * kPanelRows;
  for (int j = 0; j < 4; ++j) {
    const int word = kStepWords * step + lane % 4 + 4 * (j / 2);
    a[j] = word < count ? words[word * kPanelRows + lane / 4 + 8 * (j % 2)] : 0u;
  }
}
__device__ inline void load_words(const std::uint32_t* token, int step, int lane, std::uint32_t (&b)[2]) {
  b[0] = token[kStepWords * step + lane % 4];
  b[1] = token[kStepWords * step + lane % 4 + 4];
}

struct Int8Tiles {
  Int8Quads weight;

  __host__ __device__ int group_steps(int) const { return cpu::kSumColumns / (4 * kStepWords); }
  __device__ void load(int panel, int step, int lane, std::uint32_t (&a)[4]) const {
    load_panel(weight.codes, weight.quads(), panel, step, lane, a);
  }
  __device__ static void load_token(const std::uint32_t* token, int step, int lane, std::uint32_t (&b)[2]) {
    load_words(token, step, lane, b);
  }
  /// token_sum: minus the sum of the unit's bytes.
  __device__ float add(float total, int sum, int token_sum, int row, int) const {
    return __fadd_rn(total, static_cast<float>(sum + weight.zero_points[row] * token_sum));
  }
  __device__ float scaled(float total, int row, float token_scale) const {
    return __fmaf_rn(__fmaf_rn(total, weight.scales[row], 0.0f), token_scale, 0.0f);
  }
};

/// A word holds a quad in its low halves and the next quad in its high halves. Tokens are not rearranged.
struct Int4Tiles {
  Int4Quads weight;

  __host__ __device__ int group_steps(int) const { return weight.group / (4 * kStepWords); }
  __device__ void load(int panel, int step, int lane, std::uint32_t (&a)[4]) const {
    const int count = weight.words(), word = 4 * step + lane % 4;
    const auto* words =
        reinterpret_cast<const std::uint32_t*>(weight.codes) + std::ptrdiff_t{panel} * count * kPanelRows;
    for (int j = 0; j < 2; ++j) {
      const std::uint32_t both = word < count ? words[word * kPanelRows + lane / 4 + 8 * j] : 0u;
      a[j] = both & 0x0f0f0f0fu;
      a[j + 2] = both >> 4 & 0x0f0f0f0fu;
    }
  }
  __device__ static void load_token(const std::uint32_t* token, int step, int lane, std::uint32_t (&b)[2]) {
    b[0] = token[kStepWords * step + 2 * (lane % 4)];
    b[1] = token[kStepWords * step + 2 * (lane % 4) + 1];
  }
  /// token_sum: -8 times the sum of the group's bytes.
  __device__ float add(float total, int sum, int token_sum, int row, int group) const {
    const float16 scale =
        weight.scales[(std::ptrdiff_t{row / kPanelRows} * weight.groups() + group) * kPanelRows + row % kPanelRows];
    return __fmaf_rn(static_cast<float>(sum + token_sum), static_cast<float>(scale), total);
  }
  __device__ float scaled(float total, int, float token_scale) const { return __fmaf_rn(total, token_scale, 0.0f); }
};

inline Int8Tiles tiles_of_layout(const Int8Quads& weight) { return {weight}; }
inline Int4Tiles tiles_of_layout(const Int4Quads& weight) { return {weight}; }

/// Layouts that tensor cores multiply.
template <class W>
concept HasTiles = HasPanels<W> && requires(const W w) {
  tiles_of_layout(w.panels());
};

}  // namespace tenon::cuda
