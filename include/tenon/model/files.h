// The files of a model, opened: its layout is checked, its weights are not yet read.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "tenon/checkpoint/config.h"
#include "tenon/checkpoint/safetensors.h"
#include "tenon/model/config.h"
#include "tenon/tokenizer/bpe.h"

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
ModelFiles random_checkpoint(const ModelConfig& config, std::uint64_t seed = 0);

// Error where there is nothing to make an engine of.
void need_files(const ModelFiles& files);

// Of the family that the files are for.
std::string model_type_of(const ModelFiles& files);

bool has_tokenizer(const std::filesystem::path& folder);

// Opens the folder of a checkpoint: config.json, generation_config.json where it is there, model.safetensors (or shards
// and their index), and a tokenizer where one is found. Errors name file and field.
ModelFiles load_checkpoint(const std::filesystem::path& folder);

// Each layer has a dozen tensors: a count of layers from a hostile file is refused before anything grows with it.
void check_layer_count(const ModelFiles& files, const ModelConfig& config);

// The code that a quantised checkpoint is stored in, by name; empty for a checkpoint as its authors made it. Error
// unsupported where the name is not known.
std::string weight_code_of(const ModelFiles& files);

// Whether matrices are codes with tensors of scales beside them.
bool holds_codes(const std::string& code);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/files-inl.h"
#endif
