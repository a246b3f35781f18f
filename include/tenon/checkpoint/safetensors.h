// Checkpoints in safetensors: one file, or shards with an index; or GGUF files. Weights are read by rectangles, as
// float32.
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

/// Name of a tensor to the name of the file that holds it.
using ShardMap = std::map<std::string, std::string, std::less<>>;

/// Reads <stem>.safetensors.index.json, or an index of files of torch.save, which has the same form. Names of files are
/// plain. Error invalid_file.
ShardMap read_shard_map(const std::filesystem::path& index);

/// The open files of a checkpoint and their checked layout. Move-only. Reading is thread-safe.
class Checkpoint {
 public:
  /// Opens <stem>.safetensors in the folder, or else the shards of <stem>.safetensors.index.json. Links are followed.
  /// Errors: io if files are missing or cannot be read; invalid_file if they break the format.
  static Checkpoint open(const std::filesystem::path& folder, const std::string& stem = "model");
  /// Opens a single file. Errors as for `open`.
  static Checkpoint open_file(const std::filesystem::path& file);
  /// A checkpoint of files, at least one, whose headers another reader has checked (gguf.h). `shard` of a tensor is the
  /// index of its file.
  static Checkpoint of_tensors(std::vector<File>&& files, std::vector<TensorInfo> tensors);
  /// The same of one file.
  static Checkpoint of_tensors(File&& file, std::vector<TensorInfo> tensors);

  /// In file order: shards by name, tensors by offset.
  const std::vector<TensorInfo>& tensors() const noexcept { return tensors_; }
  /// Null where there is no such tensor.
  const TensorInfo* find(std::string_view name) const;
  /// The tensor, checked to have this shape and a type that can be read as a weight. Errors: invalid_file if it is
  /// missing or has another shape; unsupported if its type cannot be read.
  const TensorInfo& require(std::string_view name, const std::vector<std::uint64_t>& shape) const;

  /// Reads rows [first_row, first_row + row_count) and columns [first_col, first_col + col_count) of a tensor of shape
  /// [rows, cols]. A tensor of shape [n] counts as [1, n]. out: [row_count, col_count], row-major.
  /// F16 and BF16 are widened exactly; block types of GGUF (gguf_blocks.h) and quantised matrices (quantized.h) are
  /// decoded. NaN and infinity are not errors; all_finite of core/finite.h finds them.
  ///
  /// A range narrower than the tensor costs one system call, about 0.6 us, per row. Reads of 256 columns or more reach
  /// 1.5 GB/s from the page cache; whole rows reach 8.7 GB/s (F32, 3072 columns, 2 cores).
  ///
  /// Error unsupported if the type is not F32, F16, BF16, a block type or quantised. Error invalid_file if the tensor
  /// does not have 1 or 2 dimensions. Error io if the file cannot be read or has become shorter.
  void read(const TensorInfo& tensor, std::uint64_t first_row, std::uint64_t row_count, std::uint64_t first_col,
            std::uint64_t col_count, float* out) const;
  /// Reads the whole tensor, of any rank. out: [number of its elements].
  void read_all(const TensorInfo& tensor, float* out) const;
  /// Reads elements [first, first + out.size()) of a tensor of type F32, F16 or BF16 and any rank, in stored order.
  /// Error io as for `read`.
  void read_elements(const TensorInfo& tensor, std::uint64_t first, std::span<float> out) const;

  /// Reads bytes of the tensor, starting at byte `offset`, as stored in the file, whatever its type. Error io as for
  /// `read`.
  void read_bytes(const TensorInfo& tensor, std::uint64_t offset, std::span<std::byte> out) const;

  /// The value of `key` in __metadata__; null where there is none. Error invalid_file if shards differ.
  const std::string* metadata(std::string_view key) const;
  /// The values of `key` in all shards. For informative keys, which may differ.
  std::set<std::string> metadata_of_all(std::string_view key) const;

  /// Puts each tensor of `made` in the place of the tensor that it is listed under. Drops the others of `dropped`;
  /// their bytes can still be read by their TensorInfo. Names stay unique: the caller has checked it.
  void replace(const std::set<std::string>& dropped, std::map<std::string, TensorInfo> made);

  /// Error io if a file was written to since it was opened. Call it after the last read.
  void verify_unchanged() const;

  /// "model.safetensors: transformer.wte.weight", for errors about the tensor.
  std::string where(const TensorInfo& tensor) const {
    return file_of(tensor).name() + ": " + printable(tensor.stored_name.empty() ? tensor.name : tensor.stored_name);
  }
  /// "model.safetensors", or the index: for errors about missing tensors.
  const std::string& name() const noexcept { return name_; }
  std::size_t shards() const noexcept { return files_.size(); }  ///< number of files
  /// Whether the checkpoint reads the file of this name: the index or a shard.
  bool consists_of(std::string_view file_name) const;

 private:
  explicit Checkpoint(std::string name) : name_(std::move(name)) {}
  void add_file(const std::filesystem::path& path);
  void add_shards(const std::filesystem::path& folder, const ShardMap& map);
  void sort_names();
  const File& file_of(const TensorInfo& tensor) const { return files_[static_cast<std::size_t>(tensor.shard)]; }
  void require_weight(const TensorInfo& tensor) const;
  void read_run(const TensorInfo& tensor, std::uint64_t first, std::uint64_t count, float* out) const;
  void read_decoded(const MatrixDecoder& decoder, std::uint64_t first, std::uint64_t count, float* out) const;
  void read_blocks(const TensorInfo& tensor, std::uint64_t first, std::uint64_t count, float* out) const;
  void read_transposed(const TensorInfo& tensor, std::uint64_t first_row, std::uint64_t row_count,
                       std::uint64_t first_col, std::uint64_t col_count, float* out) const;

  std::string name_;
  std::vector<File> files_;
  std::vector<Metadata> metadata_;  // per file
  std::vector<TensorInfo> tensors_;
  std::vector<std::uint32_t> by_name_;  // indices into tensors_, sorted by name
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/safetensors-inl.h"
#endif
