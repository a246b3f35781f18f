// Packed matrices in one block of device memory, filled block by block of rows: a dense matrix never exists.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/core/error.h"

namespace tenon {

template <WeightPolicy P, DevicePolicy D>
class WeightStore {
 public:
  using View = typename P::View;

  WeightStore() = default;
  // Room for exactly these matrices, in the order in which `add` will be called.
  WeightStore(D& device, std::span<const Shape> shapes) {
    std::size_t bytes = 0;
    for (const Shape& shape : shapes) bytes += aligned(P::bytes(shape));
    memory_ = device.allocate(bytes);
  }

  // read(first_row, rows, out) writes rows of the matrix as float32 [rows, cols]; it may be called from several threads.
  template <class Pool, class Read>
  View add(Pool& pool, Shape shape, Read&& read) {
    const std::size_t bytes = P::bytes(shape);
    if (memory_.bytes() - used_ < bytes) throw Error(Error::Kind::internal, "weights", "more matrices than announced");
    const std::span<std::byte> packed{memory_.data() + used_, bytes};
    used_ += aligned(bytes);
    const int block = rows_per_block(shape, pool.threads()), blocks = (shape.rows + block - 1) / block;
    pool.share(blocks, 1, [&](int begin, int end) {
      std::vector<float> rows;
      for (int b = begin; b < end; ++b) {
        const int first = b * block, count = std::min(block, shape.rows - first);
        rows.resize(static_cast<std::size_t>(count) * static_cast<std::size_t>(shape.cols));
        read(first, count, rows.data());
        P::encode(shape, first, rows, packed);
      }
    });
    return P::view(shape, packed);
  }

  std::size_t bytes() const { return used_; }
  std::span<const std::byte> contents() const { return {memory_.data(), used_}; }

 private:
  // In whole panels of 16 rows, about 8 MiB of float32 in all threads together: loading needs little beside the weights.
  static int rows_per_block(Shape shape, int threads) {
    const int rows = (2 << 20) / std::max(shape.cols, 1) / threads;
    return std::max(16, rows / 16 * 16);
  }
  static std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

  typename D::Memory memory_;
  std::size_t used_ = 0;
};

}  // namespace tenon
