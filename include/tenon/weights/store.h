// Packs the matrices of a model into one block of device memory, a block of rows at a time. So no whole matrix is ever
// held in float32.
#pragma once
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/core/error.h"
#include "tenon/weights/codes.h"
#include "tenon/weights/row_blocks.h"

namespace tenon {

/// The packed matrices of format P on a device. It owns their memory; views stay valid for its life, also after moves.
template <WeightPolicy P, DevicePolicy D>
class WeightStore {
 public:
  using View = typename P::View;

  WeightStore() = default;
  /// Allocates memory for exactly these matrices. Add them in the same order. Errors: those of D::allocate.
  WeightStore(D& device, std::span<const Shape> shapes) {
    std::size_t bytes = 0;
    for (const Shape& shape : shapes) bytes += whole_lines(P::bytes(shape));
    memory_ = device.allocate(bytes);
  }

  /// Encodes and packs the next matrix. read(first_row, rows, out) writes rows as float32 [rows, cols]. Several threads
  /// call it at once, twice for each block if P needs the range of the whole matrix. `where` names the matrix in
  /// errors. Errors: those of `read` and P; internal, if the constructor was given fewer matrices.
  template <class Read>
  View add(D& device, Shape shape, Read&& read, std::string_view where = "weights") {
    const std::span<std::byte> matrix = next(shape);
    ValueRange range;
    if constexpr (EncodesWithRange<P>) range = range_of(device.pool(), shape, read);
    device.fill(matrix, [&](std::span<std::byte> packed) {
      for_float_blocks(device.pool(), shape, read, [&](int first, std::span<const float> rows) {
        encode_named(where, [&] {
          if constexpr (EncodesWithRange<P>)
            P::encode(shape, first, rows, packed, range);
          else
            P::encode(shape, first, rows, packed);
        });
      });
    });
    return P::view(shape, matrix);
  }

  /// Packs the next matrix from codes, without encoding. read(first_row, rows, block) fills a block of rows as files
  /// store them. Several threads call it at once. Errors: those of `read` and P; internal, as for `add`.
  template <class Read>
  View add_codes(D& device, Shape shape, Read&& read) requires PacksCodes<P> {
    const std::span<std::byte> matrix = next(shape);
    device.fill(matrix, [&](std::span<std::byte> packed) {
      for_row_blocks(device.pool(), shape, [&](int first, int count) {
        CodeBlock block;
        read(first, count, block);
        P::pack(shape, first, block, packed);
      });
    });
    return P::view(shape, matrix);
  }

  /// Bytes of the matrices added so far, with the padding between them.
  std::size_t bytes() const { return used_; }
  /// The first bytes() bytes of the memory: a view on the CPU, a copy in host memory on a GPU.
  auto contents() const { return memory_.contents(used_); }

  /// Bytes of contents() that decide results.
  struct Values {
    std::size_t begin, bytes;
  };
  /// One entry for each matrix added so far, in their order.
  std::span<const Values> values() const { return values_; }

 private:
  // Memory for the next matrix.
  std::span<std::byte> next(Shape shape) {
    const std::size_t bytes = P::bytes(shape);
    if (memory_.bytes() - used_ < bytes) throw Error(Error::Kind::internal, "weights", "more matrices than announced");
    const std::span<std::byte> packed{memory_.data() + used_, bytes};
    if constexpr (MarksValues<P>)
      values_.push_back({used_, P::value_bytes(shape)});
    else
      values_.push_back({used_, bytes});
    used_ += whole_lines(bytes);
    return packed;
  }

  typename D::Memory memory_;
  std::size_t used_ = 0;
  std::vector<Values> values_;
};

}  // namespace tenon
