// Writes files of torch.save again as safetensors, for models and adapters that were published as pickles alone.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tenon/checkpoint/sharded_writer.h"
#include "tenon/model/quantize.h"

namespace tenon {

/// The result of convert_checkpoint.
struct ConvertReport {
  bool adapter = false;  ///< adapter_model.bin was converted, not the files of a model
  std::size_t tensors = 0, shards = 0;
  std::uint64_t bytes = 0;                  ///< of all tensors
  std::vector<std::string> files_left_out;  ///< as QuantizeReport::files_left_out
};

/// Writes the model or the adapter of the folder `source` to the new folder `target`: pytorch_model.bin, the files of
/// pytorch_model.bin.index.json, or the same of adapter_model. Each tensor keeps its name, type, shape and values.
/// Tensors that share numbers, such as a tied head, are each written. The tokenizer and other small files are copied as
/// they are. The pickles are read as data (torch_file.h). Memory: that of read_torch_tensor, and of the table of
/// tensors.
///
/// Errors: those of read_torch_file. Error invalid_request if the source has safetensors already, or if the target
/// exists. Error unsupported if tensors share so much that they would take more than four times the files. After an
/// error there is no target.
ConvertReport convert_checkpoint(const std::filesystem::path& source, const std::filesystem::path& target,
                                 const QuantizeProgress& progress = {},
                                 std::uint64_t shard_bytes = ShardedWriter::kShardBytes);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/convert-inl.h"
#endif
