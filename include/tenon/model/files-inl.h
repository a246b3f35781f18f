#pragma once
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "tenon/checkpoint/gguf_model.h"
#include "tenon/checkpoint/quantized.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/fields.h"
#include "tenon/io/json.h"
#include "tenon/model/files.h"
#include "tenon/tokenizer/unicode.h"
#include "tenon/weights/codes.h"

namespace tenon {

TENON_INLINE ModelFiles random_checkpoint(const ModelConfig& config, std::uint64_t seed) {
  return {.random = config, .seed = seed};
}

TENON_INLINE void need_files(const ModelFiles& files) {
  if (files.random || (files.config && files.tensors)) return;
  throw Error(Error::Kind::invalid_request, "model", "no files: make them by load_checkpoint or random_checkpoint");
}

TENON_INLINE std::string model_type_of(const ModelFiles& files) {
  need_files(files);
  return files.random ? files.random->model_type : files.config->model_type();
}

TENON_INLINE bool has_tokenizer(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const char* name : {"vocab.json", "merges.txt", "tokenizer.json", "tokenizer.model"}) {
    if (std::filesystem::exists(folder / name, ignored)) return true;
  }
  return false;
}

TENON_INLINE bool is_model_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

TENON_INLINE ModelConfig configure(const ModelFiles& files, const Family& family) {
  need_files(files);
  if (files.random) return *files.random;
  ModelConfig c = family.configure(*files.config);
  if (!c.language_head || !is_bare_model(files)) return c;
  check_layer_count(files, c);
  const DecoderSpec spec = family.tensors(c);
  // A tied head is there, but its bias may not be.
  const auto& parts = c.tied_head ? spec.head_bias.parts : spec.head.parts;
  if (parts.empty()) return c;
  c.language_head = files.tensors->find(parts.front().name) != nullptr;
  if (!c.language_head) c.tied_head = true;
  return c;
}

}  // namespace tenon

namespace tenon::detail {

// Some GGUF files hold no tokenizer: the key is absent, or its value is "none" or "no_vocab".
TENON_INLINE bool has_gguf_tokenizer(const Fields& metadata) {
  const std::string kind = metadata.string("tokenizer.ggml.model", "none");
  return kind != "none" && kind != "no_vocab";
}

// The changes of names that PEFT makes in adapters: _checkpoint_conversion_mapping of the model's class.
inline std::vector<std::pair<std::string, std::string>> older_names(std::string_view model_type) {
  if (model_type == "gemma3" || model_type == "mistral3")
    return {{"language_model.model.", "model.language_model."}, {"language_model.lm_head.", "lm_head."}};
  if (model_type == "qwen2_vl" || model_type == "qwen2_5_vl")
    return {{"model.language_model.", "model.language_model."},
            {"model.visual.", "model.visual."},
            {"model.", "model.language_model."}};
  return {};
}

inline ModelFiles load_gguf(const std::filesystem::path& path) {
  GgufFiles opened = open_gguf(path);
  GgufModel model = read_gguf_model(opened);
  const std::string name = opened.files.front().name();
  const Fields metadata(*model.metadata, name);
  ModelFiles files;
  files.config = std::make_shared<const ConfigFile>(model.config, name + " (as config.json)");
  if (has_gguf_tokenizer(metadata))
    files.tokenizer = std::make_shared<const Tokenizer>(
        Tokenizer::from_gguf(metadata, files.config->fields().positive_int("vocab_size")));
  constexpr const char* chat_key = "tokenizer.chat_template";
  files.chat_template = metadata.string(chat_key, "");
  if (find_invalid_utf8(files.chat_template) != files.chat_template.npos)
    metadata.refuse(chat_key, "is not valid UTF-8");
  // The decoder of a Qwen-VL is read as a Qwen of texts. Adapters have the names of the whole model.
  const std::string architecture = metadata.string("general.architecture");
  if (architecture == "qwen2vl" || architecture == "qwen3vl")
    files.adapter_naming = {"model.language_model.", older_names(architecture == "qwen2vl" ? "qwen2_vl" : "qwen3_vl")};
  files.tensors =
      std::make_shared<const Checkpoint>(Checkpoint::of_tensors(std::move(opened.files), std::move(model.tensors)));
  return files;
}

}  // namespace tenon::detail

