// The table of tensors in a pickle of torch.save: what each tensor is, and which storage has its numbers.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/checkpoint/pickle.h"
#include "tenon/checkpoint/safetensors_header.h"
#include "tenon/checkpoint/torch_file.h"
#include "tenon/core/error.h"
#include "tenon/io/file.h"

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
  std::string key;
  DType dtype = DType::f32;               // u8 if untyped
  bool untyped = false;                   // its tensors name their types
  std::uint64_t elements = 0, begin = 0;  // begin: in bytes
};

// The types that a tensor of an untyped storage names.
inline constexpr TorchStorageType kTorchDTypes[] = {{"float8_e4m3fn", DType::f8_e4m3},
                                                    {"float8_e5m2", DType::f8_e5m2},
                                                    {"float8_e4m3fnuz", DType::f8_e4m3fnuz},
                                                    {"float8_e5m2fnuz", DType::f8_e5m2fnuz},
                                                    {"float8_e8m0fnu", DType::f8_e8m0},
                                                    {"uint16", DType::u16},
                                                    {"uint32", DType::u32},
                                                    {"uint64", DType::u64}};

inline const TorchStorageType* find_torch_type(std::span<const TorchStorageType> list, std::string_view name) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const auto& each) { return each.name == name; });
  return found == list.end() ? nullptr : &*found;
}

// Reads the table of tensors that a pickle describes.
class TorchTable {
 public:
  TorchTable(const Pickle& pickle, const File& file) : pickle_(pickle), file_(file) {}

  // The storages that the table names. Their places are not known yet.
  std::vector<TorchStorage>& storages() { return storages_; }
  // The storage of this key, or null.
  TorchStorage* storage(std::string_view key) {
    const auto found = by_key_.find(key);
    return found == by_key_.end() ? nullptr : &storages_[found->second];
  }

  void read() {
    const PickleValue& root = pickle_.at(pickle_.root);
    std::set<std::string_view> names;
    for (const auto& [key, value] : entries_of(root)) {
      const PickleValue& name = pickle_.at(key);
      if (name.kind != Kind::text) unsupported("the file", "has a key that is " + described(name) + ", not a text");
      if (name.text.empty()) refuse("the file", "has a tensor without a name");
      if (!names.insert(name.text).second) refuse(printable(name.text), "comes twice");
      add(std::string(name.text), value);
    }
  }

  // The tensors with their places. The places of the storages are set by now.
  std::vector<TorchTensor> take() {
    for (std::size_t i = 0; i < tensors_.size(); ++i)
      tensors_[i].begin = storages_[of_[i]].begin + offsets_[i] * bytes_of(tensors_[i].dtype);
    return std::move(tensors_);
  }

  static std::uint64_t bytes_of(DType dtype) { return static_cast<std::uint64_t>(dtype_bits(dtype)) / 8; }

 private:
  using Kind = PickleValue::Kind;
  using Numbers = std::vector<std::uint64_t>;
  using Entries = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

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
  bool calls(const PickleValue& value, std::string_view module, std::string_view name) const {
    return value.kind == Kind::call && is_global(value.items[0], module, name);
  }
  const std::vector<std::uint32_t>& arguments_of(const PickleValue& call) const {
    return pickle_.at(call.items[1]).items;
  }

  // For errors: "a list", "a call of numpy.core.multiarray._reconstruct".
  std::string described(const PickleValue& value) const {
    constexpr std::array<std::string_view, 11> kNames = {"None",     "a truth value", "an integer", "a large integer",
                                                         "a number", "a text",        "a list",     "a tuple",
                                                         "a dict",   "a name",        "a storage"};
    if (value.kind != Kind::call) return std::string(kNames[static_cast<std::size_t>(value.kind)]);
    const PickleValue& function = pickle_.at(value.items[0]);
    return "a call of " + printable(std::string(function.text) + "." + std::string(function.name));
  }

