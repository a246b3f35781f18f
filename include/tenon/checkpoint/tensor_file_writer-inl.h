#pragma once
#include <algorithm>
#include <utility>

#include "tenon/checkpoint/tensor_file_writer.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"

namespace tenon {

TENON_INLINE void TensorFileWriter::write(std::string_view name, std::uint64_t offset,
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

TENON_INLINE NewFile TensorFileWriter::take_file() {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const std::uint64_t written = written_[i].load(), announced = tensors_[i].end - tensors_[i].begin;
    if (written == announced) continue;
    throw Error(Error::Kind::internal, file_.name() + ": " + printable(tensors_[i].name),
                std::to_string(written) + " bytes were written, " + std::to_string(announced) + " were announced");
  }
  return std::move(file_);
}

TENON_INLINE void TensorFileWriter::place(std::vector<TensorInfo> tensors) {
  tensors_ = std::move(tensors);
  std::sort(tensors_.begin(), tensors_.end(), [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (i > 0 && tensors_[i].name == tensors_[i - 1].name) refuse(tensors_[i].name, "comes twice");
    data_bytes_ += tensors_[i].end - tensors_[i].begin;
  }
}

TENON_INLINE void TensorFileWriter::write_header(std::string_view header, std::uint64_t data_begin) {
  data_begin_ = data_begin;
  file_.write_at(0, std::as_bytes(std::span(header)));
}

TENON_INLINE void TensorFileWriter::refuse(std::string_view name, std::string_view what) const {
  throw Error(Error::Kind::invalid_request, file_.name() + ": " + printable(name), what);
}

}  // namespace tenon
