#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "tenon/checkpoint/pickle.h"
#include "tenon/checkpoint/safetensors_header.h"
#include "tenon/checkpoint/torch_file.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/zip_entries.h"

namespace tenon::detail {

struct TorchStorageType {
  std::string_view name;
  DType dtype;
};
inline constexpr TorchStorageType kTorchStorageTypes[] = {
    {"FloatStorage", DType::f32},   {"HalfStorage", DType::f16}, {"BFloat16Storage", DType::bf16},
    {"DoubleStorage", DType::f64},  {"LongStorage", DType::i64}, {"IntStorage", DType::i32},
    {"ShortStorage", DType::i16},   {"CharStorage", DType::i8},  {"ByteStorage", DType::u8},
    {"BoolStorage", DType::boolean}};

// Numbers that tensors share, in the file.
struct TorchStorage {
  DType dtype = DType::f32;
  std::uint64_t elements = 0, begin = 0;  // begin: in bytes
};

// Reads the table of tensors that a pickle describes.
class TorchTable {
 public:
  TorchTable(const Pickle& pickle, const File& file) : pickle_(pickle), file_(file) {}

  // The storages that the table names, by key; their places are not known yet.
  std::map<std::string, TorchStorage, std::less<>>& storages() { return storages_; }

  void read() {
    const PickleValue& root = pickle_.at(pickle_.root);
    const bool ordered = root.kind == Kind::call && is_global(root.items[0], "collections", "OrderedDict") &&
                         pickle_.at(root.items[1]).items.empty();
    if (root.kind != Kind::dict && !ordered)
      unsupported("the file", "holds " + described(root) + ", not a dict of tensors");
    std::set<std::string_view> names;
    for (std::size_t i = 0; i < root.entries.size(); i += 2) {
      const PickleValue& key = pickle_.at(root.entries[i]);
      if (key.kind != Kind::text) unsupported("the file", "has a key that is " + described(key) + ", not a text");
      if (key.text.empty() || !names.insert(key.text).second)
        refuse(printable(key.text), "is a name that is empty or comes twice");
      add(std::string(key.text), pickle_.at(root.entries[i + 1]));
    }
  }

