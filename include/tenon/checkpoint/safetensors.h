// Checkpoints in safetensors: one file, or shards with an index. Weights are read by rectangles, as float32.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/checkpoint/safetensors_header.h"
#include "tenon/io/file.h"

namespace tenon {

// The open files of a checkpoint and their checked layout. Move-only. Reading is safe from many threads.
class Checkpoint {
 public:
  // Opens <stem>.safetensors of the folder, or else the shards of <stem>.safetensors.index.json. Links are followed.
  // Errors: io where files are missing or cannot be read, invalid_file where they break the format.
  static Checkpoint open(const std::filesystem::path& folder, const std::string& stem = "model");
  static Checkpoint open_file(const std::filesystem::path& file);

  // In file order: shards by name, tensors by offset.
  const std::vector<TensorInfo>& tensors() const noexcept { return tensors_; }
  // Null where there is no such tensor.
  const TensorInfo* find(std::string_view name) const;
  // The tensor, checked to be of this shape and of a type that can be read. Error invalid_file or unsupported.
  const TensorInfo& require(std::string_view name, const std::vector<std::uint64_t>& shape) const;

  // Reads rows [first_row, first_row + row_count) and columns [first_col, first_col + col_count) of a tensor of shape
  // [rows, cols], or of one of shape [n] as [1, n]: float* out;  // [row_count, col_count], row-major
  // F16 and BF16 are widened exactly. NaN and infinity pass: see all_finite of core/finite.h.
  //
  // A narrow range costs a system call of 0.6 us per row: of a cached F32 matrix of 3072 columns, blocks of 16, 256 and
  // 3072 columns were read at 0.1, 1.5 and 8.7 GB/s (2 cores of the build machine). Ask for 256 columns or more.
  //
  // Errors: unsupported where the type is no F32, F16 or BF16; invalid_file where the tensor has other than 1 or 2
  // dimensions; io where the file cannot be read or has become shorter.
  void read(const TensorInfo& tensor, std::uint64_t first_row, std::uint64_t row_count, std::uint64_t first_col,
            std::uint64_t col_count, float* out) const;
  // The whole tensor, whatever its rank. out: as many elements as it has.
  void read_all(const TensorInfo& tensor, float* out) const;

  // Bytes of the tensor from `offset` on, as they stand in the file, whatever its type. Error io as for `read`.
  void read_bytes(const TensorInfo& tensor, std::uint64_t offset, std::span<std::byte> out) const;

  // What __metadata__ says under the key; null where it says nothing. Error invalid_file where shards say different
  // things.
  const std::string* metadata(std::string_view key) const;
  // All that its files say under the key: for what only informs.
  std::set<std::string> metadata_of_all(std::string_view key) const;

  // Error io where a file was written to since it was opened. Call it after the last read.
  void verify_unchanged() const;

  // "model.safetensors: transformer.wte.weight": for the errors of whoever reads it.
  std::string where(const TensorInfo& tensor) const { return file_of(tensor).name() + ": " + printable(tensor.name); }
  // model.safetensors, or the index: for errors about tensors that are missing.
  const std::string& name() const noexcept { return name_; }
  std::size_t shards() const noexcept { return files_.size(); }
  // Whether it reads the file of that name, printable: the index, or one that holds tensors.
  bool consists_of(std::string_view file_name) const;

 private:
  using ShardMap = std::map<std::string, std::string, std::less<>>;  // tensor to shard

  explicit Checkpoint(std::string name) : name_(std::move(name)) {}
  void add_file(const std::filesystem::path& path);
  void add_shards(const std::filesystem::path& folder, const ShardMap& map);
  void sort_names();
  const File& file_of(const TensorInfo& tensor) const { return files_[static_cast<std::size_t>(tensor.shard)]; }
  void require_weight(const TensorInfo& tensor) const;
  void read_run(const TensorInfo& tensor, std::uint64_t first, std::uint64_t count, float* out) const;

  static ShardMap read_index(const std::filesystem::path& path);

  std::string name_;
  std::vector<File> files_;
  std::vector<Metadata> metadata_;  // of each file
  std::vector<TensorInfo> tensors_;
  std::vector<std::uint32_t> by_name_;  // indices into tensors_, sorted by name
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/safetensors-inl.h"
#endif
