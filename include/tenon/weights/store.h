// Packed matrices in one block of device memory, filled block by block of rows: a dense matrix never exists.
#pragma once
#include <cstddef>
#include <span>
#include <string_view>

#include "tenon/core/concepts.h"
#include "tenon/core/error.h"
#include "tenon/weights/codes.h"
#include "tenon/weights/row_blocks.h"

namespace tenon {

template <WeightPolicy P, DevicePolicy D>
class WeightStore {
 public:
  using View = typename P::View;

  WeightStore() = default;
  // Room for exactly these matrices, in the order in which `add` will be called.
  WeightStore(D& device, std::span<const Shape> shapes) {
    std::size_t bytes = 0;
    for (const Shape& shape : shapes) bytes += whole_lines(P::bytes(shape));
    memory_ = device.allocate(bytes);
  }

  // read(first_row, rows, out) writes rows of the matrix as float32 [rows, cols]; it may be called from several
  // threads. `where` names the matrix in what P refuses.
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

  // read(first_row, rows, block) makes a block of rows as files hold them: nothing is encoded again.
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

  std::size_t bytes() const { return used_; }
  // As the host sees them.
  auto contents() const { return memory_.contents(used_); }

 private:
  // Memory for the next matrix.
  std::span<std::byte> next(Shape shape) {
    const std::size_t bytes = P::bytes(shape);
    if (memory_.bytes() - used_ < bytes) throw Error(Error::Kind::internal, "weights", "more matrices than announced");
    const std::span<std::byte> packed{memory_.data() + used_, bytes};
    used_ += whole_lines(bytes);
    return packed;
  }

  typename D::Memory memory_;
  std::size_t used_ = 0;
};

}  // namespace tenon
