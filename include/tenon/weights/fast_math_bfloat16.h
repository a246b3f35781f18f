// BFloat16 weights and activations for cuBLASLt (ops/cuda/linear_cublas.cuh), which chooses the order of a sum by the
// shape of the step. This is the only format that breaks the promise: an answer depends on the other requests in its
// batch. It exists to measure the price of the promise. A CPU refuses it at compile time.
#pragma once
#include <cstddef>
#include <cstring>
#include <span>

#include "tenon/core/concepts.h"
#include "tenon/core/panels.h"
#include "tenon/weights/bfloat16.h"

namespace tenon {

/// Weight policy: bfloat16 weights, row by row, for cuBLASLt.
struct FastMathBFloat16 {
  static constexpr NumericClass<FastMathBFloat16> numeric_class{"fast_math_bfloat16"};

  using View = BFloat16Rows;

  static std::size_t bytes(Shape shape) {
    const View view{nullptr, shape.rows, shape.cols};
    return whole_lines(static_cast<std::size_t>(shape.rows) * static_cast<std::size_t>(view.stride()) *
                       sizeof(bfloat16));
  }
  static void encode(Shape shape, int first_row, std::span<const float> rows, std::span<std::byte> packed) {
    const View view = FastMathBFloat16::view(shape, packed);
    CodeBlock block;
    BFloat16Code::encode(shape.cols, rows, {}, block);  // refuses values that overflow
    const std::size_t row_bytes = static_cast<std::size_t>(shape.cols) * sizeof(bfloat16);
    for (int r = 0; r < block.rows; ++r) {
      auto* to = const_cast<bfloat16*>(view.codes) + std::ptrdiff_t{first_row + r} * view.stride();
      std::memcpy(to, block.codes.data() + static_cast<std::size_t>(r) * row_bytes, row_bytes);
    }
  }
  static View view(Shape shape, std::span<const std::byte> stored) {
    return {reinterpret_cast<const bfloat16*>(stored.data()), shape.rows, shape.cols};
  }
};
static_assert(WeightPolicy<FastMathBFloat16> && !HasPanels<FastMathBFloat16::View>);

}  // namespace tenon
