#pragma once
#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "tenon/checkpoint/gguf-inl.h"
#include "tenon/checkpoint/gguf_blocks.h"
#include "tenon/checkpoint/gguf_writer.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/json.h"

namespace tenon::detail {

inline constexpr std::uint64_t kGgufAlignment = 32;  // of the format, if the metadata gives no other

// Appends numbers and strings, as GgufCursor reads them.
struct GgufText {
  std::string& bytes;

  template <class T>
  void number(T value) const {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string_view value) const {
    number(static_cast<std::uint64_t>(value.size()));
    bytes += value;
  }
  void type(GgufType value) const { number(static_cast<std::uint32_t>(value)); }
};

template <class T>
T whole_number(std::string_view key, const Json& value) {
  const bool negative = value.is_number_integer() && !value.is_number_unsigned() && value.get<std::int64_t>() < 0;
  const bool fits = negative ? value.get<std::int64_t>() >= std::int64_t{std::numeric_limits<T>::min()}
                             : value.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<T>::max()};
  if (!fits) throw Error(Error::Kind::internal, std::string(key), value.dump() + " does not fit its type");
  return value.get<T>();
}

// The type of a number, outside of lists and in them.
inline GgufType gguf_type_of(const Json& value, bool in_list) {
  if (value.is_boolean()) return GgufType::boolean;
  if (value.is_string()) return GgufType::string;
  if (value.is_number_float()) return GgufType::f32;
  if (value.is_array() && !in_list) return GgufType::list;
  if (!value.is_number_integer()) throw Error(Error::Kind::internal, "GGUF", "a value without a type");
  return in_list || (!value.is_number_unsigned() && value.get<std::int64_t>() < 0) ? GgufType::i32 : GgufType::u32;
}

inline void append_value(std::string_view key, GgufType type, const Json& value, const GgufText& out) {
  switch (type) {
    case GgufType::boolean:
      return out.number(static_cast<std::uint8_t>(value.get<bool>()));
    case GgufType::string:
      return out.text(value.get_ref<const std::string&>());
    case GgufType::f32:
      return out.number(value.get<float>());
    case GgufType::i32:
      return out.number(whole_number<std::int32_t>(key, value));
    default:
      return out.number(whole_number<std::uint32_t>(key, value));
  }
}

// The number of a type in files; the type must be one that is read.
inline std::uint32_t gguf_type_number(DType type) {
  for (const GgufTensorType& each : kGgufTensorTypes)
    if (each.type == type) return each.number;
  throw Error(Error::Kind::internal, std::string(dtype_name(type)), "is no type of GGUF");
}

inline std::uint64_t aligned(std::uint64_t offset) {
  return (offset + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment;
}

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE void GgufMetadata::add(std::string_view key, const Json& value) {
  const detail::GgufText out{bytes_};
  out.text(key);
  const detail::GgufType type = detail::gguf_type_of(value, false);
  out.type(type);
  ++entries_;
  if (type != detail::GgufType::list) return detail::append_value(key, type, value, out);
  const detail::GgufType element = value.empty() ? detail::GgufType::string : detail::gguf_type_of(value.front(), true);
  out.type(element);
  out.number(static_cast<std::uint64_t>(value.size()));
  for (const Json& each : value) detail::append_value(key, element, each, out);
}

TENON_INLINE void GgufMetadata::add_bytes(std::span<const std::byte> entry) {
  bytes_.append(reinterpret_cast<const char*>(entry.data()), entry.size());
  ++entries_;
}

TENON_INLINE GgufWriter::GgufWriter(const std::filesystem::path& path, const std::vector<TensorPlan>& plans,
                                    const GgufMetadata& metadata)
    : TensorFileWriter(path, plans.size()) {
  static_assert(std::endian::native == std::endian::little, "tenon: GGUF is written on little-endian machines only");
  std::string header(detail::kGgufMagic);
  const detail::GgufText out{header};
  out.number(std::uint32_t{3});
  out.number(static_cast<std::uint64_t>(plans.size()));
  out.number(metadata.entries());
  header += metadata.bytes();
  std::vector<TensorInfo> tensors;
  std::uint64_t at = 0;
  for (const TensorPlan& plan : plans) {
    const GgufBlock block = block_layout(plan.dtype);
    std::uint64_t bytes = static_cast<std::uint64_t>(block.bytes);
    for (const std::uint64_t dim : plan.shape)
      if (__builtin_mul_overflow(bytes, dim, &bytes)) refuse(plan.name, "has 2^64 bytes or more");
    const auto values = static_cast<std::uint64_t>(block.values);
    if ((plan.shape.empty() ? 1 : plan.shape.back()) % values != 0) refuse(plan.name, "ends within a block");
    bytes /= values;
    out.text(plan.name);
    out.number(static_cast<std::uint32_t>(plan.shape.size()));
    for (auto dim = plan.shape.rbegin(); dim != plan.shape.rend(); ++dim) out.number(*dim);
    out.number(detail::gguf_type_number(plan.dtype));
    out.number(at);
    tensors.push_back({plan.name, plan.dtype, plan.shape, at, at + bytes});
    at = detail::aligned(at + bytes);
  }
  header.resize(static_cast<std::size_t>(detail::aligned(header.size())));
  const std::uint64_t data_begin = header.size();
  for (const TensorInfo& tensor : tensors) {  // zeros after each tensor, after the last one, too
    const std::string padding(static_cast<std::size_t>(detail::aligned(tensor.end) - tensor.end), '\0');
    write_at(data_begin + tensor.end, std::as_bytes(std::span(padding)));
  }
  place(std::move(tensors));
  write_header(header, data_begin);
}

}  // namespace tenon
