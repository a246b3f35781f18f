// Writes a safetensors file whose tensors are known by size before any of them is at hand: a model never stands in
// memory.
#pragma once
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/checkpoint/dtype.h"
#include "tenon/checkpoint/safetensors_header.h"
#include "tenon/core/error.h"
#include "tenon/core/json.h"
#include "tenon/core/new_file.h"

namespace tenon {

// A tensor to be written.
struct TensorPlan {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::uint64_t> shape;
};

// The header is written first; then bytes of any tensor, in any order, from any thread. The file appears under its name
// when `finish` finds it whole.
class SafetensorsWriter {
 public:
  // Error invalid_request where a name comes twice, or no reader would take the header.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorPlan> plans, const Metadata& metadata)
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

  // Bytes of the tensor from `offset` on.
  void write(std::string_view name, std::uint64_t offset, std::span<const std::byte> bytes) {
    const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                     [](const TensorInfo& tensor, std::string_view n) { return tensor.name < n; });
    if (at == tensors_.end() || at->name != name || offset > at->end - at->begin ||
        bytes.size() > at->end - at->begin - offset) {
      throw Error(Error::Kind::internal, file_.name() + ": " + printable(name),
                  "bytes were written that were not announced");
    }
    file_.write_at(data_begin_ + at->begin + offset, bytes);
    written_[static_cast<std::size_t>(at - tensors_.begin())].fetch_add(bytes.size(), std::memory_order_relaxed);
  }

  // Error internal where a tensor did not get as many bytes as it has.
  void finish() { take_file().publish(); }

  // The file that finish would publish, for whoever publishes it with others. Nothing more can be written.
  NewFile take_file() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const std::uint64_t written = written_[i].load(), announced = tensors_[i].end - tensors_[i].begin;
      if (written == announced) continue;
      throw Error(Error::Kind::internal, file_.name() + ": " + printable(tensors_[i].name),
                  std::to_string(written) + " bytes were written, " + std::to_string(announced) + " were announced");
    }
    return std::move(file_);
  }

  std::uint64_t data_bytes() const { return data_bytes_; }  // of all tensors

 private:
  static bool by_name(const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; }

  // Behind one another, as the format wants it, the widest types first: then each begins at a multiple of its element.
  void lay_out(std::vector<TensorPlan> plans) {
    std::stable_sort(plans.begin(), plans.end(), [](const TensorPlan& a, const TensorPlan& b) {
      return dtype_bits(a.dtype) > dtype_bits(b.dtype);
    });
    for (TensorPlan& plan : plans) {
      std::uint64_t bytes = 0;
      if (!detail::byte_count(plan.shape, plan.dtype, bytes))
        refuse(plan.name, "is no whole number of bytes below 2^61");
      tensors_.push_back({std::move(plan.name), plan.dtype, std::move(plan.shape), data_bytes_, data_bytes_ + bytes});
      data_bytes_ += bytes;
    }
    std::vector<std::string_view> names;
    for (const TensorInfo& tensor : tensors_) names.push_back(tensor.name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) refuse(*twice, "comes twice");
  }

  // Padded by spaces, so that the data begin at a multiple of 8.
  std::string header_text(const Metadata& metadata) const {
    OrderedJson header = OrderedJson::object();
    // push_back: names differ, and looking for each among all of them would be quadratic.
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

  [[noreturn]] void refuse(std::string_view name, std::string_view what) const {
    throw Error(Error::Kind::invalid_request, file_.name() + ": " + printable(name), what);
  }

  NewFile file_;
  std::vector<TensorInfo> tensors_;  // sorted by name; begin and end count from the first byte of the data
  std::uint64_t data_begin_ = 0, data_bytes_ = 0;
  std::vector<std::atomic<std::uint64_t>> written_;  // bytes of each of tensors_
};

}  // namespace tenon
