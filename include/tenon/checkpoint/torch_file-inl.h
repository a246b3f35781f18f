#pragma once
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "tenon/checkpoint/pickle.h"
#include "tenon/checkpoint/safetensors_header.h"
#include "tenon/checkpoint/torch_file.h"
#include "tenon/checkpoint/torch_table.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/zip_entries.h"

namespace tenon::detail {

// Bytes [at, at + size) of the file.
inline std::string torch_bytes(const File& file, std::uint64_t at, std::uint64_t size) {
  std::string out(static_cast<std::size_t>(size), '\0');
  file.read_at(at, std::as_writable_bytes(std::span(out)));
  return out;
}

// <name>/data.pkl, and <name>/data/<key> for each storage. The first file's folder is <name>, as for torch.
inline std::vector<TorchTensor> read_torch_archive(const File& file) {
  struct Place {
    std::uint64_t begin = 0, end = 0;
  };
  std::map<std::string, Place, std::less<>> entries;
  std::string folder;
  for (ZipEntry& each : read_zip_entries(file)) {
    if (entries.empty()) folder = each.name.substr(0, each.name.find('/'));
    if (!entries.emplace(std::move(each.name), Place{each.begin, each.end}).second)
      refuse_file(file.name(), "has a file twice");
  }
  const auto text_of = [&](std::string_view name, std::uint64_t most) -> std::optional<std::string> {
    const auto found = entries.find(folder + std::string(name));
    if (found == entries.end()) return std::nullopt;
    const Place& place = found->second;
    if (place.end - place.begin > most)
      refuse_file(file.name() + ": " + printable(found->first), "has more than " + std::to_string(most) + " bytes");
    return torch_bytes(file, place.begin, place.end - place.begin);
  };
  const auto text = text_of("/data.pkl", kMaxPickleBytes);
  if (!text) refuse_file(file.name(), "is a zip archive without a data.pkl: torch.save did not write it");
  if (text_of("/byteorder", 16).value_or("little") != "little")
    throw Error(Error::Kind::unsupported, file.name() + ": byteorder", "the file is big-endian, not supported");
  const Pickle pickle = read_pickle(*text, file.name() + ": data.pkl");
  TorchTable table(pickle, file);
  table.read();
  for (TorchStorage& storage : table.storages()) {
    const auto found = entries.find(folder + "/data/" + storage.key);
    const std::string where = file.name() + ": data/" + printable(storage.key);
    if (found == entries.end()) refuse_file(where, "is missing in the archive");
    storage.begin = found->second.begin;
    if (storage.elements > (found->second.end - found->second.begin) / TorchTable::bytes_of(storage.dtype))
      refuse_file(where, "is shorter than its tensors");
  }
  return table.take();
}

// The number with which the older layout begins, 0x1950a86a20f9469cfc6c, the least significant byte first.
inline constexpr std::string_view kTorchMagic("l\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);

// The layout before torch 1.6: pickles of a magic number, the version 1001, a description of the machine, the table,
// and the list of keys; then, for each key, its number of elements (64 bits) and the elements.
class OldTorchFile {
 public:
  explicit OldTorchFile(const File& file) : file_(file) {}

  std::vector<TorchTensor> read() {
    text_ = torch_bytes(file_, 0, std::min<std::uint64_t>(file_.size(), kMaxPickleBytes));
    constexpr char kProtocol = '\x80';
    if (!text_.starts_with(kProtocol)) refuse_file(file_.name(), "does not begin as a file of torch.save");
    constexpr std::size_t kFirst = 32;  // bytes of a pickle of the magic number, of any protocol
    if (text_.substr(0, kFirst).find(kTorchMagic) == text_.npos)
      refuse_file(file_.name(), "is a pickle, but not one of torch.save");
    next("magic number");
    check_version(next("version"));
    check_byte_order(next("description of the machine"));
    const Pickle pickle = next("table of tensors");
    TorchTable table(pickle, file_);
    table.read();
    const Pickle keys = next("list of storages");
    std::uint64_t at = at_;
    for (const std::uint32_t each : keys.at(keys.root).items) place(table, keys.at(each), at);
    for (const TorchStorage& storage : table.storages())
      if (storage.begin == 0)
        refuse_file(file_.name() + ": " + printable(storage.key), "is missing in the list of storages");
    return table.take();
  }

 private:
  Pickle next(const std::string& what) {
    Pickle pickle = read_pickle(std::string_view(text_).substr(at_), file_.name() + ": " + what);
    at_ += pickle.bytes;
    return pickle;
  }

  void check_version(const Pickle& version) const {
    constexpr int kVersion = 1001;
    const PickleValue& value = version.at(version.root);
    if (value.kind != PickleValue::Kind::integer || value.number != kVersion)
      throw Error(Error::Kind::unsupported, file_.name() + ": version",
                  "is not 1001, the only one that torch.save wrote");
  }

  void check_byte_order(const Pickle& machine) const {
    const std::vector<std::uint32_t>& entries = machine.at(machine.root).entries;
    for (std::size_t i = 0; i < entries.size(); i += 2) {
      if (machine.at(entries[i]).text != "little_endian" || machine.at(entries[i + 1]).number != 0) continue;
      throw Error(Error::Kind::unsupported, file_.name() + ": little_endian", "the file is big-endian, not supported");
    }
  }

  // Sets the place of the next storage. at: where it begins, then where it ends.
  void place(TorchTable& table, const PickleValue& key, std::uint64_t& at) const {
    const std::string where = file_.name() + ": storage " + printable(key.text);
    std::uint64_t elements = 0;
    if (file_.size() - at < sizeof elements) refuse_file(where, "lies after the end of the file: truncated");
    file_.read_at(at, std::as_writable_bytes(std::span(&elements, 1)));
    at += sizeof elements;
    TorchStorage* const storage = table.storage(key.text);
    if (!storage || storage->begin != 0) refuse_file(where, "is of no tensor, or comes twice");
    const std::uint64_t bytes = TorchTable::bytes_of(storage->dtype);
    if (storage->elements != elements) refuse_file(where, "has another size than its tensors say");
    if (elements > (file_.size() - at) / bytes) refuse_file(where, "ends after the end of the file: truncated");
    storage->begin = at;
    at += elements * bytes;
  }

  const File& file_;
  std::string text_;  // the pickles, and bytes after them
  std::size_t at_ = 0;
};

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE std::uint64_t TorchTensor::elements() const {
  std::uint64_t count = 1;
  for (const std::uint64_t dim : shape) count *= dim;
  return count;
}

TENON_INLINE std::uint64_t TorchTensor::bytes() const { return elements() * detail::TorchTable::bytes_of(dtype); }

TENON_INLINE bool TorchTensor::contiguous() const {
  std::uint64_t expected = 1;
  for (std::size_t i = shape.size(); i-- > 0; expected *= shape[i])
    if (shape[i] != 1 && strides[i] != expected) return elements() == 0;
  return true;
}

TENON_INLINE std::vector<TorchTensor> read_torch_file(const File& file) {
  return is_zip(file) ? detail::read_torch_archive(file) : detail::OldTorchFile(file).read();
}

}  // namespace tenon

namespace tenon::detail {

// The places of a tensor's elements in row-major order, counted from its first one.
class TorchWalk {
 public:
  explicit TorchWalk(const TorchTensor& tensor) : tensor_(tensor), index_(tensor.shape.size()) {}

