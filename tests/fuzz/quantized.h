// Damaged checkpoints of GPTQ, AWQ and the other methods of quantized.h, as many as you like. Each is
// opened, and rows of all its matrices are decoded. It must load or be refused by tenon::Error.
#pragma once
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../checkpoint/quantized_case.h"
#include "seeds.h"

namespace tenon::test::fuzz_quantized {

inline constexpr std::int64_t kEdges[] = {
    -1, 0, 1, 2, 3, 31, 255, 1 << 20, std::int64_t{1} << 31, std::int64_t{1} << 62};

template <class Random>
std::int64_t edge(Random& random) {
  return kEdges[random() % std::size(kEdges)];
}

template <class Map, class Random>
auto& any_of(Map& map, Random& random) {
  return *std::next(map.begin(), static_cast<std::ptrdiff_t>(random() % map.size()));
}

// Another value for a member of the config, at any depth.
template <class Random>
void damage(nlohmann::json& value, Random& random) {
  if (value.is_structured() && !value.empty() && random() % 8 != 0) {
    auto member = std::next(value.begin(), static_cast<std::ptrdiff_t>(random() % value.size()));
    return damage(*member, random);
  }
  const nlohmann::json values[] = {
      edge(random), nullptr, "x", true, false, nlohmann::json::array({edge(random)}), 1.5, nlohmann::json::object()};
  value = values[random() % std::size(values)];
}

template <class Random>
void damage(TensorFile& file, Random& random) {
  auto& [name, tensor] = any_of(file.tensors, random);
  switch (random() % 6) {
    case 0: {  // without it
      const std::string gone = name;
      file.tensors.erase(gone);
      return;
    }
    case 1:  // transposed, or flat
      if (tensor.shape.size() == 2 && random() % 2 == 0) {
        std::swap(tensor.shape[0], tensor.shape[1]);
      } else if (tensor.shape.size() == 2) {
        tensor.shape = {tensor.shape[0] * tensor.shape[1]};
      }
      return;
    case 2:  // without its last row
      if (!tensor.shape.empty() && tensor.shape[0] > 0) {
        tensor.bytes.resize(tensor.bytes.size() - tensor.bytes.size() / tensor.shape[0]);
        --tensor.shape[0];
      }
      return;
    case 3: {  // another type of the same size
      using tenon::DType;
      const int bits = tenon::dtype_bits(tensor.dtype);
      const DType types[] = {DType::i8,  DType::u8,   DType::f8_e4m3, DType::i16,
                             DType::f16, DType::bf16, DType::i32,     DType::f32};
      const DType type = types[random() % std::size(types)];
      if (tenon::dtype_bits(type) == bits) tensor.dtype = type;
      return;
    }
    default:  // other bytes
      for (int k = 0; k < 4 && !tensor.bytes.empty(); ++k) {
        const std::size_t at = random() % tensor.bytes.size();
        const std::int64_t value = edge(random);
        if (random() % 2 == 0)
          tensor.bytes[at] = static_cast<std::byte>(random());
        else if (at + sizeof value <= tensor.bytes.size())
          std::memcpy(tensor.bytes.data() + at, &value, sizeof value);
      }
  }
}

// Opens the checkpoint, and reads two rows of each matrix, from `row` on, and all vectors.
inline void load(const QuantizedCase& folder, const tenon::test::MemoryFile& memory, int row) {
  tenon::ModelFiles files;
  const auto json = std::make_shared<const tenon::Json>(folder.config);
  files.config = std::make_shared<const tenon::ConfigFile>(json, "config.json");
  auto stored = tenon::Checkpoint::open_file(memory.write(folder.file.bytes()));
  if (const auto quantization = files.config->quantization())
    stored = decode_quantized(std::move(stored), *quantization, files.config->model_type() == "gpt2");
  files.tensors = std::make_shared<const tenon::Checkpoint>(std::move(stored));
  const auto model = tenon::detail::source_model(tenon::BuiltInModels{}, files);
  const tenon::TensorSource source(files, model.name_prefix);
  source.check(model.spec, model.tied_head);
  std::vector<float> values;
  const auto matrix = [&](const tenon::MatrixSpec& m) {
    if (m.none()) return;
    values.resize(2 * static_cast<std::size_t>(m.shape.cols));
    source.read(m, row % (m.shape.rows - 1), 2, values.data());
  };
  const auto vector = [&](const tenon::VectorSpec& v) {
    values.resize(static_cast<std::size_t>(v.shape.rows) * static_cast<std::size_t>(v.shape.cols));
    source.read(v, values.data());
  };
  tenon::visit_parts(model.spec, model.tied_head, {matrix, matrix, vector});
}

// Seeds of the command line, which run_seeds() describes.
inline int run(int argc, char** argv) {
  const tenon::test::MemoryFile memory;
  std::vector<QuantizedCase> sound;
  for (const std::string& name : tenon::test::quantized_cases()) {
    sound.emplace_back(name);
    for (const int row : {0, 1, 40, 255}) load(sound.back(), memory, row);
  }
  return tenon::test::run_seeds(argc, argv, [&](auto& random, std::uint32_t seed) {
    QuantizedCase damaged = sound[seed % sound.size()];
    for (int k = static_cast<int>(random() % 2); k >= 0; --k) {
      if (random() % 3 == 0)
        damage(damaged.quantization(), random);
      else
        damage(damaged.file, random);
    }
    load(damaged, memory, static_cast<int>(random() % 256));
  });
}

}  // namespace tenon::test::fuzz_quantized
