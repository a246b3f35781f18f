// Reductions over a row of logits, in one fixed order. Lane l of 16 takes elements l, l + 16, l + 32, ... in turn. Then
// the lanes are added as a tree: (l, l + 8), (l, l + 4), (l, l + 2), (l, l + 1). The order depends on the length alone,
// not on alignment, vector width or thread count.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

#include "tenon/core/exact_math.h"
#include "tenon/core/finite.h"
#include "tenon/core/views.h"

namespace tenon {

inline constexpr std::size_t kLanes = 16;

namespace detail {

inline constexpr std::size_t kBlock = 16 * kLanes;  // terms computed before any is added: 1 KiB

[[gnu::always_inline]] inline float max_body(const float* x /* [n] */, std::size_t n) {
  float lane[kLanes];
  for (float& l : lane) l = -std::numeric_limits<float>::infinity();
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::size_t l = 0; l < kLanes; ++l) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
  for (; i < n; ++i) lane[0] = x[i] > lane[0] ? x[i] : lane[0];
  float best = lane[0];
  for (const float l : lane) best = l > best ? l : best;
  return best;
}

// The first i >= from with x[i] > floor (or == floor); n if there is none.
template <bool kEqual>
[[gnu::always_inline]] inline std::size_t find_body(const float* x /* [n] */, std::size_t n, std::size_t from,
                                                    float floor) {
  constexpr std::size_t block = 4 * kLanes;
  std::size_t i = from;
  for (; i + block <= n; i += block) {
    std::uint32_t hit = 0;
    for (std::size_t l = 0; l < block; ++l) hit |= (kEqual ? x[i + l] == floor : x[i + l] > floor) ? 1u : 0u;
    if (hit) break;
  }
  for (; i < n; ++i)
    if (kEqual ? x[i] == floor : x[i] > floor) break;
  return i;
}

// lane[l] += terms l, l + 16, ... of a block: four lanes at a time, so that they stay in registers.
[[gnu::always_inline]] inline void add_to_lanes(const float* block /* [kBlock] */, double* lane /* [kLanes] */) {
  for (std::size_t l = 0; l < kLanes; l += 4) {
    double a = lane[l], b = lane[l + 1], c = lane[l + 2], d = lane[l + 3];
    for (std::size_t i = l; i < kBlock; i += kLanes) {
      a += static_cast<double>(block[i]);
      b += static_cast<double>(block[i + 1]);
      c += static_cast<double>(block[i + 2]);
      d += static_cast<double>(block[i + 3]);
    }
    lane[l] = a, lane[l + 1] = b, lane[l + 2] = c, lane[l + 3] = d;
  }
}

// The sum of the terms, which are also stored if `terms` is not null.
[[gnu::always_inline]] inline double sum_exp_body(const float* x /* [n] */, std::size_t n, float max, float divisor,
                                                  float* terms /* [n] or null */) {
  double lane[kLanes] = {};
  float block[kBlock];
  for (std::size_t first = 0; first < n; first += kBlock) {
    const std::size_t here = n - first < kBlock ? n - first : kBlock;
    if (here == kBlock) {
      for (std::size_t i = 0; i < kBlock; ++i) block[i] = exact::exp((x[first + i] - max) / divisor);
    } else {
      for (std::size_t i = 0; i < kBlock; ++i) block[i] = i < here ? exact::exp((x[first + i] - max) / divisor) : 0.0f;
    }
    add_to_lanes(block, lane);  // the zeros after the row's end add nothing, not even a rounding
    if (terms != nullptr) std::memcpy(terms + first, block, here * sizeof(float));
  }
  for (std::size_t width = kLanes / 2; width > 0; width /= 2)
    for (std::size_t l = 0; l < width; ++l) lane[l] += lane[l + width];
  return lane[0];
}

// The same bodies compiled a second time for CPUs with AVX2 and FMA: without it, std::fma is a library call on x86-64.
// The bits are the same (tests/sample/strips.cpp); only the time differs.
#if defined(__x86_64__) && defined(__GNUC__)
inline bool has_avx2_fma() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
}
[[gnu::target("avx2,fma")]] inline float max_avx2(const float* x /* [n] */, std::size_t n) { return max_body(x, n); }
template <bool kEqual>
[[gnu::target("avx2,fma")]] inline std::size_t find_avx2(const float* x /* [n] */, std::size_t n, std::size_t from,
                                                         float floor) {
  return find_body<kEqual>(x, n, from, floor);
}
[[gnu::target("avx2,fma")]] inline double sum_exp_avx2(const float* x /* [n] */, std::size_t n, float max,
                                                       float divisor, float* terms /* [n] or null */) {
  return sum_exp_body(x, n, max, divisor, terms);
}
#else
inline bool has_avx2_fma() { return false; }
inline float max_avx2(const float* x /* [n] */, std::size_t n) { return max_body(x, n); }
template <bool kEqual>
std::size_t find_avx2(const float* x /* [n] */, std::size_t n, std::size_t from, float floor) {
  return find_body<kEqual>(x, n, from, floor);
}
inline double sum_exp_avx2(const float* x /* [n] */, std::size_t n, float max, float divisor,
                           float* terms /* [n] or null */) {
  return sum_exp_body(x, n, max, divisor, terms);
}
#endif

}  // namespace detail

/// The maximum of a row; -inf for an empty one. Skips NaNs.
inline float max_of(std::span<const float> row) {
  return detail::has_avx2_fma() ? detail::max_avx2(row.data(), row.size()) : detail::max_body(row.data(), row.size());
}

/// The first index at or after `from` whose value is above `floor`; row.size() if there is none.
inline std::size_t first_above(std::span<const float> row, float floor, std::size_t from = 0) {
  return detail::has_avx2_fma() ? detail::find_avx2<false>(row.data(), row.size(), from, floor)
                                : detail::find_body<false>(row.data(), row.size(), from, floor);
}

/// The first index that holds `value`; row.size() if there is none.
inline std::size_t first_equal(std::span<const float> row, float value) {
  return detail::has_avx2_fma() ? detail::find_avx2<true>(row.data(), row.size(), 0, value)
                                : detail::find_body<true>(row.data(), row.size(), 0, value);
}

/// The lowest id that holds the maximum; -1 if there is none (an empty row, or NaNs only).
inline TokenId argmax(std::span<const float> row) {
  const std::size_t at = first_equal(row, max_of(row));
  return at < row.size() ? static_cast<TokenId>(at) : -1;
}

/// The sum of exp(x - max): terms in float32, added in float64. max: the row's maximum, or any upper bound.
inline double sum_exp(std::span<const float> row, float max) {
  return detail::has_avx2_fma() ? detail::sum_exp_avx2(row.data(), row.size(), max, 1, nullptr)
                                : detail::sum_exp_body(row.data(), row.size(), max, 1, nullptr);
}

/// Likewise of exp((x - max) / temperature), whose terms also go to terms[0 .. row.size() - 1].
inline double exp_terms(std::span<const float> row, float max, float temperature, float* terms /* [row.size()] */) {
  return detail::has_avx2_fma() ? detail::sum_exp_avx2(row.data(), row.size(), max, temperature, terms)
                                : detail::sum_exp_body(row.data(), row.size(), max, temperature, terms);
}

}  // namespace tenon
