// Weight policies for tensor cores: the matrix is stored in the order of their operands, one 16-bit float per weight,
// and activations are rounded to the same element. The sums are in an order that only this hardware has, which makes a
// numeric class of its own (docs/numerics.md). A CPU refuses these policies at compile time.
#pragma once
#include <cstddef>
#include <span>

#include "tenon/core/concepts.h"
#include "tenon/core/operand_tiles.h"
#include "tenon/weights/code.h"

namespace tenon {

/// `C` is the code; C::element(const std::byte*) converts a code of a file to an Element.
template <class C, class Element>
struct OperandWeights {
  using Code = C;

  struct View {
    static constexpr bool on_tensor_cores = true;
    using Operand = OperandTiles<Element>;  ///< type of the activations

    OperandTiles<const Element> packed;  ///< zeros after the last row

    const OperandTiles<const Element>& tiles() const { return packed; }
    TENON_HD float at(int row, int col) const { return static_cast<float>(packed.data[packed.at(row, col)]); }
  };

  static std::size_t bytes(Shape shape) {
    return whole_lines(OperandTiles<Element>::elements(shape.rows, shape.cols) * sizeof(Element));
  }

  // rows: [n, cols]
  static void encode(Shape shape, int first_row, std::span<const float> rows, std::span<std::byte> packed) {
    encode_and_pack<OperandWeights>(shape, first_row, rows, packed);
  }

  static void pack(Shape shape, int first_row, const CodeBlock& block, std::span<std::byte> packed) {
    const OperandTiles<Element> out{reinterpret_cast<Element*>(packed.data()), shape.rows, shape.cols};
    const std::byte* in = block.codes.data();  // [rows, cols]
    for (int r = 0; r < block.rows; ++r) {
      for (int col = 0; col < shape.cols; ++col, in += sizeof(Element))
        out.data[out.at(first_row + r, col)] = Code::element(in);
    }
  }

  static View view(Shape shape, std::span<const std::byte> stored) {
    return {{reinterpret_cast<const Element*>(stored.data()), shape.rows, shape.cols}};
  }
};

}  // namespace tenon
