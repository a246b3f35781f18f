// A head in any format with an int8 copy. If only the largest logits are needed, the copy bounds which rows they can
// be, and only those rows are read in full. The bits are those of Head<Base>. It reads about a quarter of float32's
// bytes and takes a third of the time with many rows. Memory: one byte more per weight.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/core/finite.h"
#include "tenon/weights/float32.h"
#include "tenon/weights/int8_act8.h"

namespace tenon {

namespace detail {

// The code of Base, if it has one: a checkpoint's codes in that format are packed as they are.
template <class Base>
struct CodeOf {};
template <NamesCode Base>
struct CodeOf<Base> {
  using Code = typename Base::Code;
};

// The numeric class of Base, if it names one: the bits are the same.
template <class Base, class Self>
struct ClassOf {};
template <NamesNumericClass Base, class Self>
struct ClassOf<Base, Self> {
  static constexpr NumericClass<Self> numeric_class{Base::numeric_class.name};
};

}  // namespace detail

/// Weight policy for heads. Base: a format in panels with one code per weight and no scales or one per row. Error
/// unsupported if a row has a range beyond 3.4e38, which int8 cannot hold.
template <class Base>
struct Int8ExactOf : detail::CodeOf<Base>, detail::ClassOf<Base, Int8ExactOf<Base>> {
  using Approximation = ZeroPointInt8Act8;

  struct View : Base::View {
    Int8Approximation copy;
    const Int8Approximation& approximation() const { return copy; }
  };

  static std::size_t bytes(Shape shape) {
    static_assert(
        EncodesBlocks<Base> && HasCodePanels<typename Base::View>,
        "tenon: Int8ExactOf<P> needs a format with one code per weight, and one scale per row or none: Float32, "
        "BFloat16, Float16, Float8 or ZeroPointInt8; see docs/weights.md");
    return Sizes(shape).lengths_end;
  }
  static std::size_t value_bytes(Shape shape) { return Base::bytes(shape); }

  static void encode(Shape shape, int first_row, std::span<const float> rows, std::span<std::byte> packed) {
    Base::encode(shape, first_row, rows, packed.first(Base::bytes(shape)));
    add_copy(shape, first_row, static_cast<int>(rows.size() / static_cast<std::size_t>(shape.cols)), packed);
  }

  static void pack(Shape shape, int first_row, const CodeBlock& block,
                   std::span<std::byte> packed) requires PacksBlocks<Base> {
    Base::pack(shape, first_row, block, packed.first(Base::bytes(shape)));
    add_copy(shape, first_row, block.rows, packed);
  }

  static View view(Shape shape, std::span<const std::byte> stored) {
    const Sizes ends(shape);
    return {{Base::view(shape, stored.first(Base::bytes(shape)))},
            {Approximation::view(shape, stored.subspan(ends.base_end, Approximation::bytes(shape))).packed,
             reinterpret_cast<const float*>(stored.data() + ends.approximation_end),
             reinterpret_cast<const float*>(stored.data() + ends.errors_end)}};
  }

 private:
  // Makes the int8 copy of `count` rows that Base has packed.
  static void add_copy(Shape shape, int first_row, int count, std::span<std::byte> packed) {
    const Sizes ends(shape);
    const auto base = Base::view(shape, packed.first(Base::bytes(shape)));
    std::vector<float> values;  // [count, cols]
    values.reserve(static_cast<std::size_t>(count) * static_cast<std::size_t>(shape.cols));
    for (int r = 0; r < count; ++r) {
      for (int k = 0; k < shape.cols; ++k) values.push_back(base.at(first_row + r, k));
    }
    CodeBlock block;
    Approximation::Code::encode(shape.cols, values, {}, block);
    Approximation::pack(shape, first_row, block, packed.subspan(ends.base_end, Approximation::bytes(shape)));
    auto* errors = reinterpret_cast<float*>(packed.data() + ends.approximation_end);
    auto* lengths = reinterpret_cast<float*>(packed.data() + ends.errors_end);
    for (int r = 0; r < count; ++r) {
      const float* row = values.data() + static_cast<std::ptrdiff_t>(r) * shape.cols;
      errors[first_row + r] = error_of(row, block, r, largest_term(base.panels(), first_row + r));
      lengths[first_row + r] = length_of(block, r);
    }
  }

  // Sections: Base, int8, errors, lengths.
  struct Sizes {
    std::size_t base_end, approximation_end, errors_end, lengths_end;
    explicit Sizes(Shape s) {
      const std::size_t floats = whole_lines(panel_count(s.rows) * kPanelRows * sizeof(float));
      base_end = whole_lines(Base::bytes(s));
      approximation_end = base_end + whole_lines(Approximation::bytes(s));
      errors_end = approximation_end + floats;
      lengths_end = errors_end + floats;
    }
  };

  // Base sums codes and subtracts zero points afterwards, so its terms may be larger than its weights. Returns their
  // bound per |x|: (128 + |zero point|) * scale, or 0 without zero points.
  template <class Panels>
  static double largest_term(const Panels& panels, int row) {
    if constexpr (requires { panels.zero_points; }) {
      if (panels.zero_points) {
        const std::ptrdiff_t i = panels.scale_at(row);
        return (128.0 + std::fabs(static_cast<double>(panels.zero_points[i]))) * static_cast<double>(panels.scales[i]);
      }
    }
    return 0;
  }

  // Bounds |exact sum - int8 sum| / sum of |x|: the largest difference of a weight from its int8 value, plus rounding
  // errors. Infinity if a weight is NaN.
  //
  // A rounding is at most 2^-24 of a partial sum. In any order a partial sum is at most `weight` times the sum of |x|,
  // where `weight` = 256 scale + that difference + term. Two chains of `cols` fused multiply-adds round: over weights,
  // and over codes and zero points. Sums of integers are exact. Each block of columns adds a few operations for each of
  // at most two roundings of x, which at most double |x|. Together that is at most 2 cols + 64 roundings.
  static float error_of(const float* row /* [cols] */, const CodeBlock& block, int r, double term) {
    float furthest = 0;
    for (int k = 0; k < block.cols; ++k) {
      const float off = std::fabs(row[k] - Approximation::Code::value(block, r, k));
      if (!(off <= std::numeric_limits<float>::max())) return std::numeric_limits<float>::infinity();
      furthest = std::max(furthest, off);
    }
    const double weight =
        256.0 * static_cast<double>(block.scales[static_cast<std::size_t>(r)]) + static_cast<double>(furthest) + term;
    const double roundings = (2.0 * block.cols + 64.0) * 0x1p-24 * weight;
    return float_above(static_cast<double>(furthest) + roundings);
  }

  static float length_of(const CodeBlock& block, int r) {
    double squares = 0;
    for (int k = 0; k < block.cols; ++k) {
      const auto value = static_cast<double>(Approximation::Code::value(block, r, k));
      squares += value * value;
    }
    return float_above(std::sqrt(squares));
  }
};

using Int8Exact = Int8ExactOf<Float32>;
static_assert(WeightPolicy<Int8Exact> && HasInt8Approximation<Int8Exact::View>);

}  // namespace tenon
