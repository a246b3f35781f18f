// The header of one safetensors file: 8 bytes of length (little-endian), that many bytes of JSON, then the data.
// Everything in it is checked against the size of the file before anything is allocated from it.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/checkpoint/dtype.h"
#include "tenon/io/file.h"

namespace tenon {

// Limits of ours; the format's own is 100 MB for a header. GPT-2 XL has 580 tensors in 70 kB of header.
inline constexpr std::uint64_t kMaxHeaderBytes = 64u << 20;
inline constexpr std::size_t kMaxTensors = 1'000'000;
inline constexpr std::size_t kMaxMetadata = 100'000;
inline constexpr std::size_t kMaxRank = 64;  // PyTorch's own

struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::uint64_t> shape;  // empty for a scalar
  std::uint64_t begin = 0, end = 0;  // bytes, from the start of the file; end - begin is what shape and dtype need
  int shard = 0;                     // which file of the checkpoint
};

// "[768, 2304]"
std::string shape_text(std::span<const std::uint64_t> shape);

using Metadata = std::map<std::string, std::string, std::less<>>;

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // in the order of their data
  Metadata metadata;                // __metadata__
};

namespace detail {

[[noreturn]] void refuse_file(const std::string& where, std::string_view what);

// Bytes of a tensor; false where they do not fit 64 bits or end within a byte (F4 and F6).
bool byte_count(std::span<const std::uint64_t> shape, DType dtype, std::uint64_t& bytes);

// Offsets of its tensors count from the start of the file.
SafetensorsHeader read_header(const File& file);

}  // namespace detail
}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/safetensors_header-inl.h"
#endif
