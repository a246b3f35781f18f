// The opened files of a model: the layout is checked, the weights are not read yet.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/checkpoint/config.h"
#include "tenon/checkpoint/safetensors.h"
#include "tenon/model/config.h"
#include "tenon/model/traits.h"
#include "tenon/tokenizer/bpe.h"

namespace tenon {

/// The names of modules in adapters of a model of images and texts.
struct AdapterNaming {
  std::string prefix = {};  ///< of the decoder's modules; empty: Model::name_prefix
  /// Beginnings of older names, and what PEFT replaces them by. The first that fits counts.
  std::vector<std::pair<std::string, std::string>> older = {};
};

/// An opened model folder or GGUF file. Engines of any type are made from it. The layout is checked; the weights are
/// not read yet.
struct ModelFiles {
  std::shared_ptr<const ConfigFile> config = {};
  std::shared_ptr<const Checkpoint> tensors = {};
  std::shared_ptr<const Tokenizer> tokenizer = {};  ///< null: the engine takes and gives token ids only
  AdapterNaming adapter_naming = {};
  std::string chat_template = {};  ///< Jinja text in a GGUF file; empty for a folder
  /// If set, there are no files: the model has these sizes and weights drawn from `seed`.
  std::optional<ModelConfig> random = {};
  std::uint64_t seed = 0;
};

/// A model of these sizes with random weights, for benchmarks and tests.
ModelFiles random_checkpoint(const ModelConfig& config, std::uint64_t seed = 0);

/// Error if `files` has neither a checkpoint nor random weights.
void need_files(const ModelFiles& files);

/// The model_type of the family that the files belong to.
std::string model_type_of(const ModelFiles& files);

/// Whether the folder has the files of a tokenizer.
bool has_tokenizer(const std::filesystem::path& folder);

/// Whether the path is that of a file, not of a folder: such a model is read as GGUF. A model in several GGUF files has
/// the path of the first.
bool is_model_file(const std::filesystem::path& path);

/// Opens a model. A folder has config.json, an optional generation_config.json, model.safetensors (or shards and their
/// index), and an optional tokenizer; quantized.h reads quantised ones of other libraries. A GGUF file has all of it
/// (gguf_model.h); it may be the first of several (gguf_parts.h). Errors name file and field.
ModelFiles load_checkpoint(const std::filesystem::path& path);

/// The tokenizer of a model folder or a GGUF file. Errors as for Tokenizer::load and open_gguf.
Tokenizer load_tokenizer(const std::filesystem::path& path);

/// Refuses more layers than the checkpoint can have: each has about a dozen tensors. Call it before memory grows with
/// the number, since the file may be hostile.
void check_layer_count(const ModelFiles& files, const ModelConfig& config);

/// Whether config.json names a model without a head, such as MistralModel. The checkpoint may have a language head.
bool is_bare_model(const ModelFiles& files);

/// The name of the code that a quantised checkpoint is stored in; empty for an original checkpoint. Error unsupported
/// if the name is unknown.
std::string weight_code_of(const ModelFiles& files);

/// Whether matrices are stored as codes with tensors of scales.
bool holds_codes(const std::string& code);

/// The configuration of a model's files. A checkpoint that was saved without its head (architectures: ["...Model"]) has
/// none: it gives embeddings.
ModelConfig configure(const ModelFiles& files, const Family& family);

namespace detail {

// Whether the metadata of a GGUF file has a tokenizer.
bool has_gguf_tokenizer(const Fields& metadata);

}  // namespace detail

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/files-inl.h"
#endif
