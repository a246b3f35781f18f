// Weights of ZeroPointInt8, and activations rounded to int8 with one scale per token. Products and sums are exact in
// integers, and processors have instructions for them. The files are those of ZeroPointInt8.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tenon/core/error.h"
#include "tenon/weights/int8.h"

namespace tenon {

/// Weight policy: int8 weights and int8 activations.
struct ZeroPointInt8Act8 {
  static constexpr NumericClass<ZeroPointInt8Act8> numeric_class{"int8_act8"};

  using Code = Int8Code<PerRow>;

  struct View {
    Int8Quads packed;

    const Int8Quads& panels() const { return packed; }
    TENON_HD float at(int row, int col) const {
      const std::ptrdiff_t panel = row / kPanelRows, lane = row % kPanelRows;
      const int code = packed.codes[((panel * packed.quads() + col / 4) * kPanelRows + lane) * 4 + col % 4];
      return static_cast<float>(code - packed.zero_points[row]) * packed.scales[row];
    }
  };

  static std::size_t bytes(Shape shape) { return Sizes(shape).zero_points_end; }

  static void encode(Shape shape, int first_row, std::span<const float> rows, std::span<std::byte> packed) {
    encode_and_pack<ZeroPointInt8Act8>(shape, first_row, rows, packed);
  }

  static void pack(Shape shape, int first_row, const CodeBlock& block, std::span<std::byte> packed) {
    const Int8Quads view = ZeroPointInt8Act8::view(shape, packed).packed;
    auto* codes = const_cast<std::uint8_t*>(view.codes);
    auto* scales = const_cast<float*>(view.scales);
    auto* zero_points = const_cast<std::int32_t*>(view.zero_points);
    const std::byte* in = block.codes.data();
    for (int r = 0; r < block.rows; ++r) {
      const std::ptrdiff_t panel = (first_row + r) / kPanelRows, lane = (first_row + r) % kPanelRows;
      std::uint8_t* out = codes + (panel * view.quads() * kPanelRows + lane) * 4;
      for (int col = 0; col < shape.cols; ++col)
        out[col / 4 * kPanelRows * 4 + col % 4] = static_cast<std::uint8_t>(*in++);
      scales[first_row + r] = block.scales[static_cast<std::size_t>(r)];
      zero_points[first_row + r] = whole(block.zero_points[static_cast<std::size_t>(r)]);
    }
  }

  static View view(Shape shape, std::span<const std::byte> stored) {
    const Sizes ends(shape);
    return {{reinterpret_cast<const std::uint8_t*>(stored.data()),
             reinterpret_cast<const float*>(stored.data() + ends.codes_end),
             reinterpret_cast<const std::int32_t*>(stored.data() + ends.scales_end), shape.rows, shape.cols}};
  }

 private:
  // Ends of the sections in bytes: codes, scales, zero points.
  struct Sizes {
    std::size_t codes_end, scales_end, zero_points_end;
    explicit Sizes(Shape s) {
      const std::size_t lanes = panel_count(s.rows) * kPanelRows;
      codes_end = whole_lines(lanes * ((static_cast<std::size_t>(s.cols) + 3) / 4) * 4);
      scales_end = codes_end + whole_lines(lanes * sizeof(float));
      zero_points_end = scales_end + whole_lines(lanes * sizeof(std::int32_t));
    }
  };

  // encode() makes integer zero points. Files of other programs may have fractions, which integer sums cannot use.
  static std::int32_t whole(float zero_point) {
    if (!(zero_point >= 0 && zero_point <= 255 && std::nearbyint(zero_point) == zero_point)) {
      throw Error(Error::Kind::unsupported, "weights",
                  "have a zero point that is not an integer from 0 to 255, as int8_act8 needs; use int8");
    }
    return static_cast<std::int32_t>(zero_point);
  }
};
static_assert(WeightPolicy<ZeroPointInt8Act8> && HasPanels<ZeroPointInt8Act8::View>);

}  // namespace tenon
