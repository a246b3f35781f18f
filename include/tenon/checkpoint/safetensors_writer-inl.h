#pragma once
#include <algorithm>
#include <bit>
#include <utility>

#include "tenon/checkpoint/safetensors_writer.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/json.h"

namespace tenon {

TENON_INLINE SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorPlan> plans,
                                                  const Metadata& metadata)
    : file_(path), written_(plans.size()) {
  static_assert(std::endian::native == std::endian::little,
                "tenon: safetensors are written on little-endian machines only");
  lay_out(std::move(plans));
  const std::string header = header_text(metadata);
  const std::uint64_t length = header.size();
  data_begin_ = sizeof length + length;
  file_.write_at(0, std::as_bytes(std::span(&length, 1)));
  file_.write_at(sizeof length, std::as_bytes(std::span(header)));
  std::sort(tensors_.begin(), tensors_.end(), by_name);
}

TENON_INLINE void SafetensorsWriter::write(std::string_view name, std::uint64_t offset,
                                           std::span<const std::byte> bytes) {
  const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                   [](const TensorInfo& tensor, std::string_view n) { return tensor.name < n; });
  if (at == tensors_.end() || at->name != name || offset > at->end - at->begin ||
      bytes.size() > at->end - at->begin - offset) {
    throw Error(Error::Kind::internal, file_.name() + ": " + printable(name),
                "the bytes lie outside the announced tensors");
  }
  file_.write_at(data_begin_ + at->begin + offset, bytes);
  written_[static_cast<std::size_t>(at - tensors_.begin())].fetch_add(bytes.size(), std::memory_order_relaxed);
}

TENON_INLINE NewFile SafetensorsWriter::take_file() {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const std::uint64_t written = written_[i].load(), announced = tensors_[i].end - tensors_[i].begin;
    if (written == announced) continue;
    throw Error(Error::Kind::internal, file_.name() + ": " + printable(tensors_[i].name),
                std::to_string(written) + " bytes were written, " + std::to_string(announced) + " were announced");
  }
  return std::move(file_);
}

TENON_INLINE void SafetensorsWriter::lay_out(std::vector<TensorPlan> plans) {
  std::stable_sort(plans.begin(), plans.end(),
                   [](const TensorPlan& a, const TensorPlan& b) { return dtype_bits(a.dtype) > dtype_bits(b.dtype); });
  for (TensorPlan& plan : plans) {
    std::uint64_t bytes = 0;
    if (!detail::byte_count(plan.shape, plan.dtype, bytes)) refuse(plan.name, "is no whole number of bytes below 2^61");
    tensors_.push_back({std::move(plan.name), plan.dtype, std::move(plan.shape), data_bytes_, data_bytes_ + bytes});
    data_bytes_ += bytes;
  }
  std::vector<std::string_view> names;
  for (const TensorInfo& tensor : tensors_) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) refuse(*twice, "comes twice");
}

TENON_INLINE std::string SafetensorsWriter::header_text(const Metadata& metadata) const {
  OrderedJson header = OrderedJson::object();
  // push_back avoids a quadratic search: names are known to differ.
  auto& members = header.get_ref<OrderedJson::object_t&>();
  if (!metadata.empty()) members.push_back({"__metadata__", OrderedJson(metadata)});
  for (const TensorInfo& tensor : tensors_) {
    members.push_back({tensor.name, OrderedJson{{"dtype", dtype_name(tensor.dtype)},
                                                {"shape", tensor.shape},
                                                {"data_offsets", {tensor.begin, tensor.end}}}});
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kMaxHeaderBytes)
    refuse("header", "would be longer than " + std::to_string(kMaxHeaderBytes) + " bytes");
  return text;
}

TENON_INLINE void SafetensorsWriter::refuse(std::string_view name, std::string_view what) const {
  throw Error(Error::Kind::invalid_request, file_.name() + ": " + printable(name), what);
}

}  // namespace tenon
