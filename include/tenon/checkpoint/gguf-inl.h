#pragma once
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "tenon/checkpoint/gguf.h"
#include "tenon/checkpoint/gguf_blocks.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/json.h"

namespace tenon::detail {

inline constexpr std::string_view kGgufMagic = "GGUF";
inline constexpr std::size_t kMaxGgufKey = 65535;  // bytes, the limit of the format
inline constexpr std::size_t kMaxGgufRank = 4;     // GGML_MAX_DIMS

// The types of metadata, with the numbers of the format.
enum class GgufType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, list, u64, i64, f64 };
inline constexpr int kGgufTypeBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};  // the least; of a string, its length

struct GgufTensorType {
  std::uint32_t number;  // ggml_type
  std::string_view name;
  std::optional<DType> type;  // empty: not read
};
inline constexpr GgufTensorType kGgufTensorTypes[] = {
    {0, "F32", DType::f32},          {1, "F16", DType::f16},
    {2, "Q4_0", DType::q4_0},        {3, "Q4_1", DType::q4_1},
    {6, "Q5_0", DType::q5_0},        {7, "Q5_1", DType::q5_1},
    {8, "Q8_0", DType::q8_0},        {9, "Q8_1", {}},
    {10, "Q2_K", DType::q2_k},       {11, "Q3_K", DType::q3_k},
    {12, "Q4_K", DType::q4_k},       {13, "Q5_K", DType::q5_k},
    {14, "Q6_K", DType::q6_k},       {15, "Q8_K", {}},
    {16, "IQ2_XXS", DType::iq2_xxs}, {17, "IQ2_XS", DType::iq2_xs},
    {18, "IQ3_XXS", DType::iq3_xxs}, {19, "IQ1_S", DType::iq1_s},
    {20, "IQ4_NL", DType::iq4_nl},   {21, "IQ3_S", DType::iq3_s},
    {22, "IQ2_S", DType::iq2_s},     {23, "IQ4_XS", DType::iq4_xs},
    {24, "I8", DType::i8},           {25, "I16", DType::i16},
    {26, "I32", DType::i32},         {27, "I64", DType::i64},
    {28, "F64", DType::f64},         {29, "IQ1_M", DType::iq1_m},
    {30, "BF16", DType::bf16},       {34, "TQ1_0", DType::tq1_0},
    {35, "TQ2_0", DType::tq2_0},     {39, "MXFP4", DType::mxfp4},
    {40, "NVFP4", DType::nvfp4},     {41, "Q1_0", {}},
};

// Reads numbers and strings one after another. The header has no length of its own, so blocks of the file are read
// ahead.
class GgufCursor {
 public:
  explicit GgufCursor(const File& file) : file_(file), end_(std::min<std::uint64_t>(file.size(), kMaxHeaderBytes)) {}

  std::uint64_t at() const { return at_; }
  // Bytes that a header can still have.
  std::uint64_t left() const { return end_ - at_; }

  template <class T>
  T number(const std::string& what) {
    T value{};
    read(std::as_writable_bytes(std::span(&value, 1)), what);
    return value;
  }

  std::string text(std::size_t most, const std::string& what) {
    const auto size = number<std::uint64_t>(what);
    need(size, what);
    if (size > most)
      refuse_file(where(what), "has " + std::to_string(size) + " bytes, the limit is " + std::to_string(most));
    std::string out(static_cast<std::size_t>(size), '\0');
    read(std::as_writable_bytes(std::span(out)), what);
    return out;
  }

  // Error where fewer than `bytes` bytes are left.
  void need(std::uint64_t bytes, const std::string& what) const {
    if (bytes <= left()) return;
    if (end_ < file_.size())
      refuse_file(where(what), "takes the header over the limit of " + std::to_string(kMaxHeaderBytes) + " bytes");
    refuse_file(where(what), "needs " + std::to_string(bytes) + " bytes, but the file ends after " +
                                 std::to_string(left()) + ": truncated, or its header is wrong");
  }