  std::uint64_t next() {
    const std::uint64_t place = place_;
    for (std::size_t i = index_.size(); i-- > 0;) {
      place_ += tensor_.strides[i];
      if (++index_[i] < tensor_.shape[i]) break;
      place_ -= tensor_.shape[i] * tensor_.strides[i];
      index_[i] = 0;
    }
    return place;
  }

 private:
  const TorchTensor& tensor_;
  std::vector<std::uint64_t> index_;
  std::uint64_t place_ = 0;
};

// All that the tensor spans, if that is little more than the tensor; else nothing.
inline std::vector<std::byte> torch_span(const File& file, const TorchTensor& tensor) {
  constexpr std::uint64_t kMost = 4;
  std::uint64_t elements = 1;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) elements += (tensor.shape[i] - 1) * tensor.strides[i];
  if (elements / kMost > tensor.elements()) return {};
  std::vector<std::byte> out(static_cast<std::size_t>(elements * TorchTable::bytes_of(tensor.dtype)));
  file.read_at(tensor.begin, out);
  return out;
}

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE void read_torch_tensor(const File& file, const TorchTensor& tensor, const TorchPiece& piece) {
  constexpr std::uint64_t kPiece = 1u << 20;
  const std::uint64_t size = tensor.bytes();
  const auto width = static_cast<std::size_t>(detail::TorchTable::bytes_of(tensor.dtype));
  const bool contiguous = tensor.contiguous();
  const std::vector<std::byte> span = contiguous ? std::vector<std::byte>() : detail::torch_span(file, tensor);
  detail::TorchWalk walk(tensor);
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(kPiece, size)));
  for (std::uint64_t done = 0; done < size; done += kPiece) {
    const auto block = std::span(bytes).first(static_cast<std::size_t>(std::min(kPiece, size - done)));
    if (contiguous) {
      file.read_at(tensor.begin + done, block);
    } else {
      for (std::size_t at = 0; at < block.size(); at += width) {
        const std::uint64_t from = walk.next() * width;
        if (span.empty())
          file.read_at(tensor.begin + from, block.subspan(at, width));
        else
          std::memcpy(block.data() + at, span.data() + from, width);
      }
    }
    piece(done, block);
  }
}

}  // namespace tenon
