#pragma once
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "tenon/checkpoint/safetensors_writer.h"
#include "tenon/core/require.h"
#include "tenon/io/json.h"

namespace tenon {

TENON_INLINE SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorPlan> plans,
                                                  const Metadata& metadata)
    : TensorFileWriter(path, plans.size()) {
  static_assert(std::endian::native == std::endian::little,
                "tenon: safetensors are written on little-endian machines only");
  std::vector<TensorInfo> tensors = laid_out(std::move(plans));
  const std::string header = header_text(tensors, metadata);
  place(std::move(tensors));
  write_header(header, header.size());
}

TENON_INLINE std::vector<TensorInfo> SafetensorsWriter::laid_out(std::vector<TensorPlan> plans) const {
  std::stable_sort(plans.begin(), plans.end(),
                   [](const TensorPlan& a, const TensorPlan& b) { return dtype_bits(a.dtype) > dtype_bits(b.dtype); });
  std::vector<TensorInfo> tensors;
  std::uint64_t at = 0;
  for (TensorPlan& plan : plans) {
    std::uint64_t bytes = 0;
    if (plan.name == "__metadata__") refuse(plan.name, "is no name of a tensor, but the format's own");
    if (!detail::byte_count(plan.shape, plan.dtype, bytes)) refuse(plan.name, "is no whole number of bytes below 2^61");
    tensors.push_back({std::move(plan.name), plan.dtype, std::move(plan.shape), at, at + bytes});
    at += bytes;
  }
  return tensors;
}

TENON_INLINE std::string SafetensorsWriter::header_text(const std::vector<TensorInfo>& tensors,
                                                        const Metadata& metadata) const {
  OrderedJson header = OrderedJson::object();
  // push_back avoids a quadratic search: place() finds a name that comes twice.
  auto& members = header.get_ref<OrderedJson::object_t&>();
  if (!metadata.empty()) members.push_back({"__metadata__", OrderedJson(metadata)});
  for (const TensorInfo& tensor : tensors) {
    members.push_back({tensor.name, OrderedJson{{"dtype", dtype_name(tensor.dtype)},
                                                {"shape", tensor.shape},
                                                {"data_offsets", {tensor.begin, tensor.end}}}});
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kMaxHeaderBytes)
    refuse("header", "would be longer than " + std::to_string(kMaxHeaderBytes) + " bytes");
  const std::uint64_t length = text.size();
  std::string out(sizeof length, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  return out + text;
}

}  // namespace tenon
