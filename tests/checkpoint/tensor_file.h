// A small safetensors file in memory. Tests change it and write it again.
#pragma once
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/checkpoint/safetensors.h"
#include "tenon/checkpoint/safetensors_writer.h"

namespace tenon::test {

struct TensorFile {
  struct Tensor {
    DType dtype = DType::f32;
    std::vector<std::uint64_t> shape;
    std::vector<std::byte> bytes;

    // Sets element i.
    template <class T>
    void put(std::size_t i, T value) {
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
  };
  Metadata metadata;
  std::map<std::string, Tensor> tensors;

  template <class T>
  void add(const std::string& name, DType dtype, std::vector<std::uint64_t> shape, const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    tensors[name] = {dtype, std::move(shape), {bytes.begin(), bytes.end()}};
  }

  void read(const std::filesystem::path& path) {
    const File file(path);
    SafetensorsHeader header = detail::read_header(file);
    metadata = std::move(header.metadata);
    for (const TensorInfo& info : header.tensors) {
      Tensor& tensor = tensors[info.name];
      tensor = {info.dtype, info.shape, std::vector<std::byte>(info.end - info.begin)};
      file.read_at(info.begin, tensor.bytes);
    }
  }

  // The file, without a SafetensorsWriter: a fuzz target makes 100,000 of them.
  std::string bytes() const {
    nlohmann::json header = {{"__metadata__", metadata}};
    std::string data;
    for (const auto& [name, tensor] : tensors) {
      header[name] = {{"dtype", dtype_name(tensor.dtype)},
                      {"shape", tensor.shape},
                      {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
      data.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    }
    std::string text = header.dump();
    const std::uint64_t size = text.size();
    return std::string(reinterpret_cast<const char*>(&size), sizeof size) + text + data;
  }

  void write(const std::filesystem::path& path) const {
    std::vector<TensorPlan> plans;
    for (const auto& [name, tensor] : tensors) plans.push_back({name, tensor.dtype, tensor.shape});
    SafetensorsWriter writer(path, plans, metadata);
    for (const auto& [name, tensor] : tensors) writer.write(name, 0, tensor.bytes);
    writer.finish();
  }
};

}  // namespace tenon::test
