// The folders of quantized_cases/, which make_quantized_cases.py wrote. Tests change them and load them again.
#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "../io/scratch.h"
#include "tenon/checkpoint/quantized.h"
#include "tenon/model/any_family.h"
#include "tenon/model/files.h"
#include "tenon/model/quantize.h"
#include "tenon/model/tensor_source.h"
#include "tensor_file.h"

namespace tenon::test {

inline const std::filesystem::path kQuantizedCases = TENON_SOURCE_DIR "/tests/checkpoint/quantized_cases";

// The names of all folders.
inline std::vector<std::string> quantized_cases() {
  std::vector<std::string> names;
  for (const auto& each : std::filesystem::directory_iterator(kQuantizedCases))
    names.push_back(each.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// A folder in memory.
struct QuantizedCase {
  nlohmann::json config;
  TensorFile file;

  explicit QuantizedCase(const std::string& name) {
    std::ifstream(kQuantizedCases / name / "config.json") >> config;
    if (std::ifstream separate(kQuantizedCases / name / "hf_quant_config.json"); separate) {
      separate >> quantization();
      quantization()["quant_method"] = "modelopt";
    }
    file.read(kQuantizedCases / name / "model.safetensors");
  }
  nlohmann::json& quantization() { return config["quantization_config"]; }
  TensorFile::Tensor& tensor(const std::string& name) { return file.tensors.at(name); }
  void write(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "config.json") << config.dump(1);
    std::filesystem::remove(folder / "model.safetensors");
    file.write(folder / "model.safetensors");
  }
};

// All values of a tensor.
inline std::vector<float> values_of(const Checkpoint& checkpoint, const std::string& name) {
  const TensorInfo* tensor = checkpoint.find(name);
  if (!tensor) throw std::runtime_error("no tensor " + name);
  std::uint64_t elements = 1;
  for (const std::uint64_t dim : tensor->shape) elements *= dim;
  std::vector<float> out(elements);
  checkpoint.read_all(*tensor, out.data());
  return out;
}

// Reads every tensor of the model, as an engine does. Returns the names of the tensors without use.
inline std::vector<std::string> load_whole(const ModelFiles& files) {
  const auto model = detail::source_model(BuiltInModels{}, files);
  const TensorSource source(files, model.name_prefix);
  source.check(model.spec, model.tied_head);
  std::vector<float> values;
  const auto size = [&](Shape shape) {
    values.resize(static_cast<std::size_t>(shape.rows) * static_cast<std::size_t>(shape.cols));
    return values.data();
  };
  const auto matrix = [&](const MatrixSpec& m) { source.read(m, 0, m.shape.rows, size(m.shape)); };
  const auto vector = [&](const VectorSpec& v) { source.read(v, size(v.shape)); };
  visit_parts(model.spec, model.tied_head, {matrix, matrix, vector});
  return source.unused(model.spec, model.tied_head);
}

// The error about a changed folder; "accepted" where it loads.
inline std::string refusal_of(const std::string& name, const std::function<void(QuantizedCase&)>& change) {
  const Scratch scratch;
  QuantizedCase changed(name);
  change(changed);
  changed.write(scratch.folder());
  return refusal([&] { load_whole(load_checkpoint(scratch.folder())); });
}

// The checkpoint of a changed folder.
inline Checkpoint changed_checkpoint(const Scratch& scratch, const std::string& name,
                                     const std::function<void(QuantizedCase&)>& change) {
  QuantizedCase changed(name);
  change(changed);
  changed.write(scratch.folder());
  const ConfigFile config(scratch.folder());
  return decode_quantized(Checkpoint::open(scratch.folder()), *config.quantization(), config.model_type() == "gpt2");
}

// A damaged folder, and what its error says.
struct Damage {
  const char* name;
  std::function<void(QuantizedCase&)> change;
  std::vector<std::string> words;
};

// Checks that each is refused with its words.
inline void check_refused(std::span<const Damage> damages) {
  for (const Damage& each : damages) {
    const std::string message = refusal_of(each.name, each.change);
    if (!mentions(message, each.words)) throw std::runtime_error(std::string(each.name) + ": " + message);
  }
}

}  // namespace tenon::test