  // With their places, once those of the storages are set.
  std::vector<TorchTensor> take() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const TorchStorage& storage = storages_.find(keys_[i])->second;
      tensors_[i].begin = storage.begin + offsets_[i] * bytes_of(storage.dtype);
    }
    return std::move(tensors_);
  }

  static std::uint64_t bytes_of(DType dtype) { return static_cast<std::uint64_t>(dtype_bits(dtype)) / 8; }

 private:
  using Kind = PickleValue::Kind;
  using Numbers = std::vector<std::uint64_t>;

  [[noreturn]] void refuse(const std::string& what, const std::string& why) const {
    refuse_file(file_.name() + ": " + what, why);
  }
  [[noreturn]] void unsupported(const std::string& what, const std::string& why) const {
    throw Error(Error::Kind::unsupported, file_.name() + ": " + what, why);
  }

  bool is_global(std::uint32_t index, std::string_view module, std::string_view name) const {
    const PickleValue& value = pickle_.at(index);
    return value.kind == Kind::global && value.text == module && value.name == name;
  }

  // For errors: "a list", "a call of numpy.core.multiarray._reconstruct".
  std::string described(const PickleValue& value) const {
    constexpr std::array<std::string_view, 10> kNames = {"None",   "a truth value", "an integer", "a number",
                                                         "a text", "a list",        "a tuple",    "a dict",
                                                         "a name", "a storage"};
    if (value.kind != Kind::call) return std::string(kNames[static_cast<std::size_t>(value.kind)]);
    const PickleValue& function = pickle_.at(value.items[0]);
    return "a call of " + printable(std::string(function.text) + "." + std::string(function.name));
  }

  void add(std::string name, const PickleValue& value) {
    const std::string what = printable(name);
    const PickleValue* tensor = &value;
    if (tensor->kind == Kind::call && is_global(tensor->items[0], "torch._utils", "_rebuild_parameter")) {
      const PickleValue& arguments = pickle_.at(tensor->items[1]);
      if (arguments.items.empty()) refuse(what, "is a parameter without a tensor");
      tensor = &pickle_.at(arguments.items[0]);
    }
    const bool known =
        tensor->kind == Kind::call && (is_global(tensor->items[0], "torch._utils", "_rebuild_tensor_v2") ||
                                       is_global(tensor->items[0], "torch._utils", "_rebuild_tensor"));
    if (!known || tensor->has_state) unsupported(what, "is " + described(*tensor) + ", not a tensor");
    const PickleValue& arguments = pickle_.at(tensor->items[1]);
    if (arguments.items.size() < 4) refuse(what, "is a tensor without a storage, an offset, a shape and strides");
    const std::string key = storage_of(pickle_.at(arguments.items[0]), what);
    TorchTensor out{.name = std::move(name),
                    .dtype = storages_.find(key)->second.dtype,
                    .shape = numbers_of(pickle_.at(arguments.items[2]), what),
                    .strides = numbers_of(pickle_.at(arguments.items[3]), what)};
    offsets_.push_back(number_of(pickle_.at(arguments.items[1]), what));
    check(out, offsets_.back(), storages_.find(key)->second, what);
    keys_.push_back(key);
    tensors_.push_back(std::move(out));
  }

  // ('storage', torch.FloatStorage, '0', 'cpu', 768), and None after these in the older layout.
  std::string storage_of(const PickleValue& value, const std::string& what) {
    if (value.kind != Kind::persistent) refuse(what, "has no storage");
    const PickleValue& id = pickle_.at(value.items[0]);
    const bool whole = id.kind == Kind::tuple && (id.items.size() == 5 || id.items.size() == 6) &&
                       pickle_.at(id.items[0]).text == "storage" && pickle_.at(id.items[2]).kind == Kind::text;
    if (!whole) refuse(what, "has a storage of another form than torch.save writes");
    if (id.items.size() == 6 && pickle_.at(id.items[5]).kind != Kind::none)
      unsupported(what, "has a storage that is part of another, as torch before 0.4 wrote");
    const PickleValue& type = pickle_.at(id.items[1]);
    const auto known = std::find_if(std::begin(kTorchStorageTypes), std::end(kTorchStorageTypes),
                                    [&](const TorchStorageType& each) { return each.name == type.name; });
    if (type.kind != Kind::global || type.text != "torch" || known == std::end(kTorchStorageTypes))
      unsupported(what, "has numbers of type " + printable(std::string(type.text) + "." + std::string(type.name)));
    const TorchStorage storage{known->dtype, number_of(pickle_.at(id.items[4]), what)};
    const auto [found, added] = storages_.emplace(pickle_.at(id.items[2]).text, storage);
    if (!added && (found->second.dtype != storage.dtype || found->second.elements != storage.elements))
      unsupported(what, "has a storage that another tensor reads as another type");
    return found->first;
  }

  std::uint64_t number_of(const PickleValue& value, const std::string& what) const {
    if (value.kind != Kind::integer || value.number < 0) refuse(what, "has a size that is " + described(value));
    return static_cast<std::uint64_t>(value.number);
  }
  Numbers numbers_of(const PickleValue& value, const std::string& what) const {
    if (value.kind == Kind::call && is_global(value.items[0], "torch", "Size") &&
        pickle_.at(value.items[1]).items.size() == 1)
      return numbers_of(pickle_.at(pickle_.at(value.items[1]).items[0]), what);
    if (value.kind != Kind::tuple && value.kind != Kind::list) refuse(what, "has a shape that is " + described(value));
    Numbers out;
    for (const std::uint32_t each : value.items) out.push_back(number_of(pickle_.at(each), what));
    return out;
  }

  // The last element of the tensor must be one of its storage, and it must not repeat elements without end.
  void check(const TorchTensor& tensor, std::uint64_t offset, const TorchStorage& storage,
             const std::string& what) const {
    if (tensor.shape.size() != tensor.strides.size() || tensor.shape.size() > kMaxRank)
      refuse(what, "has " + std::to_string(tensor.shape.size()) + " dimensions and " +
                       std::to_string(tensor.strides.size()) + " strides");
    if (std::find(tensor.shape.begin(), tensor.shape.end(), 0u) != tensor.shape.end()) {
      if (offset > storage.elements) refuse(what, "begins after its storage");
      return;
    }
    std::uint64_t left = storage.elements, count = 1;
    const auto take = [&](std::uint64_t steps, std::uint64_t stride) {
      if (stride != 0 && steps > left / stride) refuse(what, "reaches beyond its storage");
      left -= steps * stride;
    };
    take(1, 1);
    take(1, offset);
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      take(tensor.shape[i] - 1, tensor.strides[i]);
      if (tensor.shape[i] > storage.elements / count)
        unsupported(what, "repeats elements of its storage (Tensor.expand)");
      count *= tensor.shape[i];
    }
  }

  const Pickle& pickle_;
  const File& file_;
  std::map<std::string, TorchStorage, std::less<>> storages_;
  std::vector<TorchTensor> tensors_;
  std::vector<std::string> keys_;       // of their storages
  std::vector<std::uint64_t> offsets_;  // in elements
};

