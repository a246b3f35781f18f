// How a matrix product reads the weights of each layout. A panel's columns are copied as their bytes lie in memory,
// then read one value of one lane at a time, in the arithmetic of the CPU's kernels (docs/numerics.md).
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tenon/core/concepts.h"
#include "tenon/core/normal_float4.h"
#include "tenon/core/panels.h"
#include "tenon/device/cuda_tuning.cuh"
#include "tenon/ops/cpu/kernels.h"

namespace tenon::cuda {

inline bool is_whole(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
}  // copies are of sixteen bytes

/// Base of column layouts: columns in ascending order, each product rounded once with the sum. A layout with groups
/// says so and has scales of type Scale, [panels, groups, 16].
struct FusedChain {
  static constexpr bool kPairs = false;  ///< column k of a chain is k ^ 1, up to an even number of columns
  static constexpr bool kBytes = true;   ///< panels lie in memory as column_bytes() says
  static constexpr int kLeastGroup = 0;  ///< columns that share a scale; 0: the whole row
  using Scale = float16;                 ///< of a group
  static constexpr float kDecoding = 1;  ///< cost of a column, relative to float32, if threads decode what they add
  __device__ static float multiply_add(float w, float x, float sum) { return __fmaf_rn(w, x, sum); }
  __device__ static float activation(float x, int) { return x; }
  bool can_be_copied() const { return true; }
};

template <class Code>
__device__ float to_float(Code code) {
  return static_cast<float>(code);
}
/// By the mantissa of 2^23 + 128 + code: a processor converts integers at a quarter of its rate of float additions.
template <>
__device__ inline float to_float(std::int8_t code) {
  const auto bits = static_cast<std::uint32_t>(static_cast<std::uint8_t>(code));
  return __fsub_rn(__uint_as_float((bits ^ 0x80u) | 0x4b000000u), 8388736.0f);
}

/// (code - zero_point) * scale of its row. The chain is over codes; scaling follows it.
template <class Code>
struct CodeColumns : FusedChain {
  static constexpr float kSums = -1.0f;  ///< factor of the strip sum of x, which zero points need
  static constexpr float kDecoding = sizeof(Code) == 4 ? 1.0f : CudaTuning::decoding;
  CodePanels<Code> weight;

  bool can_be_copied() const { return is_whole(weight.codes); }
  __host__ __device__ int panels() const { return (weight.rows + kPanelRows - 1) / kPanelRows; }
  __device__ bool needs_sums() const { return weight.zero_points != nullptr; }
  __device__ int group() const { return 0; }
  static constexpr __host__ __device__ int column_bytes(int n) {
    return n * kPanelRows * static_cast<int>(sizeof(Code));
  }
  __device__ const void* columns(int panel, int k) const { return weight.panel(panel) + k * kPanelRows; }
  /// Column k + i of the columns at `bytes`. k is a multiple of 8, i less than 8.
  __device__ static float value(const std::byte* bytes, int k, int i, int lane) {
    const float code = to_float(reinterpret_cast<const Code*>(bytes)[(k + i) * kPanelRows + lane]);
    return cpu::kCodeUnit<Code> == 1.0f ? code : __fmul_rn(code, 1.0f / cpu::kCodeUnit<Code>);
  }
  /// minus_sum: minus the sum of x
  __device__ float scaled(float value, int panel, int lane, float minus_sum) const {
    constexpr float kUnit = cpu::kCodeUnit<Code>;
    if (kUnit == 1.0f && !weight.scales && !weight.zero_points) return value;
    const int row = panel * weight.scale_stride + lane;
    if (weight.zero_points) value = __fmaf_rn(__fmul_rn(weight.zero_points[row], 1.0f / kUnit), minus_sum, value);
    return __fmaf_rn(value, weight.scales ? __fmul_rn(weight.scales[row], kUnit) : kUnit, 0.0f);
  }
};

/// Base of layouts whose scales belong to groups of columns. Panels: Int4Panels and its like.
template <class Panels>
struct GroupColumns : FusedChain {
  using Scale = std::remove_cvref_t<decltype(*Panels{}.scales)>;
  Panels weight;

