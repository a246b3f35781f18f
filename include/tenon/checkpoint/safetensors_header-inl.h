#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "tenon/checkpoint/safetensors_header.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/json.h"

namespace tenon {

TENON_INLINE std::uint64_t StoredOrder::row(std::uint64_t row) const {
  if (c == 0) return row;
  const std::uint64_t in_d = row % d, in_c = row / d % c, in_b = row / d / c % b, in_a = row / d / c / b;
  return ((in_a * c + in_c) * b + in_b) * d + in_d;
}

TENON_INLINE std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string text;
  for (const auto dim : shape) text += (text.empty() ? "" : ", ") + std::to_string(dim);
  return "[" + text + "]";
}

}  // namespace tenon

namespace tenon::detail {

// Receives the header's JSON and keeps only valid tensors and metadata. Its memory is therefore bounded by the
// header's length; a document tree of a hostile header would take 25 times as much.
class HeaderEvents final : public JsonEvents {
 public:
  HeaderEvents(std::string_view text, const std::string& file, std::uint64_t data_bytes)
      : JsonEvents(text, file + ": header", Error::Kind::invalid_file), file_(file), data_bytes_(data_bytes) {}

  // Offsets count from the end of the header.
  std::vector<TensorInfo>& tensors() { return tensors_; }
  Metadata& metadata() { return metadata_; }

  bool null() override { misplaced("null"); }
  bool boolean(bool) override { misplaced("a truth value"); }
  bool number_integer(std::int64_t value) override;  // negative
  bool number_float(double, const std::string& text) override { misplaced("the number " + printable(text, 30)); }
  bool number_unsigned(std::uint64_t value) override;
  bool string(std::string& value) override;

  bool start_object(std::size_t) override;
  bool key(std::string& name) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;

 private:
  enum class Place { outside, top, metadata, tensor, shape, offsets };
  enum Field : unsigned { unknown_field = 0, dtype_field = 1, shape_field = 2, offsets_field = 4 };
  static constexpr std::string_view kMetadata = "__metadata__";

  [[noreturn]] void refuse_tensor(std::string_view what) const;

  [[noreturn]] void misplaced(const std::string& found) const;

  void add_tensor();

