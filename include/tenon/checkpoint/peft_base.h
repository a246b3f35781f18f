// The model below an adapter, so far as PEFT's files may hold copies of it: embeddings that were saved beside the
// factors.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/checkpoint/dtype.h"
#include "tenon/checkpoint/safetensors.h"

namespace tenon {

struct PeftBase {
  std::shared_ptr<const Checkpoint> tensors = {};  // null: no file, the weights were drawn at random
  std::string prefix = {};                         // "transformer.": names in the file have it or lack it
  std::string embedding = {};  // paths of the modules "transformer.wte" and "lm_head"; empty: unknown
  std::string head = {};
  bool tied_head = false;  // the head's weight is the embedding's

  // Paths of modules that PEFT can update, beside the linears in layers.
  std::vector<std::string> others() const {
    std::vector<std::string> paths;
    for (const std::string& each : {embedding, head})
      if (!each.empty()) paths.push_back(each);
    return paths;
  }

  // The tensor of the model that PEFT writes a tensor of an adapter's file to: its name behind "base_model.model.",
  // where a module below an adapter is called base_layer. Null where the model has none of that name.
  const TensorInfo* find(std::string_view stored) const {
    constexpr std::string_view all = "base_model.model.", wrapped = ".base_layer.";
    if (!tensors || !stored.starts_with(all)) return nullptr;
    std::string name(stored.substr(all.size()));
    if (const auto at = name.rfind(wrapped); at != name.npos) name.replace(at, wrapped.size(), ".");
    if (tied_head && name == head + ".weight") name = embedding + ".weight";
    if (const TensorInfo* found = tensors->find(name)) return found;
    return name.starts_with(prefix) ? tensors->find(std::string_view(name).substr(prefix.size())) : nullptr;
  }

  // Whether the two hold the same numbers, whatever their types: PEFT's load into a float32 model would change nothing.
  // NaN equals nothing. Reads both. Errors as Checkpoint::read_bytes.
  bool holds(const Checkpoint& file, const TensorInfo& copy, const TensorInfo& own) const;
};

namespace detail {

// Elements [first, first + out.size()) of a tensor of type F32, F16 or BF16. `bytes`: scratch.
inline void read_elements(const Checkpoint& file, const TensorInfo& tensor, std::uint64_t first, std::span<float> out,
                          std::vector<std::byte>& bytes) {
  const std::size_t size = static_cast<std::size_t>(dtype_bits(tensor.dtype)) / 8;
  bytes.resize(out.size() * size);
  file.read_bytes(tensor, first * size, bytes);
  if (tensor.dtype == DType::f32)
    std::copy_n(reinterpret_cast<const float*>(bytes.data()), out.size(), out.data());
  else if (tensor.dtype == DType::f16)
    floats_of_f16(reinterpret_cast<const std::uint16_t*>(bytes.data()), out.data(), out.size());
  else
    floats_of_bf16(reinterpret_cast<const std::uint16_t*>(bytes.data()), out.data(), out.size());
}

}  // namespace detail

inline bool PeftBase::holds(const Checkpoint& file, const TensorInfo& copy, const TensorInfo& own) const {
  if (copy.shape != own.shape || !is_weight(copy.dtype) || !is_weight(own.dtype)) return false;
  constexpr std::uint64_t block = 64 * 1024;
  std::uint64_t elements = 1;
  for (const std::uint64_t dim : copy.shape) elements *= dim;
  std::vector<std::byte> bytes;
  std::vector<float> theirs, ours;
  for (std::uint64_t first = 0; first < elements; first += block) {
    const auto count = static_cast<std::size_t>(std::min(block, elements - first));
    theirs.resize(count);
    ours.resize(count);
    detail::read_elements(file, copy, first, theirs, bytes);
    detail::read_elements(*tensors, own, first, ours, bytes);
    if (!std::equal(theirs.begin(), theirs.end(), ours.begin())) return false;
  }
  return true;
}

}  // namespace tenon
