// The header of one GGUF file (versions 2 and 3, little-endian): metadata, then the list of tensors. All sizes are
// checked against the size of the file before memory is allocated for them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tenon/checkpoint/safetensors_header.h"
#include "tenon/io/file.h"
#include "tenon/io/json_fwd.h"

namespace tenon {

/// Values in the metadata, elements of lists included. Gemma 3's tokenizer has 1.3 million.
inline constexpr std::uint64_t kMaxGgufValues = 4'000'000;

/// An entry of the metadata and its bytes [begin, end) in the file.
struct GgufEntry {
  std::string key;
  std::uint64_t begin = 0, end = 0;
};

/// The checked header of a GGUF file.
struct GgufHeader {
  int version = 0;
  /// An object: key to number, boolean, string, or a list of one of these. Keys are sorted.
  std::shared_ptr<const Json> metadata;
  std::vector<GgufEntry> entries;  ///< of the metadata, in file order
  /// In file order. Shapes have rows first, as in safetensors; the file has the fastest dimension first.
  std::vector<TensorInfo> tensors;
};

/// Whether the file begins with the magic of GGUF.
bool is_gguf(const File& file);

/// Reads and checks the header. The offsets of the tensors count from the start of the file. Strings are not checked
/// to be UTF-8. Errors: invalid_file if the file breaks the format; unsupported for another version, a big-endian
/// file, nested lists, or a type of tensors that is not read.
GgufHeader read_gguf_header(const File& file);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/gguf-inl.h"
#endif
