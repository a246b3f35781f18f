// How a matrix product reads weights of each layout: one value of one panel's lane at a time, in the arithmetic of the CPU's
// kernels (docs/numerics.md).
#pragma once
#include <cstdint>
#include <type_traits>

#include "tenon/core/concepts.h"
#include "tenon/core/panels.h"
#include "tenon/ops/cpu/kernels.h"

namespace tenon::cuda {

// Columns in their order, each product rounded once with what it is added to.
struct FusedChain {
  static constexpr bool kPairs = false;
  __device__ static float multiply_add(float w, float x, float sum) { return __fmaf_rn(w, x, sum); }
};

// (code - zero_point) * scale, of its row: the chain is of codes, and what scales it comes behind.
template <class Code>
struct CodeColumns : FusedChain {
  static constexpr float kSums = -1.0f;  // times the strip sum of x: what zero points need
  CodePanels<Code> weight;

  __host__ __device__ int panels() const { return (weight.rows + kPanelRows - 1) / kPanelRows; }
  __device__ int group() const { return 0; }
  __device__ float group_scale(int, int, int) const { return 1.0f; }
  __device__ float value(int panel, int k, int lane) const {
    const float code = static_cast<float>(weight.panel(panel)[k * kPanelRows + lane]);
    return cpu::kCodeUnit<Code> == 1.0f ? code : __fmul_rn(code, 1.0f / cpu::kCodeUnit<Code>);
  }
  __device__ float activation(float x, int) const { return x; }
  // minus_sum: of x
  __device__ float scaled(float value, int panel, int lane, float minus_sum) const {
    constexpr float kUnit = cpu::kCodeUnit<Code>;
    if (kUnit == 1.0f && !weight.scales && !weight.zero_points) return value;
    const int row = panel * weight.scale_stride + lane;
    if (weight.zero_points) value = __fmaf_rn(__fmul_rn(weight.zero_points[row], 1.0f / kUnit), minus_sum, value);
    return __fmaf_rn(value, weight.scales ? __fmul_rn(weight.scales[row], kUnit) : kUnit, 0.0f);
  }
};

// Codes 0 .. 15 in groups, read 16^min(i, 6) times too large against x times kNibbleUnits.
struct Int4Columns : FusedChain {
  static constexpr float kSums = -8.0f;
  Int4Panels weight;

  __host__ __device__ int panels() const { return (weight.rows + kPanelRows - 1) / kPanelRows; }
  __device__ int group() const { return weight.group; }
  __device__ float group_scale(int panel, int group, int lane) const {
    return static_cast<float>(weight.scales[(std::ptrdiff_t{panel} * weight.groups() + group) * kPanelRows + lane]);
  }
  __device__ float value(int panel, int k, int lane) const {
    const std::uint32_t word = weight.codes[(std::ptrdiff_t{panel} * weight.words() + k / 8) * kPanelRows + lane];
    const int i = k % 8, place = i < 7 ? i : 6;
    return static_cast<float>((i < 7 ? word : word >> 4) & 15u << (4 * place));
  }
  // 16^-min(i, 6)
  __device__ float activation(float x, int k) const {
    const int i = k % 8, place = i < 7 ? i : 6;
    return __fmul_rn(x, __uint_as_float(static_cast<std::uint32_t>(127 - 4 * place) << 23));
  }
  __device__ float scaled(float value, int, int, float) const { return value; }
};

// Pairs of bfloat16, the second of a pair first, as PairDot of ops/cpu/simd/dot_portable.inc multiplies them: what is
// subnormal is zero.
struct PairColumns {
  static constexpr float kSums = 0.0f;
  static constexpr bool kPairs = true;  // column k of a chain is k ^ 1, up to an even number of them
  BFloat16Pairs weight;

  __host__ __device__ int panels() const { return (weight.rows + kPanelRows - 1) / kPanelRows; }
  __device__ int group() const { return 0; }
  __device__ float group_scale(int, int, int) const { return 1.0f; }
  __device__ float value(int panel, int k, int lane) const {
    const std::ptrdiff_t pair = (std::ptrdiff_t{panel} * weight.pairs() + k / 2) * kPanelRows + lane;
    return flushed(static_cast<float>(weight.codes[2 * pair + (k ^ 1) % 2]));
  }
  __device__ static float rounded(float x) { return static_cast<float>(bfloat16(flushed(x))); }
  __device__ float activation(float x, int) const { return x; }
  // Rounded as if exponents had no end, then zero where that is subnormal: a double holds a sum so near to the border.
  __device__ static float multiply_add(float w, float x, float sum) {
    const float r = __fmaf_rn(w, x, sum);
    if (!(fabsf(r) <= 0x1p-126f)) return r;
    const double exact = __fma_rn(static_cast<double>(w), static_cast<double>(x), static_cast<double>(sum));
    return fabs(exact) < 0x1.ffffffp-127 ? copysignf(0.0f, r) : r;
  }
  __device__ float scaled(float value, int, int, float) const { return value; }

 private:
  __device__ static float flushed(float x) {
    const std::uint32_t bits = __float_as_uint(x);
    return __uint_as_float((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
  }
};

// Any other format, weight by weight.
template <class W>
struct WeightColumns : FusedChain {
  static constexpr float kSums = 0.0f;
  W weight;
  int rows;

  __host__ __device__ int panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
  __device__ int group() const { return 0; }
  __device__ float group_scale(int, int, int) const { return 1.0f; }
  __device__ float value(int panel, int k, int lane) const {
    const int row = panel * kPanelRows + lane;
    return row < rows ? weight.at(row, k) : 0.0f;
  }
  __device__ float activation(float x, int) const { return x; }
  __device__ float scaled(float value, int, int, float) const { return value; }
};

template <class Code>
CodeColumns<Code> columns_of_layout(const CodePanels<Code>& weight, int) {
  return {{}, weight};
}
inline Int4Columns columns_of_layout(const Int4Panels& weight, int) { return {{}, weight}; }
inline PairColumns columns_of_layout(const BFloat16Pairs& weight, int) { return {weight}; }

template <class W>
concept HasColumns = !HasPanels<W> || requires(const W w) { columns_of_layout(w.panels(), 0); };

template <class W>
auto columns_of(const W& weight, int rows) {
  if constexpr (HasPanels<W>) return columns_of_layout(weight.panels(), rows);
  else return WeightColumns<W>{{}, weight, rows};
}

}  // namespace tenon::cuda
