// The header of one safetensors file: 8 bytes of length (little-endian), that many bytes of JSON, then the data. All
// values are checked against the size of the file before memory is allocated for them.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/checkpoint/dtype.h"
#include "tenon/io/file.h"

namespace tenon {

class MatrixDecoder;

/// Limits of tenon. The format's own limit is 100 MB for a header. GPT-2 XL has 580 tensors and 70 kB of header.
inline constexpr std::uint64_t kMaxHeaderBytes = 64u << 20;
inline constexpr std::size_t kMaxTensors = 1'000'000;  ///< in one file
inline constexpr std::size_t kMaxMetadata = 100'000;   ///< keys in __metadata__
inline constexpr std::size_t kMaxRank = 64;            ///< as PyTorch

/// How a file stores a tensor, if not in the row-major order of its shape. A GGUF file differs so from the checkpoint
/// that it was made from.
struct StoredOrder {
  bool transposed = false;  ///< stored [cols, rows]
  /// If `c` > 0, the rows form a grid [a, b, c, d], and the file has them as [a, c, b, d].
  std::uint64_t b = 1, c = 0, d = 1;
  float plus = 0;  ///< added to each value that is read

  bool plain() const { return !transposed && c == 0 && plus == 0; }
  /// The row of the file that holds row `row`.
  std::uint64_t row(std::uint64_t row) const;
};

/// A tensor and its place in the files of a checkpoint.
struct TensorInfo {
  std::string name;  ///< unique in a checkpoint
  DType dtype = DType::f32;
  std::vector<std::uint64_t> shape;  ///< empty for a scalar
  /// Bytes [begin, end) from the start of the file. end - begin is the size that shape and dtype need.
  std::uint64_t begin = 0, end = 0;
  int shard = 0;  ///< index of the file
  StoredOrder order = {};
  std::string stored_name = {};  ///< the name in the file, if another
  /// For a tensor of type `quantised`, and only for it. Then end - begin is the size of all its parts, which need not
  /// be adjacent, and begin is 0.
  std::shared_ptr<const MatrixDecoder> decoder = {};
};

/// "[768, 2304]"
std::string shape_text(std::span<const std::uint64_t> shape);

/// __metadata__: string to string.
using Metadata = std::map<std::string, std::string, std::less<>>;

/// The checked header.
struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  ///< in file order
  Metadata metadata;                ///< of this file
};

namespace detail {

[[noreturn]] void refuse_file(const std::string& where, std::string_view what);

// Size of a tensor in bytes. False where it overflows 64 bits or ends within a byte (F4 and F6).
bool byte_count(std::span<const std::uint64_t> shape, DType dtype, std::uint64_t& bytes);

// Reads and checks the header. The offsets of the tensors count from the start of the file.
SafetensorsHeader read_header(const File& file);

}  // namespace detail
}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/safetensors_header-inl.h"
#endif