  // Names and tensors of a dict, or of an OrderedDict, which older versions of Python make of a list of pairs.
  Entries entries_of(const PickleValue& root) const {
    const bool ordered = calls(root, "collections", "OrderedDict");
    if (root.kind != Kind::dict && !ordered)
      unsupported("the file", "holds " + described(root) + ", not a dict of tensors");
    Entries out;
    if (ordered && !arguments_of(root).empty()) {
      for (const std::uint32_t each : pickle_.at(arguments_of(root)[0]).items) {
        const std::vector<std::uint32_t>& pair = pickle_.at(each).items;
        if (pair.size() != 2) refuse("the file", "has an OrderedDict of what are no pairs");
        out.emplace_back(pair[0], pair[1]);
      }
    }
    for (std::size_t i = 0; i < root.entries.size(); i += 2) out.emplace_back(root.entries[i], root.entries[i + 1]);
    return out;
  }

  void add(std::string name, std::uint32_t index) {
    const std::string what = printable(name);
    const PickleValue* tensor = &pickle_.at(index);
    if (calls(*tensor, "torch._utils", "_rebuild_parameter") ||
        calls(*tensor, "torch._utils", "_rebuild_parameter_with_state")) {
      if (arguments_of(*tensor).empty()) refuse(what, "is a parameter without a tensor");
      tensor = &pickle_.at(arguments_of(*tensor)[0]);
    }
    const bool v3 = calls(*tensor, "torch._utils", "_rebuild_tensor_v3");  // with a type of its own
    const bool known =
        v3 || calls(*tensor, "torch._utils", "_rebuild_tensor_v2") || calls(*tensor, "torch._utils", "_rebuild_tensor");
    if (!known || tensor->has_state) unsupported(what, "is " + described(*tensor) + ", not a tensor");
    const std::vector<std::uint32_t>& arguments = arguments_of(*tensor);
    if (arguments.size() < (v3 ? 7u : 4u))
      refuse(what, "is a tensor without a storage, an offset, a shape and strides");
    check_metadata(arguments, v3 ? 7 : 6, what);
    of_.push_back(storage_of(arguments[0], what));
    const TorchStorage& storage = storages_[of_.back()];
    TorchTensor out{.name = std::move(name),
                    .dtype = v3 ? dtype_of(arguments[6], storage, what) : storage.dtype,
                    .shape = numbers_of(arguments[2], what),
                    .strides = numbers_of(arguments[3], what)};
    if (!v3 && storage.untyped) unsupported(what, "has numbers without a type");
    offsets_.push_back(number_of(pickle_.at(arguments[1]), what));
    check(out, offsets_.back(), storage.elements * bytes_of(storage.dtype) / bytes_of(out.dtype), what);
    tensors_.push_back(std::move(out));
  }

  // torch marks there that numbers are read with another sign (`neg`) or conjugated (`conj`).
  void check_metadata(const std::vector<std::uint32_t>& arguments, std::size_t at, const std::string& what) const {
    if (arguments.size() > at + 1) refuse(what, "is a tensor with too many arguments");
    for (std::size_t i = at; i < arguments.size(); ++i) {
      const PickleValue& value = pickle_.at(arguments[i]);
      if (value.kind == Kind::none || (value.kind == Kind::dict && value.entries.empty())) continue;
      unsupported(what, "is a view with metadata (neg or conj); save a clone() of it");
    }
  }

  DType dtype_of(std::uint32_t index, const TorchStorage& storage, const std::string& what) const {
    const PickleValue& type = pickle_.at(index);
    const TorchStorageType* const known = find_torch_type(kTorchDTypes, type.name);
    if (type.kind != Kind::global || type.text != "torch" || !known || !storage.untyped)
      unsupported(what, "has numbers of type " + printable(std::string(type.text) + "." + std::string(type.name)));
    return known->dtype;
  }

