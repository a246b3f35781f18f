// Writes a safetensors file in pieces. Only the sizes of the tensors are needed in advance, so a model never has to
// fit in memory.
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
  std::vector<std::uint64_t> shape;
};

/// Writes the header first, then bytes of any tensor, in any order, from any thread. The file gets its name in
/// finish().
class SafetensorsWriter {
 public:
  /// Lays out the tensors and writes the header. Errors: io; invalid_request if a name appears twice, a size is
  /// no whole number of bytes, or the header exceeds kMaxHeaderBytes.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorPlan> plans, const Metadata& metadata);

  /// Writes bytes of the tensor at byte `offset`. Error internal if the tensor is unknown or the range lies outside
  /// it.
  void write(std::string_view name, std::uint64_t offset, std::span<const std::byte> bytes);

  /// Publishes the file under its name. Error internal if the number of bytes written to a tensor is not its size.
  void finish() { take_file().publish(); }

  /// The complete file, not yet published, so that it can be published with others. Ends the writing. Errors as for
  /// finish.
  NewFile take_file();

  std::uint64_t data_bytes() const { return data_bytes_; }  ///< size of the data, all tensors together

 private:
  static bool by_name(const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; }

  // Tensors are contiguous, as the format requires, with the widest types first. Each is then aligned to its element
  // size.
  void lay_out(std::vector<TensorPlan> plans);

  // Padded with spaces so that the data start at a multiple of 8.
  std::string header_text(const Metadata& metadata) const;

  [[noreturn]] void refuse(std::string_view name, std::string_view what) const;

  NewFile file_;
  std::vector<TensorInfo> tensors_;  // sorted by name; offsets count from the start of the data
  std::uint64_t data_begin_ = 0, data_bytes_ = 0;
  std::vector<std::atomic<std::uint64_t>> written_;  // bytes written to each of tensors_
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/safetensors_writer-inl.h"
#endif