  bool can_be_copied() const { return is_whole(weight.codes) && is_whole(weight.scales); }
  __host__ __device__ int panels() const { return (weight.rows + kPanelRows - 1) / kPanelRows; }
  __device__ int group() const { return weight.group; }
  /// [16] of the group that begins at column k
  __device__ const Scale* group_scales(int panel, int k) const {
    return weight.scales + (std::ptrdiff_t{panel} * weight.groups() + k / weight.group) * kPanelRows;
  }
  __device__ float scaled(float value, int, int, float) const { return value; }
};

/// Codes 0 .. 15 in groups, read 16^min(i, 6) times too large against x times kNibbleUnits.
struct Int4Columns : GroupColumns<Int4Panels> {
  static constexpr float kSums = -8.0f;
  static constexpr int kLeastGroup = 32;

  __device__ bool needs_sums() const { return true; }
  static constexpr __host__ __device__ int column_bytes(int n) { return (n + 7) / 8 * kPanelRows * 4; }
  __device__ const void* columns(int panel, int k) const {
    return weight.codes + (std::ptrdiff_t{panel} * weight.words() + k / 8) * kPanelRows;
  }
  __device__ static float value(const std::byte* bytes, int k, int i, int lane) {
    const std::uint32_t word = reinterpret_cast<const std::uint32_t*>(bytes)[k / 8 * kPanelRows + lane];
    const float units = power_of_16(i < 7 ? i : 6);
    return __fmaf_rn(__uint_as_float((word >> 4 * i & 15u) | 0x4b000000u), units,
                     __fmul_rn(units, -8388608.0f));  // like to_float()
  }
  __device__ static float activation(float x, int i) { return __fmul_rn(x, power_of_16(i < 7 ? -i : -6)); }

 private:
  __device__ static float power_of_16(int i) { return __uint_as_float(static_cast<std::uint32_t>(127 + 4 * i) << 23); }
};

/// Codes of a table of sixteen values, in groups. Each lane of a half-warp holds one value of the table and hands it to
/// those that have its code, so all lanes of a warp must read together.
struct NormalFloat4Columns : GroupColumns<NormalFloat4Panels> {
  static constexpr float kSums = 0.0f;
  static constexpr int kLeastGroup = NormalFloat4Panels::group;

  __device__ bool needs_sums() const { return false; }
  static constexpr __host__ __device__ int column_bytes(int n) { return (n + 7) / 8 * kPanelRows * 4; }
  __device__ const void* columns(int panel, int k) const {
    return weight.codes + (std::ptrdiff_t{panel} * weight.words() + k / 8) * kPanelRows;
  }
  __device__ static float value(const std::byte* bytes, int k, int i, int lane) {
    const std::uint32_t word = reinterpret_cast<const std::uint32_t*>(bytes)[k / 8 * kPanelRows + lane];
    return __shfl_sync(0xffffffffu, own_value(lane), static_cast<int>(word >> 4 * i & 15u));
  }

 private:
  // Selects by comparisons: a table with a variable index would lie in local memory.
  __device__ static float own_value(int lane) {
    float own = normal_float4(0);
#pragma unroll
    for (int code = 1; code < 16; ++code) own = lane == code ? normal_float4(code) : own;
    return own;
  }
};

/// Signed codes in groups.
struct GroupInt8Columns : GroupColumns<GroupInt8Panels> {
  static constexpr float kSums = 0.0f;
  static constexpr int kLeastGroup = GroupInt8Panels::group;
  static constexpr float kDecoding = CudaTuning::decoding;

