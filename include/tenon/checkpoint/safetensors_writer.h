// Writes a safetensors file in pieces. Only the sizes of the tensors are needed in advance, so a model never has to
// fit in memory.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "tenon/checkpoint/tensor_file_writer.h"

namespace tenon {

/// Writes the header first, then bytes of any tensor, in any order, from any thread. The file gets its name in
/// finish().
class SafetensorsWriter : public TensorFileWriter {
 public:
  /// Lays out the tensors and writes the header. Errors: io; invalid_request if a name appears twice, a size is
  /// no whole number of bytes, or the header exceeds kMaxHeaderBytes.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorPlan> plans, const Metadata& metadata);

 private:
  // Tensors are contiguous, as the format requires, with the widest types first. Each is then aligned to its element
  // size.
  std::vector<TensorInfo> laid_out(std::vector<TensorPlan> plans) const;

  // Padded with spaces so that the data start at a multiple of 8.
  std::string header_text(const std::vector<TensorInfo>& tensors, const Metadata& metadata) const;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/safetensors_writer-inl.h"
#endif
