// Writes the tensors of a file in pieces. The file gets its name when all of them are complete.
#pragma once
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/checkpoint/dtype.h"
#include "tenon/checkpoint/safetensors_header.h"
#include "tenon/io/new_file.h"

namespace tenon {

/// Name, type and shape of a tensor to be written.
struct TensorPlan {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::uint64_t> shape;  ///< rows first
};

/// Writes bytes of any tensor, in any order, from any thread. A format's class lays out the tensors and writes the
/// header first.
class TensorFileWriter {
 public:
  /// Writes bytes of the tensor at byte `offset`. Error internal if the tensor is unknown or the range lies outside
  /// it.
  void write(std::string_view name, std::uint64_t offset, std::span<const std::byte> bytes);

  /// Publishes the file under its name. Error internal if the number of bytes written to a tensor is not its size.
  void finish() { take_file().publish(); }

  /// The complete file, not yet published, so that it can be published with others. Ends the writing. Errors as for
  /// finish.
  NewFile take_file();

  std::uint64_t data_bytes() const { return data_bytes_; }  ///< size of the data, all tensors together

 protected:
  TensorFileWriter(const std::filesystem::path& path, std::size_t tensors) : file_(path), written_(tensors) {}

  // Sets the tensors, whose offsets count from the start of the data. Error invalid_request if a name comes twice.
  void place(std::vector<TensorInfo> tensors);

  // Writes the header and the bytes between tensors.
  void write_header(std::string_view header, std::uint64_t data_begin);
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) const { file_.write_at(offset, bytes); }

  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  [[noreturn]] void refuse(std::string_view name, std::string_view what) const;

 private:
  NewFile file_;
  std::vector<TensorInfo> tensors_;  // sorted by name
  std::uint64_t data_begin_ = 0, data_bytes_ = 0;
  std::vector<std::atomic<std::uint64_t>> written_;  // bytes written to each of tensors_
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/tensor_file_writer-inl.h"
#endif