  __device__ bool needs_sums() const { return false; }
  /// Whole words of four columns.
  static constexpr __host__ __device__ int column_bytes(int n) { return (n + 3) / 4 * 4 * kPanelRows; }
  __device__ const void* columns(int panel, int k) const {
    return weight.codes + (std::ptrdiff_t{panel} * weight.words() + k / 4) * 4 * kPanelRows;
  }
  __device__ static float value(const std::byte* bytes, int k, int i, int lane) {
    return to_float(reinterpret_cast<const std::int8_t*>(bytes)[(k + i) * kPanelRows + lane]);
  }
};

/// Pairs of bfloat16, the second column of a pair first, like PairDot of ops/cpu/simd/dot_portable.inc. Subnormal
/// values are zero.
struct PairColumns : FusedChain {
  static constexpr float kSums = 0.0f;
  static constexpr bool kPairs = true;
  BFloat16Pairs weight;

  bool can_be_copied() const { return is_whole(weight.codes); }
  __host__ __device__ int panels() const { return (weight.rows + kPanelRows - 1) / kPanelRows; }
  __device__ bool needs_sums() const { return false; }
  __device__ int group() const { return 0; }
  static constexpr __host__ __device__ int column_bytes(int n) { return (n + 1) / 2 * kPanelRows * 4; }
  __device__ const void* columns(int panel, int k) const {
    return weight.codes + (std::ptrdiff_t{panel} * weight.pairs() + k / 2) * kPanelRows * 2;
  }
  __device__ static float value(const std::byte* bytes, int k, int i, int lane) {
    return flushed(static_cast<float>(
        reinterpret_cast<const bfloat16*>(bytes)[2 * ((k + i) / 2 * kPanelRows + lane) + (i ^ 1) % 2]));
  }
  __device__ static float rounded(float x) { return static_cast<float>(bfloat16(flushed(x))); }
  /// Rounds with unbounded exponents, then flushes a subnormal result to zero: near that border, a double holds the sum
  /// exactly.
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

/// Any other format, weight by weight. It has no bytes to copy, so a block keeps floats.
template <class W>
struct WeightColumns : FusedChain {
  static constexpr float kSums = 0.0f;
  static constexpr bool kBytes = false;
  W weight;
  int rows;

  __host__ __device__ int panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
  __device__ bool needs_sums() const { return false; }
  __device__ int group() const { return 0; }
  static constexpr __host__ __device__ int column_bytes(int n) {
    return n * kPanelRows * static_cast<int>(sizeof(float));
  }
  __device__ float weight_at(int panel, int k, int lane) const {
    const int row = panel * kPanelRows + lane;
    return row < rows ? weight.at(row, k) : 0.0f;
  }
  __device__ static float value(const std::byte* bytes, int k, int i, int lane) {
    return reinterpret_cast<const float*>(bytes)[(k + i) * kPanelRows + lane];
  }
  __device__ float scaled(float value, int, int, float) const { return value; }
};

template <class Code>
CodeColumns<Code> columns_of_layout(const CodePanels<Code>& weight, int) {
  return {{}, weight};
}
inline Int4Columns columns_of_layout(const Int4Panels& weight, int) { return {{{}, weight}}; }
inline NormalFloat4Columns columns_of_layout(const NormalFloat4Panels& weight, int) { return {{{}, weight}}; }
inline GroupInt8Columns columns_of_layout(const GroupInt8Panels& weight, int) { return {{{}, weight}}; }
inline PairColumns columns_of_layout(const BFloat16Pairs& weight, int) { return {{}, weight}; }

template <class W>
concept HasColumns = !HasPanels<W> || requires(const W w) {
  columns_of_layout(w.panels(), 0);
};

template <class W>
auto columns_of(const W& weight, int rows) {
  if constexpr (HasPanels<W>)
    return columns_of_layout(weight.panels(), rows);
  else
    return WeightColumns<W>{{}, weight, rows};
}

}  // namespace tenon::cuda