namespace tenon {

namespace detail {

// Files of models of images and texts have older names of the decoder's tensors than their classes (transformers,
// _checkpoint_conversion_mapping). `flat`: Qwen2-VL's, which has the names of a model of texts.
inline void rename_decoder(Checkpoint& tensors, bool flat) {
  constexpr std::pair<std::string_view, std::string_view> renamed[] = {
      {"language_model.model.", "model.language_model."}, {"language_model.lm_head.", "lm_head."}};
  constexpr std::string_view newer[] = {"model.language_model.", "model.visual."};
  std::map<std::string, TensorInfo> made;
  std::set<std::string> names;
  for (const TensorInfo& each : tensors.tensors()) {
    TensorInfo info = each;
    for (const auto& [stored, name] : renamed)
      if (each.name.starts_with(stored)) info.name = std::string(name) + each.name.substr(stored.size());
    const bool old =
        std::none_of(std::begin(newer), std::end(newer), [&](auto name) { return each.name.starts_with(name); });
    if (flat && old && each.name.starts_with("model.")) info.name = "model.language_model." + each.name.substr(6);
    if (!names.insert(info.name).second)
      throw Error(Error::Kind::invalid_file, tensors.where(each), "is there twice, as a tensor of the decoder");
    if (info.name != each.name) made.emplace(each.name, std::move(info));
  }
  tensors.replace({}, std::move(made));
}

}  // namespace detail

TENON_INLINE ModelFiles load_checkpoint(const std::filesystem::path& folder) {
  if (is_model_file(folder)) return detail::load_gguf(folder);
  ModelFiles files;
  const auto config = std::make_shared<ConfigFile>(folder);
  files.config = config;
  Checkpoint tensors = Checkpoint::open(folder);
  if (const auto quantization = config->quantization())
    tensors = decode_quantized(std::move(tensors), *quantization, config->model_type() == "gpt2");
  if (config->reads_images()) {
    detail::rename_decoder(tensors, config->model_type().starts_with("qwen2_"));
    config->set_has_head(tensors.find("lm_head.weight") != nullptr);
    files.adapter_naming.older = detail::older_names(config->model_type());
  }
  files.tensors = std::make_shared<const Checkpoint>(std::move(tensors));
  if (has_tokenizer(folder)) {
    files.tokenizer = std::make_shared<const Tokenizer>(
        Tokenizer::load(folder, config->fields().optional_positive_int("vocab_size")));
    if (const auto eos = files.tokenizer->end_of_text()) config->set_tokenizer_eos(*eos);
  }
  return files;
}

TENON_INLINE Tokenizer load_tokenizer(const std::filesystem::path& path) {
  if (!is_model_file(path)) return Tokenizer::load(path);
  const GgufFiles opened = open_gguf(path);
  return Tokenizer::from_gguf(Fields(*opened.header.metadata, opened.files.front().name()));
}

TENON_INLINE void check_layer_count(const ModelFiles& files, const ModelConfig& config) {
  if (files.random || static_cast<std::size_t>(config.layers) <= files.tensors->tensors().size()) return;
  throw Error(Error::Kind::invalid_file, "config.json: n_layer or num_hidden_layers",
              std::to_string(config.layers) + " layers, but the checkpoint has only " +
                  std::to_string(files.tensors->tensors().size()) + " tensors");
}

TENON_INLINE bool is_bare_model(const ModelFiles& files) {
  need_files(files);
  if (files.random || !files.config->fields().has("architectures")) return false;
  const std::vector<std::string> names = files.config->fields().strings("architectures");
  return !names.empty() &&
         std::all_of(names.begin(), names.end(), [](const std::string& name) { return name.ends_with("Model"); });
}

TENON_INLINE std::string weight_code_of(const ModelFiles& files) {
  need_files(files);
  const std::string* name = files.random ? nullptr : files.tensors->metadata("tenon.weights");
  if (name == nullptr) return {};
  return with_code(*name, files.tensors->name() + ": __metadata__: tenon.weights",
                   [](auto code) { return std::string(code.name); });
}

TENON_INLINE bool holds_codes(const std::string& code) {
  return !code.empty() && with_code(code, "", [](auto c) { return !is_plain_code<decltype(c)>; });
}

}  // namespace tenon