  std::string where(const std::string& what) const { return file_.name() + ": " + what; }

 private:
  static constexpr std::uint64_t kBlock = 1u << 18;

  void read(std::span<std::byte> out, const std::string& what) {
    need(out.size(), what);
    while (!out.empty()) {
      if (at_ < begin_ || at_ >= begin_ + block_.size()) {
        begin_ = at_;
        block_.resize(static_cast<std::size_t>(std::min(kBlock, left())));
        file_.read_at(begin_, block_);
      }
      const auto skip = static_cast<std::size_t>(at_ - begin_);
      const std::size_t n = std::min(out.size(), block_.size() - skip);
      std::memcpy(out.data(), block_.data() + skip, n);
      at_ += n;
      out = out.subspan(n);
    }
  }

  const File& file_;
  std::uint64_t end_, at_ = 0, begin_ = 0;
  std::vector<std::byte> block_;  // bytes [begin_, begin_ + size) of the file
};

// Text that is printed and looked up: no control characters.
inline void check_gguf_name(const std::string& name, const std::string& where) {
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (name.empty()) refuse_file(where, "the name is empty");
  if (std::any_of(name.begin(), name.end(), control)) refuse_file(where, "control characters in the name");
}

class GgufReader {
 public:
  explicit GgufReader(const File& file) : file_(file), cursor_(file) {}

