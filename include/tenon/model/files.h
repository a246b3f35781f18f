// The files of a model, opened: its layout is checked, its weights are not yet read.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "tenon/checkpoint/config.h"
#include "tenon/checkpoint/safetensors.h"
#include "tenon/core/error.h"
#include "tenon/model/config.h"
#include "tenon/tokenizer/bpe.h"
#include "tenon/weights/codes.h"

namespace tenon {

// A model folder, opened and its layout checked, its weights not yet read: engines of any type are made from it.
struct ModelFiles {
  std::shared_ptr<const ConfigFile> config = {};
  std::shared_ptr<const Checkpoint> tensors = {};
  std::shared_ptr<const Tokenizer> tokenizer = {};  // null: the engine takes and gives token ids only
  // In place of files: these sizes, and weights drawn from the seed.
  std::optional<ModelConfig> random = {};
  std::uint64_t seed = 0;
};

// A model of these sizes with random weights: for benchmarks and tests.
inline ModelFiles random_checkpoint(const ModelConfig& config, std::uint64_t seed = 0) {
  return {.random = config, .seed = seed};
}

// Error where there is nothing to make an engine of.
inline void need_files(const ModelFiles& files) {
  if (files.random || (files.config && files.tensors)) return;
  throw Error(Error::Kind::invalid_request, "model", "no files: make them by load_checkpoint or random_checkpoint");
}

// Of the family that the files are for.
inline std::string model_type_of(const ModelFiles& files) {
  need_files(files);
  return files.random ? files.random->model_type : files.config->model_type();
}

inline bool has_tokenizer(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const char* name : {"vocab.json", "merges.txt", "tokenizer.json"}) {
    if (std::filesystem::exists(folder / name, ignored)) return true;
  }
  return false;
}

// Opens the folder of a checkpoint: config.json, generation_config.json where it is there, model.safetensors (or shards
// and their index), and a tokenizer where one is found. Errors name file and field.
inline ModelFiles load_checkpoint(const std::filesystem::path& folder) {
  ModelFiles files;
  const auto config = std::make_shared<ConfigFile>(folder);
  files.config = config;
  files.tensors = std::make_shared<const Checkpoint>(Checkpoint::open(folder));
  if (has_tokenizer(folder)) {
    files.tokenizer =
        std::make_shared<const Tokenizer>(Tokenizer::load(folder, config->fields().positive_int("vocab_size")));
    if (const auto eos = files.tokenizer->end_of_text()) config->set_tokenizer_eos(*eos);
  }
  return files;
}

// Each layer has a dozen tensors: a count of layers from a hostile file is refused before anything grows with it.
inline void check_layer_count(const ModelFiles& files, const ModelConfig& config) {
  if (files.random || static_cast<std::size_t>(config.layers) <= files.tensors->tensors().size()) return;
  throw Error(Error::Kind::invalid_file, "config.json: n_layer or num_hidden_layers",
              std::to_string(config.layers) + " layers, but the checkpoint has only " +
                  std::to_string(files.tensors->tensors().size()) + " tensors");
}

// The code that a quantised checkpoint is stored in, by name; empty for a checkpoint as its authors made it. Error
// unsupported where the name is not known.
inline std::string weight_code_of(const ModelFiles& files) {
  need_files(files);
  const std::string* name = files.random ? nullptr : files.tensors->metadata("tenon.weights");
  if (name == nullptr) return {};
  return with_code(*name, files.tensors->name() + ": __metadata__: tenon.weights",
                   [](auto code) { return std::string(code.name); });
}

// Whether matrices are codes with tensors of scales beside them.
inline bool holds_codes(const std::string& code) {
  return !code.empty() && with_code(code, "", [](auto c) { return !is_plain_code<decltype(c)>; });
}

}  // namespace tenon