// Bytes [at, at + size) of the file.
inline std::string torch_bytes(const File& file, std::uint64_t at, std::uint64_t size) {
  std::string out(static_cast<std::size_t>(size), '\0');
  file.read_at(at, std::as_writable_bytes(std::span(out)));
  return out;
}

// <name>/data.pkl, and <name>/data/<key> for each storage.
inline std::vector<TorchTensor> read_torch_archive(const File& file) {
  constexpr std::string_view kPickle = "/data.pkl", kOrder = "/byteorder";
  std::map<std::string, ZipEntry, std::less<>> entries;
  std::string folder;
  for (ZipEntry& each : read_zip_entries(file)) {
    if (each.name.ends_with(kPickle)) folder = each.name.substr(0, each.name.size() - kPickle.size());
    std::string name = each.name;
    if (!entries.emplace(std::move(name), std::move(each)).second) refuse_file(file.name(), "has a file twice");
  }
  const auto text_of = [&](std::string_view name, std::uint64_t most) -> std::optional<std::string> {
    const auto found = entries.find(folder + std::string(name));
    if (found == entries.end()) return std::nullopt;
    const ZipEntry& entry = found->second;
    if (entry.end - entry.begin > most)
      refuse_file(file.name() + ": " + printable(found->first), "has more than " + std::to_string(most) + " bytes");
    return torch_bytes(file, entry.begin, entry.end - entry.begin);
  };
  const auto text = text_of(kPickle, kMaxPickleBytes);
  if (!text) refuse_file(file.name(), "is a zip archive without a data.pkl: torch.save did not write it");
  if (text_of(kOrder, 16).value_or("little") != "little")
    throw Error(Error::Kind::unsupported, file.name() + ": byteorder", "the file is big-endian, not supported");
  const Pickle pickle = read_pickle(*text, file.name() + ": data.pkl");
  TorchTable table(pickle, file);
  table.read();
  for (auto& [key, storage] : table.storages()) {
    const auto found = entries.find(folder + "/data/" + key);
    const std::string where = file.name() + ": data/" + printable(key);
    if (found == entries.end()) refuse_file(where, "is missing in the archive");
    storage.begin = found->second.begin;
    if (storage.elements > (found->second.end - found->second.begin) / TorchTable::bytes_of(storage.dtype))
      refuse_file(where, "is shorter than its tensors");
  }
  return table.take();
}

