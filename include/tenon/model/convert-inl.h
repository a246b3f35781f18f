#pragma once
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "tenon/checkpoint/safetensors.h"
#include "tenon/checkpoint/torch_file.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/file.h"
#include "tenon/io/staged_folder.h"
#include "tenon/model/convert.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon::detail {

// A file of torch.save, and what it holds.
struct TorchShard {
  File file;
  std::vector<TorchTensor> tensors;
};

// Files of a folder that torch.save wrote, and the stem of the safetensors files that are made from them.
struct TorchFiles {
  std::string stem, index;              // index: the file that lists the shards; empty if one file has the weights
  std::vector<std::string> names = {};  // sorted
  ShardMap map = {};                    // of the index

  bool adapter() const { return stem == "adapter_model"; }
  bool reads(const std::string& name) const {
    return name == index || std::binary_search(names.begin(), names.end(), name);
  }
};

inline TorchFiles torch_files_of(const std::filesystem::path& folder) {
  if (is_model_file(folder))
    throw Error(Error::Kind::invalid_request, file_name_of(folder), "is a file; name the folder that it is in");
  for (const auto& [old_stem, stem] :
       {std::pair("pytorch_model", "model"), std::pair("adapter_model", "adapter_model")}) {
    const std::string single = std::string(old_stem) + ".bin", index = single + ".index.json";
    const bool whole = entry_exists(folder / single);
    if (!whole && !entry_exists(folder / index)) continue;
    for (const char* end : {".safetensors", ".safetensors.index.json"})
      if (entry_exists(folder / (stem + std::string(end))))
        throw Error(Error::Kind::invalid_request, stem + std::string(end),
                    "is there already; nothing is to be converted");
    if (whole) return {.stem = stem, .index = "", .names = {single}};
    TorchFiles files{.stem = stem, .index = index, .map = read_shard_map(folder / index)};
    std::set<std::string> names;
    for (const auto& [tensor, name] : files.map) names.insert(name);
    files.names.assign(names.begin(), names.end());
    return files;
  }
  throw Error(Error::Kind::io, file_name_of(folder),
              "has neither pytorch_model.bin nor adapter_model.bin, nor the .index.json of one of them");
}

// Error where the names cannot be those of a safetensors file, the tensors take far more room than their files, or a
// shard lacks a tensor that the index names.
inline void check_torch_tensors(const TorchFiles& files, const std::vector<TorchShard>& shards) {
  constexpr std::uint64_t kMostCopies = 4, kSmall = 1u << 20;
  std::map<std::string_view, std::string_view> found;  // names of tensors and of their files
  std::uint64_t stored = 0, bytes = 0;
  for (const TorchShard& shard : shards) {
    stored += shard.file.size();
    for (const TorchTensor& tensor : shard.tensors) {
      const std::string where = shard.file.name() + ": " + printable(tensor.name);
      if (find_invalid_utf8(tensor.name) != tensor.name.npos) refuse_file(where, "is a name that is not valid UTF-8");
      if (!found.emplace(tensor.name, shard.file.name()).second) refuse_file(where, "is in two files");
      bytes += tensor.bytes();  // each is at most the size of its file
      if (bytes > kSmall && bytes / kMostCopies > stored)
        throw Error(Error::Kind::unsupported, where,
                    "the tensors share so many numbers that they would take four times the files");
    }
  }
  if (found.empty()) refuse_file(shards.front().file.name(), "holds no tensor");
  for (const auto& [tensor, name] : files.map) {
    const auto place = found.find(tensor);
    if (place == found.end() || place->second != file_name_of(name))
      refuse_file(files.index + ": weight_map: " + printable(tensor),
                  "is mapped to " + printable(name) + ", which does not hold it");
  }
}

inline std::vector<NewFile> copy_small_files(const TorchFiles& files, const std::filesystem::path& source,
                                             const std::filesystem::path& target) {
  constexpr std::uint64_t kLargest = 1u << 20;
  constexpr bool stays_quantised = true;
  std::vector<NewFile> small = copy_model_files(source, target, stays_quantised);
  if (!files.adapter()) return small;
  const std::string text = read_text_file(source / "adapter_config.json", kLargest);
  small.emplace_back(target / "adapter_config.json").write_at(0, std::as_bytes(std::span(text)));
  return small;
}

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE ConvertReport convert_checkpoint(const std::filesystem::path& source, const std::filesystem::path& target,
                                              const QuantizeProgress& progress, std::uint64_t shard_bytes) {
  const detail::TorchFiles files = detail::torch_files_of(source);
  std::vector<detail::TorchShard> shards;
  for (const std::string& name : files.names) {
    File file(source / name);
    std::vector<TorchTensor> tensors = read_torch_file(file);
    shards.push_back({std::move(file), std::move(tensors)});
  }
  detail::check_torch_tensors(files, shards);

  std::vector<TensorPlan> plans;
  for (const detail::TorchShard& shard : shards)
    for (const TorchTensor& tensor : shard.tensors) plans.push_back({tensor.name, tensor.dtype, tensor.shape});
  StagedFolder folder(target);
  const auto modules = detail::new_module_folders(source, folder.path());
  std::vector<NewFile> small = detail::copy_small_files(files, source, folder.path());
  NewFile::publish_all(small);
  // PEFT reads an adapter from one file.
  const std::uint64_t limit = files.adapter() ? std::numeric_limits<std::uint64_t>::max() : shard_bytes;
  ShardedWriter writer(folder.path(), plans, {{"format", "pt"}}, limit, files.stem);
  std::uint64_t done = 0;
  for (const detail::TorchShard& shard : shards) {
    for (const TorchTensor& tensor : shard.tensors)
      read_torch_tensor(shard.file, tensor, [&](std::uint64_t offset, std::span<const std::byte> bytes) {
        writer.write(tensor.name, offset, bytes);
        done += bytes.size();
        if (progress) progress(done, writer.data_bytes());
      });
    shard.file.verify_unchanged();
  }
  std::vector<NewFile> weights = writer.take_files();
  NewFile::publish_all(weights);
  folder.publish();

  const auto is_read = [&](const std::string& name) {
    return files.reads(name) || (files.adapter() && name == "adapter_config.json");
  };
  return {.adapter = files.adapter(),
          .tensors = plans.size(),
          .shards = writer.shards(),
          .bytes = writer.data_bytes(),
          .files_left_out = detail::files_left_out(source, is_read)};
}

}  // namespace tenon
