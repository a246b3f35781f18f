#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <utility>

#include "tenon/checkpoint/dtype.h"
#include "tenon/checkpoint/peft_base.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"

namespace tenon {

TENON_INLINE std::vector<std::string> PeftBase::others() const {
  std::vector<std::string> paths;
  for (const std::string& each : {embedding, head})
    if (!each.empty() && vocab == 0) paths.push_back(each);
  if (labels > 0) paths.push_back("score");
  return paths;
}

TENON_INLINE std::vector<PeftModule> PeftBase::tables() const {
  if (vocab == 0) return {};
  std::vector<PeftModule> all{{.path = embedding, .inputs = vocab, .outputs = width, .embedding = true}};
  if (!head.empty()) all.push_back({.path = head, .inputs = width, .outputs = vocab, .head = true});
  return all;
}

TENON_INLINE PeftBase PeftBase::for_task(AdapterTask task) const {
  PeftBase seen = *this;
  if (task == AdapterTask::text) return seen;
  seen.head.clear();
  seen.labels = 0;
  return seen;
}

TENON_INLINE void PeftBase::rename_head(std::string_view file_name, std::string_view module_name) {
  if (head != file_name) return;
  stored_head = file_name;
  head = module_name;
}

TENON_INLINE void PeftBase::rename_older(Checkpoint& adapter) const {
  if (older_names.empty()) return;
  constexpr std::string_view all = "base_model.model.";
  std::map<std::string, TensorInfo> made;
  std::set<std::string> names;
  for (const TensorInfo& each : adapter.tensors()) {
    TensorInfo info = each;
    const std::string_view name =
        each.name.starts_with(all) ? std::string_view(each.name).substr(all.size()) : std::string_view();
    const auto found = std::find_if(older_names.begin(), older_names.end(),
                                    [&](const auto& older) { return name.starts_with(older.first); });
    if (found != older_names.end() && found->first != found->second) {
      info.name = std::string(all) + found->second + std::string(name.substr(found->first.size()));
      info.stored_name = each.name;
    }
    if (!names.insert(info.name).second)
      throw Error(Error::Kind::invalid_file, adapter.where(each), "is there twice, under an older and a newer name");
    if (info.name != each.name) made.emplace(each.name, std::move(info));
  }
  adapter.replace({}, std::move(made));
}

TENON_INLINE void PeftBase::leave_prefix_out(std::vector<PeftModule>& modules) {
  left_out = prefix;
  const auto shorten = [&](std::string& path) {
    if (path.starts_with(prefix)) path.erase(0, prefix.size());
  };
  shorten(embedding);
  for (PeftModule& each : modules) shorten(each.path);
}

TENON_INLINE std::string PeftBase::name_of(std::string_view stored) const {
  constexpr std::string_view all = "base_model.model.";
  if (!stored.starts_with(all)) return {};
  std::string name(stored.substr(all.size()));
  for (const std::string_view wrapped : {".token_adapter.base_layer.", ".base_layer."})
    if (const auto at = name.rfind(wrapped); at != name.npos) name.replace(at, wrapped.size(), ".");
  return left_out + name;
}

TENON_INLINE const TensorInfo* PeftBase::find(std::string_view stored) const {
  std::string name = name_of(stored);
  if (!tensors || name.empty()) return nullptr;
  if (tied_head && name == head + ".weight") name = embedding + ".weight";
  if (!stored_head.empty() && name == head + ".weight") name = stored_head + ".weight";
  if (const TensorInfo* found = tensors->find(name)) return found;
  if (!name.starts_with(prefix)) return nullptr;
  const std::string own = name.substr(prefix.size());
  if (const TensorInfo* found = tensors->find(own)) return found;
  return file_prefix.empty() ? nullptr : tensors->find(file_prefix + own);
}

TENON_INLINE bool PeftBase::holds(const Checkpoint& file, const TensorInfo& copy, const TensorInfo& own) const {
  if (copy.shape != own.shape || !is_weight(copy.dtype) || !is_weight(own.dtype)) return false;
  constexpr std::uint64_t block = 64 * 1024;
  std::uint64_t elements = 1;
  for (const std::uint64_t dim : copy.shape) elements *= dim;
  std::vector<float> theirs, ours;
  for (std::uint64_t first = 0; first < elements; first += block) {
    const auto count = static_cast<std::size_t>(std::min(block, elements - first));
    theirs.resize(count);
    ours.resize(count);
    file.read_elements(copy, first, theirs);
    tensors->read_elements(own, first, ours);
    if (!std::equal(theirs.begin(), theirs.end(), ours.begin())) return false;
  }
  return true;
}

}  // namespace tenon
