#pragma once
#include <utility>

#include "tenon/checkpoint/sharded_writer.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/json.h"

namespace tenon {

TENON_INLINE ShardedWriter::ShardedWriter(const std::filesystem::path& folder, const std::vector<TensorPlan>& plans,
                                          const Metadata& metadata, std::uint64_t limit, const std::string& stem)
    : folder_(folder), stem_(stem) {
  std::vector<std::vector<TensorPlan>> shards(1);
  std::uint64_t filled = 0;
  for (const TensorPlan& plan : plans) {
    std::uint64_t bytes = 0;
    // A size that overflows is refused by the writer of its shard.
    if (!detail::byte_count(plan.shape, plan.dtype, bytes)) bytes = 0;
    if (bytes > 0 && filled > 0 && (bytes > limit || filled > limit - bytes)) {
      shards.emplace_back();
      filled = 0;
    }
    filled += bytes;
    if (!shard_of_.emplace(plan.name, shards.size() - 1).second)
      throw Error(Error::Kind::invalid_request, stem_ + ".safetensors: " + printable(plan.name), "comes twice");
    shards.back().push_back(plan);
  }
  for (std::size_t i = 0; i < shards.size(); ++i)
    shards_.emplace_back(folder / shard_name(i, shards.size()), std::move(shards[i]), metadata);
}

TENON_INLINE void ShardedWriter::write(std::string_view name, std::uint64_t offset, std::span<const std::byte> bytes) {
  const auto found = shard_of_.find(name);
  if (found == shard_of_.end()) throw Error(Error::Kind::internal, printable(name), "is no announced tensor");
  shards_[found->second].write(name, offset, bytes);
}

TENON_INLINE std::vector<NewFile> ShardedWriter::take_files() {
  std::vector<NewFile> files;
  for (SafetensorsWriter& shard : shards_) files.push_back(shard.take_file());
  if (files.size() == 1) return files;
  OrderedJson map = OrderedJson::object();
  auto& members = map.get_ref<OrderedJson::object_t&>();  // push_back avoids a quadratic search
  for (const auto& [tensor, shard] : shard_of_) members.push_back({tensor, shard_name(shard, shards_.size())});
  OrderedJson index;
  index["metadata"]["total_size"] = data_bytes();
  index["weight_map"] = std::move(map);
  const std::string text = index.dump(2) + "\n";
  files.emplace_back(folder_ / (stem_ + ".safetensors.index.json")).write_at(0, std::as_bytes(std::span(text)));
  return files;
}

TENON_INLINE std::uint64_t ShardedWriter::data_bytes() const {
  std::uint64_t bytes = 0;
  for (const SafetensorsWriter& shard : shards_) bytes += shard.data_bytes();
  return bytes;
}

TENON_INLINE std::string ShardedWriter::shard_name(std::size_t shard, std::size_t count) const {
  if (count == 1) return stem_ + ".safetensors";
  const auto five = [](std::size_t n) {
    const std::string digits = std::to_string(n);
    return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
  };
  return stem_ + "-" + five(shard + 1) + "-of-" + five(count) + ".safetensors";
}

}  // namespace tenon