// The pickle of 0x1950a86a20f9469cfc6c, with which the older layout begins.
inline constexpr std::string_view kTorchMagic("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);

// The layout before torch 1.6: pickles of a magic number, the version 1001, a description of the machine, the table,
// and the list of keys; then, for each key, its number of elements (64 bits) and the elements.
class OldTorchFile {
 public:
  explicit OldTorchFile(const File& file) : file_(file) {}

  std::vector<TorchTensor> read() {
    constexpr int kVersion = 1001;
    text_ = torch_bytes(file_, 0, std::min<std::uint64_t>(file_.size(), kMaxPickleBytes));
    const Pickle version = next("version");
    if (const PickleValue& value = version.at(version.root);
        value.kind != PickleValue::Kind::integer || value.number != kVersion)
      throw Error(Error::Kind::unsupported, file_.name() + ": version",
                  "is not 1001, the only one that torch.save wrote");
    check_byte_order(next("description of the machine"));
    const Pickle pickle = next("table of tensors");
    TorchTable table(pickle, file_);
    table.read();
    const Pickle keys = next("list of storages");
    std::uint64_t at = at_;
    for (const std::uint32_t each : keys.at(keys.root).items) place(table, keys.at(each), at);
    for (const auto& [key, storage] : table.storages())
      if (storage.begin == 0) refuse_file(file_.name() + ": " + printable(key), "is missing in the list of storages");
    return table.take();
  }

 private:
  Pickle next(const std::string& what) {
    Pickle pickle = read_pickle(std::string_view(text_).substr(at_), file_.name() + ": " + what);
    at_ += pickle.bytes;
    return pickle;
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
    const auto found = table.storages().find(key.text);
    if (found == table.storages().end() || found->second.begin != 0)
      refuse_file(where, "is of no tensor, or comes twice");
    TorchStorage& storage = found->second;
    const std::uint64_t bytes = TorchTable::bytes_of(storage.dtype);
    if (storage.elements != elements) refuse_file(where, "has another size than its tensors say");
    if (elements > (file_.size() - at) / bytes) refuse_file(where, "ends after the end of the file: truncated");
    storage.begin = at;
    at += elements * bytes;
  }

  const File& file_;
  std::string text_;  // the pickles, and bytes after them
  std::size_t at_ = kTorchMagic.size();
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
  if (is_zip(file)) return detail::read_torch_archive(file);
  const std::string start =
      detail::torch_bytes(file, 0, std::min<std::uint64_t>(file.size(), detail::kTorchMagic.size()));
  if (start != detail::kTorchMagic) detail::refuse_file(file.name(), "does not begin as a file of torch.save");
  return detail::OldTorchFile(file).read();
}

TENON_INLINE void read_torch_tensor(const File& file, const TorchTensor& tensor, const TorchPiece& piece) {
  constexpr std::uint64_t kPiece = 1u << 20;
  const std::uint64_t width = detail::TorchTable::bytes_of(tensor.dtype), size = tensor.bytes();
  if (tensor.contiguous()) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(kPiece, size)));
    for (std::uint64_t done = 0; done < size; done += kPiece) {
      const auto block = std::span(bytes).first(static_cast<std::size_t>(std::min(kPiece, size - done)));
      file.read_at(tensor.begin + done, block);
      piece(done, block);
    }
    return;
  }
  std::uint64_t last = 0;  // place of the last element
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) last += (tensor.shape[i] - 1) * tensor.strides[i];
  std::vector<std::byte> stored(static_cast<std::size_t>((last + 1) * width)), bytes(static_cast<std::size_t>(size));
  file.read_at(tensor.begin, stored);
  std::vector<std::uint64_t> index(tensor.shape.size());
  std::uint64_t from = 0;
  for (std::size_t to = 0; to < bytes.size(); to += width) {
    std::memcpy(bytes.data() + to, stored.data() + from * width, width);
    for (std::size_t i = index.size(); i-- > 0;) {  // the next index, and its place
      from += tensor.strides[i];
      if (++index[i] < tensor.shape[i]) break;
      from -= tensor.shape[i] * tensor.strides[i];
      index[i] = 0;
    }
  }
  piece(0, bytes);
}

}  // namespace tenon
