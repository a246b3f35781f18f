// The code of four-bit weights, (q - 8) * scale, with one scale per group of columns in a row. A search chooses the
// scale with the smallest squared error of the group.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "tenon/core/error.h"
#include "tenon/core/float16.h"
#include "tenon/weights/code.h"

namespace tenon {

namespace detail {

// The columns of a group, padded with zeros.
struct Int4Group {
  static constexpr float kTooLarge = 65520.0f;        // overflows a float16
  static constexpr float kLargest = 8.0f * 65504.0f;  // largest value: the code -8 times the largest scale
  static constexpr int kLanes = 16;                   // sums run in strips of this width, which compilers vectorise
  std::array<float, 128> values{};
  int padded = 0;  // a multiple of kLanes

  explicit Int4Group(std::span<const float> row)
      : padded(static_cast<int>((row.size() + kLanes - 1) / kLanes) * kLanes) {
    std::copy(row.begin(), row.end(), values.begin());
  }

  // -8 .. 7, to nearest, ties to even. Adding 1.5 * 2^23 rounds to an integer.
  static float code(float value, float inverse) {
    const float x = value * inverse;
    const float inside = x < -8.0f ? -8.0f : x > 7.0f ? 7.0f : x;
    return (inside + 12582912.0f) - 12582912.0f;
  }

  // The least-squares scale for the codes that `scale` gives: sum(v c) / sum(c^2). `explained` is by how much it lowers
  // the sum of squared errors: (sum v c)^2 / sum(c^2).
  struct Fit {
    float scale = 0;
    double explained = 0;
  };
  Fit fit(float scale) const {
    const float inverse = 1.0f / scale;
    // The product of a value and a code is exact in double, so that contraction by a compiler changes no sum.
    std::array<double, kLanes> products{};
    std::array<float, kLanes> squares{};
    for (int begin = 0; begin < padded; begin += kLanes) {
      for (int i = 0; i < kLanes; ++i) {
        const float v = values[static_cast<std::size_t>(begin + i)], c = code(v, inverse);
        products[static_cast<std::size_t>(i)] += static_cast<double>(v) * static_cast<double>(c);
        squares[static_cast<std::size_t>(i)] += c * c;
      }
    }
    double product = 0, square = 0;
    for (const double p : products) product += p;
    for (const float s : squares) square += static_cast<double>(s);
    if (square == 0) return {};
    return {static_cast<float>(product / square), product / square * product};
  }

  // The candidates put the value of largest magnitude at -6 to -11 or at 6 to 11 times the scale. That is within the
  // codes' range or up to a third beyond it; clipping pays if one value stands out. Infinity if a value is too large.
  float best_scale() const {
    float extreme = 0;
    for (const float v : values) extreme = std::fabs(v) > std::fabs(extreme) ? v : extreme;
    if (extreme == 0) return 0;
    if (std::fabs(extreme) > kLargest) return std::numeric_limits<float>::infinity();
    Fit best;
    for (float reach = 6.0f; reach <= 11.0f; reach += 0.5f) {
      for (const float end : {-reach, reach}) {
        const float scale = extreme / end;
        if (!std::isnormal(scale)) continue;
        const Fit found = fit(scale);
        if (found.explained > best.explained && std::fabs(found.scale) < kTooLarge) best = found;
      }
    }
    if (std::isnormal(best.scale)) {  // refine once with the codes of that scale
      const Fit again = fit(best.scale);
      if (again.explained > best.explained && std::fabs(again.scale) < kTooLarge) best = again;
    }
    return best.scale;
  }
};

}  // namespace detail

/// The code of int4 weights. Group: 32, 64 or 128 columns.
template <int Group>
struct Int4Code {
  static_assert(Group == 32 || Group == 64 || Group == 128,
                "tenon: groups of GroupInt4 have 32, 64 or 128 columns; see docs/policies.md#weights");
  static constexpr std::string_view name = Group == 32 ? "int4" : Group == 64 ? "int4_group64" : "int4_group128";
  static constexpr DType dtype = DType::u8, scale_dtype = DType::f16;
  static constexpr int bits = 4, group = Group;
  static constexpr bool has_scales = true, has_zero_points = false, per_tensor = false;

  static void encode(int cols, std::span<const float> rows, const ValueRange&, CodeBlock& out) {
    encode_groups<Int4Code>(cols, rows, out, encode_group);
  }

  /// The code 0 .. 15 of weight i of a block, counted row by row.
  static int code(const CodeBlock& block, std::size_t i) { return four_bits(block, i); }
  TENON_HD static float decoded(int code, float scale) { return static_cast<float>(code - 8) * scale; }

  static float value(const CodeBlock& block, int row, int col) { return group_value<Int4Code>(block, row, col); }

 private:
  // `first`: index of the group's first weight in the block. Returns the scale, a float16.
  static float encode_group(std::span<const float> values, std::size_t first, std::byte* codes) {
    const auto scale = static_cast<float>(float16(detail::Int4Group(values).best_scale()));
    if (!std::isfinite(scale)) {
      throw Error(Error::Kind::unsupported, "weights",
                  "holds a value beyond 524,032, which int4 cannot hold; use another format");
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float c = scale == 0 ? 0.0f : detail::Int4Group::code(values[i], 1.0f / scale);
      codes[(first + i) / 2] |= static_cast<std::byte>(static_cast<int>(c) + 8) << ((first + i) % 2 * 4);
    }
    return scale;
  }
};

}  // namespace tenon
