// Tensors in a file of torch.save: pytorch_model.bin, adapter_model.bin. Two layouts are read: the zip archive of
// torch 1.6 and later, and the older one of five pickles with the data after them. The pickles are read as data
// (pickle.h); no code in them runs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tenon/checkpoint/dtype.h"
#include "tenon/io/file.h"

namespace tenon {

/// A tensor and its place in the file.
struct TorchTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::uint64_t> shape, strides;  ///< strides in elements, one for each dimension
  std::uint64_t begin = 0;                    ///< byte of its first element, from the start of the file

  std::uint64_t elements() const;
  std::uint64_t bytes() const;
  bool contiguous() const;  ///< in the row-major order of its shape, without gaps
};

/// The tensors of a dict of tensors, in its order. Each lies within the file, and its elements are no more than its
/// storage has. Errors: invalid_file if the file breaks the format; unsupported if it holds anything but tensors (it
/// names what), or is of a machine with another byte order.
std::vector<TorchTensor> read_torch_file(const File& file);

/// Gets bytes of a tensor, starting at byte `offset`.
using TorchPiece = std::function<void(std::uint64_t offset, std::span<const std::byte> bytes)>;

/// Reads the tensor in the row-major order of its shape, in pieces of 1 MiB. Memory: a piece, and of a tensor that is
/// not contiguous also what it spans, which is at most four times its size: one that spans more is read element by
/// element, 0.6 us each. Error io as for File::read_at.
void read_torch_tensor(const File& file, const TorchTensor& tensor, const TorchPiece& piece);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/torch_file-inl.h"
#endif