  GgufHeader read() {
    GgufHeader header;
    header.version = read_version();
    const auto tensors = cursor_.number<std::uint64_t>("the number of tensors");
    const auto entries = cursor_.number<std::uint64_t>("the number of metadata entries");
    if (tensors > kMaxTensors) refuse("has " + std::to_string(tensors) + " tensors, the limit is 1000000");
    cursor_.need(entries, "the list of metadata entries");  // an entry has more than one byte
    Json metadata = Json::object();
    for (std::uint64_t i = 0; i < entries; ++i) header.entries.push_back(add_entry(metadata, i));
    const std::uint64_t alignment = alignment_of(metadata);
    for (std::uint64_t i = 0; i < tensors; ++i) header.tensors.push_back(tensor(i));
    place(header.tensors, alignment);
    header.metadata = std::make_shared<const Json>(std::move(metadata));
    return header;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { refuse_file(file_.name(), what); }
  [[noreturn]] void unsupported(const std::string& what, const std::string& why) const {
    throw Error(Error::Kind::unsupported, cursor_.where(what), why);
  }

  int read_version() {
    static_assert(std::endian::native == std::endian::little, "tenon: GGUF is read on little-endian machines only");
    if (!is_gguf(file_)) refuse("is no GGUF file: it does not begin with the letters GGUF");
    cursor_.number<std::uint32_t>("the magic");
    const auto version = cursor_.number<std::uint32_t>("the version");
    if (version != 0 && (version & 0xffffu) == 0) unsupported("the version", "the file is big-endian, not supported");
    if (version != 2 && version != 3)
      unsupported("the version", std::to_string(version) + " is not supported; 2 and 3 are");
    return static_cast<int>(version);
  }

  GgufEntry add_entry(Json& metadata, std::uint64_t index) {
    const std::uint64_t begin = cursor_.at();
    const std::string place = "metadata entry " + std::to_string(index);
    std::string key = cursor_.text(kMaxGgufKey, place);
    check_gguf_name(key, cursor_.where(place));
    const std::string name = printable(key);
    const GgufType type = value_type(cursor_.number<std::uint32_t>(name), name);
    Json read = type == GgufType::list ? list(name) : value(type, name);
    if (!metadata.emplace(key, std::move(read)).second) refuse_file(cursor_.where(name), "is in the metadata twice");
    return {std::move(key), begin, cursor_.at()};
  }

  GgufType value_type(std::uint32_t number, const std::string& name) const {
    if (number >= std::size(kGgufTypeBytes))
      refuse_file(cursor_.where(name), "has the type " + std::to_string(number) + ", the format has types 0 to 12");
    return static_cast<GgufType>(number);
  }

  Json list(const std::string& name) {
    const GgufType type = value_type(cursor_.number<std::uint32_t>(name), name);
    const auto size = cursor_.number<std::uint64_t>(name);
    if (type == GgufType::list) unsupported(name, "a list of lists is not supported");
    if (size > cursor_.left()) cursor_.need(size, name);  // no overflow in the product
    cursor_.need(size * static_cast<std::uint64_t>(kGgufTypeBytes[static_cast<std::size_t>(type)]), name);
    Json out = Json::array();
    for (std::uint64_t i = 0; i < size; ++i) out.push_back(value(type, name));
    return out;
  }

  template <class T>
  Json integer(const std::string& name) {
    const T number = cursor_.number<T>(name);
    // As the parser of JSON does: only negative numbers are signed.
    return number < 0 ? Json(static_cast<std::int64_t>(number)) : Json(static_cast<std::uint64_t>(number));
  }

  Json value(GgufType type, const std::string& name) {
    if (++values_ > kMaxGgufValues)
      refuse_file(cursor_.where(name), "takes the metadata over " + std::to_string(kMaxGgufValues) + " values");
    switch (type) {
      case GgufType::u8:
        return integer<std::uint8_t>(name);
      case GgufType::i8:
        return integer<std::int8_t>(name);
      case GgufType::u16:
        return integer<std::uint16_t>(name);
      case GgufType::i16:
        return integer<std::int16_t>(name);
      case GgufType::u32:
        return integer<std::uint32_t>(name);
      case GgufType::i32:
        return integer<std::int32_t>(name);
      case GgufType::u64:
        return integer<std::uint64_t>(name);
      case GgufType::i64:
        return integer<std::int64_t>(name);
      case GgufType::f32:
        return Json(static_cast<double>(cursor_.number<float>(name)));
      case GgufType::f64:
        return Json(cursor_.number<double>(name));
      case GgufType::boolean: {
        const auto byte = cursor_.number<std::uint8_t>(name);
        if (byte > 1) refuse_file(cursor_.where(name), "a truth value is " + std::to_string(byte) + ", must be 0 or 1");
        return Json(byte == 1);
      }
      case GgufType::string:
        return Json(cursor_.text(kMaxHeaderBytes, name));
      case GgufType::list:
        break;
    }
    throw Error(Error::Kind::internal, cursor_.where(name), "a list is no value");
  }

  std::uint64_t alignment_of(const Json& metadata) const {
    constexpr const char* key = "general.alignment";
    constexpr std::uint64_t usual = 32, largest = 1u << 20;
    const auto found = metadata.find(key);
    if (found == metadata.end()) return usual;
    const bool number = found->is_number_unsigned();
    const std::uint64_t alignment = number ? found->get<std::uint64_t>() : 0;
    if (!std::has_single_bit(alignment) || alignment > largest)
      refuse_file(cursor_.where(key), "must be a power of two up to 1048576" +
                                          (number ? ", is " + std::to_string(alignment) : std::string()));
    return alignment;
  }

  // A tensor whose `begin` is still the offset in the data.
  TensorInfo tensor(std::uint64_t index) {
    const std::string place = "tensor " + std::to_string(index);
    TensorInfo out;
    out.name = cursor_.text(kMaxGgufKey, place);
    check_gguf_name(out.name, cursor_.where(place));
    const std::string name = printable(out.name);
    const auto rank = cursor_.number<std::uint32_t>(name);
    if (rank > kMaxGgufRank)
      refuse_file(cursor_.where(name), "has " + std::to_string(rank) + " dimensions, the format has at most 4");
    for (std::uint32_t i = 0; i < rank; ++i) out.shape.push_back(cursor_.number<std::uint64_t>(name));
    std::reverse(out.shape.begin(), out.shape.end());
    out.dtype = tensor_type(cursor_.number<std::uint32_t>(name), name);
    out.begin = cursor_.number<std::uint64_t>(name);
    out.end = out.begin + bytes_of(out, name);  // checked by place()
    return out;
  }

  DType tensor_type(std::uint32_t number, const std::string& name) const {
    std::string known = std::to_string(number), read;
    for (const GgufTensorType& each : kGgufTensorTypes) {
      if (each.number == number && each.type) return *each.type;
      if (each.number == number) known = each.name;
      if (each.type && (is_block(*each.type) || is_weight(*each.type)))
        read += (read.empty() ? "" : ", ") + std::string(each.name);
    }
    unsupported(name, "the type " + known + " is not read; read are " + read);
  }

  // Bytes of a tensor; at most the file's.
  std::uint64_t bytes_of(const TensorInfo& tensor, const std::string& name) const {
    const GgufBlock layout = block_layout(tensor.dtype);
    const auto values = static_cast<std::uint64_t>(layout.values);
    std::uint64_t count = 1;
    for (const std::uint64_t dim : tensor.shape)
      if (__builtin_mul_overflow(count, dim, &count))
        refuse_file(cursor_.where(name), "the shape " + shape_text(tensor.shape) + " has 2^64 values or more");
    const std::uint64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
    if (row % values != 0)
      refuse_file(cursor_.where(name), "rows have " + std::to_string(row) + " values, which is no multiple of " +
                                           std::to_string(values) + ", the block of " +
                                           std::string(dtype_name(tensor.dtype)));
    const std::uint64_t blocks = count / values, bytes = static_cast<std::uint64_t>(layout.bytes);
    if (blocks > file_.size() / bytes)
      refuse_file(cursor_.where(name), "the shape " + shape_text(tensor.shape) + " of " +
                                           std::string(dtype_name(tensor.dtype)) +
                                           " needs more bytes than the file has");
    return blocks * bytes;
  }

  // Makes offsets count from the start of the file, and checks that each tensor has a place of its own in it.
  void place(std::vector<TensorInfo>& tensors, std::uint64_t alignment) const {
    const std::uint64_t data = (cursor_.at() + alignment - 1) / alignment * alignment;
    std::set<std::string_view> names;
    for (TensorInfo& tensor : tensors) {
      const std::string where = cursor_.where(printable(tensor.name));
      if (!names.insert(tensor.name).second) refuse_file(where, "duplicate tensor name");
      const std::uint64_t offset = tensor.begin, bytes = tensor.end - tensor.begin;
      if (offset % alignment != 0)
        refuse_file(where, "the offset " + std::to_string(offset) + " is no multiple of the alignment, " +
                               std::to_string(alignment));
      if (data > file_.size() || offset > file_.size() - data || bytes > file_.size() - data - offset)
        refuse_file(where, "the offset " + std::to_string(offset) + " and " + std::to_string(bytes) +
                               " bytes reach past the end of the file, which has " + std::to_string(file_.size()) +
                               " bytes: truncated, or its header is wrong");
      tensor.begin = data + offset;
      tensor.end = tensor.begin + bytes;
    }
    std::vector<const TensorInfo*> sorted;
    for (const TensorInfo& tensor : tensors) sorted.push_back(&tensor);
    std::sort(sorted.begin(), sorted.end(),
              [](const auto* a, const auto* b) { return std::pair(a->begin, a->end) < std::pair(b->begin, b->end); });
    for (std::size_t i = 1; i < sorted.size(); ++i)
      if (sorted[i]->begin < sorted[i - 1]->end)
        refuse_file(cursor_.where(printable(sorted[i]->name)), "overlaps " + printable(sorted[i - 1]->name));
  }

  const File& file_;
  GgufCursor cursor_;
  std::uint64_t values_ = 0;
};

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE bool is_gguf(const File& file) {
  char start[4] = {};
  if (file.size() < sizeof start) return false;
  file.read_at(0, std::as_writable_bytes(std::span(start)));
  return std::string_view(start, sizeof start) == detail::kGgufMagic;
}

TENON_INLINE GgufHeader read_gguf_header(const File& file) { return detail::GgufReader(file).read(); }

}  // namespace tenon
