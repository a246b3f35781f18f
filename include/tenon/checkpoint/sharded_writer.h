// Writes a checkpoint in safetensors: one file, or shards with an index.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/checkpoint/safetensors_writer.h"
#include "tenon/io/new_file.h"

namespace tenon {

/// Splits tensors, in the given order, into files with at most `limit` bytes of data. One file is called
/// <stem>.safetensors; of several, each is <stem>-00001-of-0000N.safetensors, and <stem>.safetensors.index.json lists
/// their tensors.
class ShardedWriter {
 public:
  static constexpr std::uint64_t kShardBytes = 5'000'000'000;  ///< as transformers 4 writes

  /// Lays out the tensors and writes the headers. limit: bytes of data; a larger tensor has a file of its own. Errors:
  /// those of SafetensorsWriter.
  ShardedWriter(const std::filesystem::path& folder, const std::vector<TensorPlan>& plans, const Metadata& metadata,
                std::uint64_t limit = kShardBytes, const std::string& stem = "model");

  /// Writes bytes of a tensor, as SafetensorsWriter::write. Thread-safe.
  void write(std::string_view name, std::uint64_t offset, std::span<const std::byte> bytes);

  /// The complete files, the index last, to be published together. Ends the writing. Errors as for
  /// TensorFileWriter::finish.
  std::vector<NewFile> take_files();

  std::size_t shards() const { return shards_.size(); }  ///< number of files of tensors
  std::uint64_t data_bytes() const;                      ///< size of the data, all tensors together

 private:
  std::string shard_name(std::size_t shard, std::size_t count) const;

  std::filesystem::path folder_;
  std::string stem_;
  std::deque<SafetensorsWriter> shards_;
  std::map<std::string, std::size_t, std::less<>> shard_of_;  // by tensor
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/sharded_writer-inl.h"
#endif
