// A small GGUF file in memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::test {

// Writes the parts of a file one after another.
struct GgufBytes {
  std::string bytes;

  template <class T>
  GgufBytes& number(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  GgufBytes& text(std::string_view value) {
    number<std::uint64_t>(value.size());
    bytes += value;
    return *this;
  }
  GgufBytes& head(std::uint64_t tensors, std::uint64_t entries, std::uint32_t version = 3) {
    bytes = "GGUF";
    return number(version).number(tensors).number(entries);
  }
  GgufBytes& entry(std::string_view key, std::uint32_t type) { return text(key).number(type); }
  // An F32 tensor of 4 values, unless told otherwise. `dims`: the fastest first.
  GgufBytes& tensor(std::string_view name, std::uint64_t offset, std::uint32_t type = 0,
                    const std::vector<std::uint64_t>& dims = {4}) {
    text(name).number(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t dim : dims) number(dim);
    return number(type).number(offset);
  }
  // Pads to the alignment, then adds `count` bytes.
  GgufBytes& data(std::size_t count, std::size_t alignment = 32) {
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment + count);
    return *this;
  }

  // A value with its type: integers are u32 or i32, numbers f32.
  GgufBytes& value(const nlohmann::json& json, bool typed = true) {
    const auto type = [&](std::uint32_t number_) { return typed ? (number(number_), 0) : 0; };
    if (json.is_string()) return type(8), text(json.get<std::string>());
    if (json.is_boolean()) return type(7), number(static_cast<std::uint8_t>(json.get<bool>()));
    if (json.is_number_float()) return type(6), number(json.get<float>());
    if (!json.is_array())
      return json >= 0 ? (type(4), number(json.get<std::uint32_t>())) : (type(5), number(json.get<std::int32_t>()));
    type(9);
    const nlohmann::json first = json.empty() ? nlohmann::json(0) : json[0];
    number(first.is_string() ? 8u : first.is_number_float() ? 6u : 5u).number<std::uint64_t>(json.size());
    for (const auto& each : json) {
      if (each.is_number_integer())
        number(each.get<std::int32_t>());
      else
        value(each, false);
    }
    return *this;
  }
};

// A model of F32 tensors, or of blocks of another type.
struct GgufFile {
  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> shape;  // rows first
    std::vector<float> values;
    std::uint32_t type = 0;
    std::string blocks = {};  // unless F32

    std::string_view bytes() const {
      if (type != 0) return blocks;
      return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
    }
  };
  nlohmann::json metadata = nlohmann::json::object();
  std::vector<Tensor> tensors;

  Tensor& at(std::string_view name) {
    for (Tensor& each : tensors)
      if (each.name == name) return each;
    throw std::runtime_error("no tensor " + std::string(name));
  }

  std::string bytes() const {
    GgufBytes out;
    out.head(tensors.size(), metadata.size());
    for (const auto& [key, value] : metadata.items()) out.text(key).value(value);
    std::uint64_t offset = 0;
    for (const Tensor& each : tensors) {
      out.tensor(each.name, offset, each.type, {each.shape.rbegin(), each.shape.rend()});
      offset += (each.bytes().size() + 31) / 32 * 32;
    }
    for (const Tensor& each : tensors) {
      out.data(0);
      out.bytes += each.bytes();
    }
    return out.data(0).bytes;
  }
};

}  // namespace tenon::test
