// Writes a GGUF file, version 3, in pieces.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/checkpoint/gguf.h"
#include "tenon/checkpoint/tensor_file_writer.h"
#include "tenon/io/json_fwd.h"

namespace tenon {

/// The metadata of a new GGUF file, in the types that the converter of llama.cpp writes. A whole number is u32, or i32
/// if it is negative or in a list. Another number is f32.
class GgufMetadata {
 public:
  /// Appends an entry. value: a boolean, number, string, or a list of one of these. Error internal for another value,
  /// and for a whole number that does not fit.
  void add(std::string_view key, const Json& value);
  /// Appends an entry in its bytes, as a GGUF file has it.
  void add_bytes(std::span<const std::byte> entry);

  std::uint64_t entries() const { return entries_; }   ///< number of entries
  const std::string& bytes() const { return bytes_; }  ///< all entries, as the file has them

 private:
  std::string bytes_;
  std::uint64_t entries_ = 0;
};

/// Writes the header first, then bytes of any tensor, in any order, from any thread. The file gets its name in
/// finish().
class GgufWriter : public TensorFileWriter {
 public:
  /// Lays out the tensors, in this order and aligned to 32 bytes, and writes the header. Types: those of GGUF that are
  /// read. Errors: io; invalid_request if a name comes twice or a row is no whole number of blocks.
  GgufWriter(const std::filesystem::path& path, const std::vector<TensorPlan>& plans, const GgufMetadata& metadata);
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/gguf_writer-inl.h"
#endif
