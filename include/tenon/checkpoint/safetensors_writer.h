// Writes a safetensors file whose tensors are known by size before any of them is at hand: a model never stands in
// memory.
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

// A tensor to be written.
struct TensorPlan {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::uint64_t> shape;
};

// The header is written first; then bytes of any tensor, in any order, from any thread. The file appears under its name
// when `finish` finds it whole.
class SafetensorsWriter {
 public:
  // Error invalid_request where a name comes twice, or no reader would take the header.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorPlan> plans, const Metadata& metadata);

  // Bytes of the tensor from `offset` on.
  void write(std::string_view name, std::uint64_t offset, std::span<const std::byte> bytes);

  // Error internal where a tensor did not get as many bytes as it has.
  void finish() { take_file().publish(); }

  // The file that finish would publish, for whoever publishes it with others. Nothing more can be written.
  NewFile take_file();

  std::uint64_t data_bytes() const { return data_bytes_; }  // of all tensors

 private:
  static bool by_name(const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; }

  // Behind one another, as the format wants it, the widest types first: then each begins at a multiple of its element.
  void lay_out(std::vector<TensorPlan> plans);

  // Padded by spaces, so that the data begin at a multiple of 8.
  std::string header_text(const Metadata& metadata) const;

  [[noreturn]] void refuse(std::string_view name, std::string_view what) const;

  NewFile file_;
  std::vector<TensorInfo> tensors_;  // sorted by name; begin and end count from the first byte of the data
  std::uint64_t data_begin_ = 0, data_bytes_ = 0;
  std::vector<std::atomic<std::uint64_t>> written_;  // bytes of each of tensors_
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/safetensors_writer-inl.h"
#endif