  std::string file_;
  std::uint64_t data_bytes_;
  std::vector<TensorInfo> tensors_;
  Metadata metadata_;
  std::string* metadata_value_ = nullptr;  // value of the last key
  TensorInfo tensor_;
  Place place_ = Place::outside;
  Field field_ = unknown_field;
  unsigned seen_ = 0;
  int offsets_ = 0;
  bool has_metadata_ = false;
};

TENON_INLINE void refuse_file(const std::string& where, std::string_view what) {
  throw Error(Error::Kind::invalid_file, where, what);
}

// False on overflow of 64 bits.
TENON_INLINE bool checked_mul(std::uint64_t a, std::uint64_t b, std::uint64_t& product) {
  return !__builtin_mul_overflow(a, b, &product);
}

TENON_INLINE bool byte_count(std::span<const std::uint64_t> shape, DType dtype, std::uint64_t& bytes) {
  std::uint64_t bits = static_cast<std::uint64_t>(dtype_bits(dtype));
  for (const auto dim : shape)
    if (!checked_mul(bits, dim, bits)) return false;
  bytes = bits / 8;
  return bits % 8 == 0;
}

TENON_INLINE bool HeaderEvents::number_integer(std::int64_t value) { misplaced("the number " + std::to_string(value)); }

TENON_INLINE bool HeaderEvents::number_unsigned(std::uint64_t value) {
  if (place_ == Place::shape) {
    if (tensor_.shape.size() == kMaxRank)
      refuse_tensor("shape has more than " + std::to_string(kMaxRank) + " dimensions");
    tensor_.shape.push_back(value);
  } else if (place_ == Place::offsets && offsets_ < 2) {
    (offsets_++ == 0 ? tensor_.begin : tensor_.end) = value;
  } else {
    misplaced(place_ == Place::offsets ? "a third number" : "the number " + std::to_string(value));
  }
  return true;
}

TENON_INLINE bool HeaderEvents::string(std::string& value) {
  if (place_ == Place::tensor && field_ == dtype_field) {
    const auto known = dtype_of(value);
    if (!known) refuse_tensor("dtype \"" + printable(value, 40) + "\" is not known");
    tensor_.dtype = *known;
  } else if (place_ == Place::metadata) {
    *metadata_value_ = std::move(value);
  } else {
    misplaced("a string");
  }
  return true;
}

TENON_INLINE bool HeaderEvents::start_object(std::size_t) {
  if (place_ == Place::outside) {
    place_ = Place::top;
  } else if (place_ != Place::top) {
    misplaced("an object");
  } else if (tensor_.name == kMetadata) {
    if (std::exchange(has_metadata_, true)) refuse("duplicate key __metadata__");
    place_ = Place::metadata;
  } else {
    place_ = Place::tensor;
    seen_ = 0;
    offsets_ = 0;
    tensor_.shape.clear();
  }
  return true;
}

TENON_INLINE bool HeaderEvents::key(std::string& name) {
  if (place_ == Place::top) {
    tensor_.name = std::move(name);
    const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
    if (std::any_of(tensor_.name.begin(), tensor_.name.end(), control)) refuse_tensor("control characters in the name");
  } else if (place_ == Place::metadata) {
    if (metadata_.size() == kMaxMetadata)
      refuse("__metadata__ has more than " + std::to_string(kMaxMetadata) + " keys");
    const auto [place, fresh] = metadata_.try_emplace(std::move(name));
    if (!fresh) refuse("duplicate key \"" + printable(place->first) + "\" in __metadata__");
    metadata_value_ = &place->second;
  } else {
    field_ = name == "dtype"          ? dtype_field
             : name == "shape"        ? shape_field
             : name == "data_offsets" ? offsets_field
                                      : unknown_field;
    if (field_ == unknown_field) refuse_tensor("unknown field \"" + printable(name) + "\"");
    if (seen_ & field_) refuse_tensor("duplicate field " + printable(name));
    seen_ |= field_;
  }
  return true;
}

TENON_INLINE bool HeaderEvents::end_object() {
  if (place_ == Place::tensor) add_tensor();
  place_ = place_ == Place::top ? Place::outside : Place::top;
  return true;
}

TENON_INLINE bool HeaderEvents::start_array(std::size_t) {
  if (place_ != Place::tensor || field_ == dtype_field) misplaced("a list");
  place_ = field_ == shape_field ? Place::shape : Place::offsets;
  return true;
}

TENON_INLINE bool HeaderEvents::end_array() {
  if (place_ == Place::offsets && offsets_ != 2) refuse_tensor("data_offsets must hold 2 numbers");
  place_ = Place::tensor;
  return true;
}

TENON_INLINE void HeaderEvents::refuse_tensor(std::string_view what) const {
  refuse_file(file_ + ": " + printable(tensor_.name), what);
}

TENON_INLINE void HeaderEvents::misplaced(const std::string& found) const {
  switch (place_) {
    case Place::outside:
      refuse("must be a JSON object, is " + found);
    case Place::top:
      if (tensor_.name == kMetadata) refuse("__metadata__ must be an object, is " + found);
      refuse_tensor("must be an object with dtype, shape and data_offsets, is " + found);
    case Place::metadata:
      refuse("__metadata__ must map strings to strings, holds " + found);
    case Place::shape:
      refuse_tensor("shape must hold whole numbers from 0, holds " + found);
    case Place::offsets:
      refuse_tensor("data_offsets must hold 2 whole numbers from 0, hold " + found);
    case Place::tensor:
      break;
  }
  refuse_tensor(field_ == dtype_field   ? "dtype must be a string, is " + found
                : field_ == shape_field ? "shape must be a list of whole numbers, is " + found
                                        : "data_offsets must be a list of 2 whole numbers, is " + found);
}

TENON_INLINE void HeaderEvents::add_tensor() {
  for (const auto& [field, name] :
       {std::pair(dtype_field, "dtype"), {shape_field, "shape"}, {offsets_field, "data_offsets"}})
    if (!(seen_ & field)) refuse_tensor(std::string(name) + " is missing");
  const auto [begin, end] = std::pair(tensor_.begin, tensor_.end);
  const std::string offsets = "data_offsets " + shape_text(std::array{begin, end});
  if (end < begin) refuse_tensor(offsets + " end before they begin");
  if (end > data_bytes_)
    refuse_tensor(offsets + " reach past the end of the data, which has " + std::to_string(data_bytes_) +
                  " bytes: the file is truncated, or its header is wrong");
  std::uint64_t needed = 0;
  const std::string form = "shape " + shape_text(tensor_.shape) + " of " + std::string(dtype_name(tensor_.dtype));
  if (!byte_count(tensor_.shape, tensor_.dtype, needed))
    refuse_tensor(form + " is not a whole number of bytes below 2^61");
  if (needed != end - begin)
    refuse_tensor(form + " needs " + std::to_string(needed) + " bytes, data_offsets hold " +
                  std::to_string(end - begin));
  if (tensors_.size() == kMaxTensors) refuse("more than " + std::to_string(kMaxTensors) + " tensors");
  tensors_.push_back(tensor_);
}

// Sorts by offset. Refuses duplicate names, overlaps, holes and trailing bytes. Bytes that no tensor covers could be a
// second file for another reader (polyglots, in Trail of Bits' audit of safetensors).
TENON_INLINE void require_exact_cover(std::vector<TensorInfo>& tensors, const std::string& file,
                                      std::uint64_t data_bytes) {
  const auto where = [&](const TensorInfo& at) { return file + ": " + printable(at.name); };
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name == b.name; });
  if (twice != tensors.end()) refuse_file(where(*twice), "duplicate tensor name");

  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const auto& a, const auto& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  std::uint64_t covered = 0;
  for (const auto& tensor : tensors) {
    if (tensor.begin < covered)
      refuse_file(where(tensor), "overlaps the tensor before it: data_offsets begin at " +
                                     std::to_string(tensor.begin) + ", the bytes up to " + std::to_string(covered) +
                                     " are taken");
    if (tensor.begin > covered)
      refuse_file(where(tensor), "a hole before it: bytes " + std::to_string(covered) + " to " +
                                     std::to_string(tensor.begin) + " of the data belong to no tensor");
    covered = tensor.end;
  }
  if (covered != data_bytes)
    refuse_file(file, std::to_string(data_bytes - covered) + " trailing bytes that no tensor covers");
}