  // ('storage', torch.FloatStorage, '0', 'cpu', 768), and None after these in the older layout. Returns its index.
  std::size_t storage_of(std::uint32_t index, const std::string& what) {
    constexpr std::size_t kLongestKey = 255;
    const PickleValue& value = pickle_.at(index);
    if (value.kind != Kind::persistent) refuse(what, "has no storage");
    const PickleValue& id = pickle_.at(value.items[0]);
    const bool whole = id.kind == Kind::tuple && (id.items.size() == 5 || id.items.size() == 6) &&
                       pickle_.at(id.items[0]).text == "storage" && pickle_.at(id.items[2]).kind == Kind::text;
    if (!whole) refuse(what, "has a storage of another form than torch.save writes");
    if (id.items.size() == 6 && pickle_.at(id.items[5]).kind != Kind::none)
      unsupported(what, "has a storage that is part of another, as torch before 0.4 wrote");
    const PickleValue& type = pickle_.at(id.items[1]);
    const bool untyped = type.text == "torch.storage" && type.name == "UntypedStorage";
    const TorchStorageType* const known = find_torch_type(kTorchStorageTypes, type.name);
    if (type.kind != Kind::global || (!untyped && (type.text != "torch" || !known)))
      unsupported(what, "has numbers of type " + printable(std::string(type.text) + "." + std::string(type.name)));
    const std::string_view key = pickle_.at(id.items[2]).text;
    if (key.size() > kLongestKey) refuse(what, "has a storage whose name has more than 255 bytes");
    const TorchStorage storage{std::string(key), untyped ? DType::u8 : known->dtype, untyped,
                               number_of(pickle_.at(id.items[4]), what)};
    const auto [found, added] = by_key_.try_emplace(storage.key, storages_.size());
    if (added) storages_.push_back(storage);
    const TorchStorage& same = storages_[found->second];
    if (same.dtype != storage.dtype || same.untyped != untyped || same.elements != storage.elements)
      unsupported(what, "has a storage to which another tensor gives another type or size");
    return found->second;
  }

  std::uint64_t number_of(const PickleValue& value, const std::string& what) const {
    if (value.kind != Kind::integer || value.number < 0) refuse(what, "has a size that is " + described(value));
    return static_cast<std::uint64_t>(value.number);
  }
  // A tuple or a list of sizes, or torch.Size of one.
  Numbers numbers_of(std::uint32_t index, const std::string& what) const {
    const PickleValue* value = &pickle_.at(index);
    if (calls(*value, "torch", "Size") && arguments_of(*value).size() == 1)
      value = &pickle_.at(arguments_of(*value)[0]);
    if (value->kind != Kind::tuple && value->kind != Kind::list)
      refuse(what, "has a shape that is " + described(*value));
    Numbers out;
    for (const std::uint32_t each : value->items) out.push_back(number_of(pickle_.at(each), what));
    return out;
  }

  // The last element of the tensor must be one of its storage, and it must not repeat elements without end.
  void check(const TorchTensor& tensor, std::uint64_t offset, std::uint64_t elements, const std::string& what) const {
    if (tensor.shape.size() != tensor.strides.size() || tensor.shape.size() > kMaxRank)
      refuse(what, "has " + std::to_string(tensor.shape.size()) + " dimensions and " +
                       std::to_string(tensor.strides.size()) + " strides");
    if (std::find(tensor.shape.begin(), tensor.shape.end(), 0u) != tensor.shape.end()) {
      if (offset > elements) refuse(what, "begins after its storage");
      return;
    }
    std::uint64_t left = elements, count = 1;
    const auto take = [&](std::uint64_t steps, std::uint64_t stride) {
      if (stride != 0 && steps > left / stride) refuse(what, "reaches beyond its storage");
      left -= steps * stride;
    };
    take(1, 1);
    take(1, offset);
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      take(tensor.shape[i] - 1, tensor.strides[i]);
      if (tensor.shape[i] > elements / count) unsupported(what, "repeats elements of its storage (Tensor.expand)");
      count *= tensor.shape[i];
    }
  }

  const Pickle& pickle_;
  const File& file_;
  std::vector<TorchStorage> storages_;
  std::map<std::string, std::size_t, std::less<>> by_key_;  // indices of storages
  std::vector<TorchTensor> tensors_;
  std::vector<std::size_t> of_;         // their storages
  std::vector<std::uint64_t> offsets_;  // in elements
};

}  // namespace tenon::detail