// The likely format of a file that is not safetensors, with advice. Empty where nothing is recognised.
TENON_INLINE std::string likely_format(const File& file) {
  std::array<char, 512> bytes{};
  const std::size_t count = std::min<std::size_t>(bytes.size(), static_cast<std::size_t>(file.size()));
  file.read_at(0, std::as_writable_bytes(std::span(bytes.data(), count)));
  const std::string_view start(bytes.data(), count);
  using namespace std::string_view_literals;
  struct Known {
    std::string_view magic, what;
  };
  static constexpr Known known[] = {
      {"version https://git-lfs"sv, "a git-lfs pointer, not the weights; fetch them with: git lfs pull"},
      {"PK\x03\x04"sv,
       "a zip archive, as torch.save writes: a pickle inside, never opened here; convert it to safetensors"},
      {"\x80\x02"sv, "a pickle, never opened here; convert it to safetensors"},
      {"\x80\x03"sv, "a pickle, never opened here; convert it to safetensors"},
      {"\x80\x04"sv, "a pickle, never opened here; convert it to safetensors"},
      {"\x80\x05"sv, "a pickle, never opened here; convert it to safetensors"},
      {"GGUF"sv, "a GGUF file; rename it to end in .gguf, and give the path of this file as the model's"},
      {"\x89HDF"sv, "an HDF5 file; convert it to safetensors"},
      {"\x1f\x8b"sv, "compressed with gzip; unpack it"},
      {"{"sv, "JSON text, perhaps a server's error message; download the weights again"},
  };
  for (const auto& each : known)
    if (start.starts_with(each.magic)) return std::string(each.what);
  const auto text = start.find_first_not_of(" \t\r\n\xef\xbb\xbf"sv);
  if (text != start.npos && start[text] == '<')
    return "an HTML or XML page, perhaps a server's error message; download it again";
  return {};
}

TENON_INLINE void refuse_header(const File& file, const std::string& what) {
  const std::string seems = likely_format(file);
  refuse_file(file.name(), seems.empty() ? what : "not a safetensors file but " + seems + " (" + what + ")");
}

TENON_INLINE SafetensorsHeader read_header(const File& file) {
  static_assert(std::endian::native == std::endian::little,
                "tenon: safetensors are read on little-endian machines only");
  constexpr std::uint64_t prefix = 8;
  if (file.size() == 0) refuse_file(file.name(), "is empty (0 bytes); download it again");
  if (file.size() < prefix) refuse_header(file, "too short for the 8 bytes of the header's length: truncated");
  std::uint64_t length = 0;
  file.read_at(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length == 0) refuse_header(file, "the header is empty (length 0)");
  if (length > file.size() - prefix)
    refuse_header(file, "the header's length, " + std::to_string(length) + ", reaches past the end of the file of " +
                            std::to_string(file.size()) + " bytes: truncated, or no safetensors file");
  if (length > kMaxHeaderBytes)
    refuse_header(file, "the header's length, " + std::to_string(length) + ", is over the limit of " +
                            std::to_string(kMaxHeaderBytes));

  std::string text(static_cast<std::size_t>(length), '\0');
  file.read_at(prefix, std::as_writable_bytes(std::span(text)));
  if (text[0] != '{') refuse_header(file, "the header must be a JSON object and begin with '{'");
  const std::uint64_t data_begin = prefix + length, data_bytes = file.size() - data_begin;
  HeaderEvents events(text, file.name(), data_bytes);
  parse_json_events(events);
  require_exact_cover(events.tensors(), file.name(), data_bytes);
  for (auto& tensor : events.tensors()) {
    tensor.begin += data_begin;  // at most the file's size, so no overflow
    tensor.end += data_begin;
  }
  return {std::move(events.tensors()), std::move(events.metadata())};
}

}  // namespace tenon::detail
