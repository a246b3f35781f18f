#pragma once
#include <string>
#include <string_view>
#include <system_error>

#include "tenon/checkpoint/config.h"
#include "tenon/checkpoint/embedding_recipe.h"
#include "tenon/checkpoint/gguf_model.h"
#include "tenon/core/require.h"
#include "tenon/io/fields.h"
#include "tenon/io/file.h"
#include "tenon/io/json.h"
#include "tenon/model/quantize.h"
#include "tenon/tokenizer/gguf_tokenizer.h"

namespace tenon::detail {

TENON_INLINE void check_target(const std::filesystem::path& target, const std::filesystem::path& source) {
  const auto refuse = [&](const std::string& what) {
    throw Error(Error::Kind::invalid_request, file_name_of(target), what);
  };
  std::error_code ignored;
  if (std::filesystem::equivalent(target, source, ignored)) refuse("is the model's own folder; name a new one");
  for (const auto& names : {std::span<const char* const>(kWeightFiles), std::span<const char* const>(kCopiedFiles)}) {
    for (const char* each : names) {
      if (entry_exists(target / each)) {
        refuse("has a model already (" + std::string(each) + "); name a new folder");
      }
    }
  }
}

TENON_INLINE void refuse_codes(const ModelFiles& files) {
  const std::string stored = weight_code_of(files);
  if (!holds_codes(stored)) return;
  throw Error(Error::Kind::unsupported, files.tensors->name(),
              "its weights are " + stored + " already; quantise the checkpoint that it was made from");
}

TENON_INLINE std::vector<std::string> files_left_out(const std::filesystem::path& folder,
                                                     const std::function<bool(const std::string&)>& is_read) {
  const std::vector<std::string> modules = module_folders(folder);
  std::vector<std::string> names;
  std::error_code failed;
  for (auto each = std::filesystem::directory_iterator(folder, failed);
       !failed && each != std::filesystem::directory_iterator(); each.increment(failed)) {
    const std::string name = file_name_of(each->path());
    const auto is = [&](const char* known) { return name == known; };
    if (std::any_of(kCopiedFiles.begin(), kCopiedFiles.end(), is) || is_read(name)) continue;
    if (std::find(modules.begin(), modules.end(), name) != modules.end()) continue;
    std::error_code ignored;
    names.push_back(name + (each->is_directory(ignored) ? "/" : ""));
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The small files that a GGUF file stands for.
inline std::vector<NewFile> write_gguf_files(const std::filesystem::path& source, const std::filesystem::path& target) {
  const GgufModel model = read_gguf_model(open_gguf(source));
  const Fields metadata(*model.metadata, file_name_of(source));
  std::vector<NewFile> files;
  const auto write = [&](const char* name, const Json& json) {
    const std::string text = json.dump(1) + "\n";
    files.emplace_back(target / name).write_at(0, std::as_bytes(std::span(text)));
  };
  write("config.json", *model.config);
  if (!has_gguf_tokenizer(metadata)) return files;
  Json tokenizer, config;
  GgufTokenizer(metadata).write(tokenizer, config);
  if (metadata.has("tokenizer.chat_template")) config["chat_template"] = metadata.string("tokenizer.chat_template");
  write("tokenizer.json", tokenizer);
  write("tokenizer_config.json", config);
  return files;
}

// config.json of a model that another library quantised describes the source, not the copy.
inline std::string without_quantization(const std::string& text) {
  OrderedJson config = parse_json<OrderedJson>(text, "config.json");
  if (config.erase("quantization_config") == 0) return text;
  return config.dump(2) + "\n";
}

TENON_INLINE std::vector<std::unique_ptr<NewFolder>> new_module_folders(const std::filesystem::path& source,
                                                                        const std::filesystem::path& target) {
  std::vector<std::unique_ptr<NewFolder>> folders;
  for (const std::string& module : module_folders(source))
    folders.push_back(std::make_unique<NewFolder>(target / module));
  return folders;
}

TENON_INLINE std::vector<NewFile> copy_model_files(const std::filesystem::path& source,
                                                   const std::filesystem::path& target, bool stays_quantised) {
  if (is_model_file(source)) return write_gguf_files(source, target);
  constexpr std::uint64_t kLargest = 256u << 20;  // bytes; tokenizers of 17 MB are common
  std::vector<NewFile> files;
  std::error_code ignored;
  for (const char* name : kCopiedFiles) {
    if (!entry_exists(source / name)) continue;
    std::string text = read_text_file(source / name, kLargest);
    if (!stays_quantised && std::string_view(name) == "config.json") text = without_quantization(text);
    files.emplace_back(target / name).write_at(0, std::as_bytes(std::span(text)));
  }
  for (const std::string& module : module_folders(source)) {
    const std::filesystem::path file = std::filesystem::path(module) / "config.json";
    if (!std::filesystem::exists(source / file, ignored)) continue;
    const std::string text = read_text_file(source / file, kLargest);
    files.emplace_back(target / file).write_at(0, std::as_bytes(std::span(text)));
  }
  return files;
}

TENON_INLINE SourceModel source_model(std::span<const Family> families, const ModelFiles& files) {
  const Family& family = find_family(families, model_type_of(files));
  const ModelConfig config = configure(files, family);
  check_layer_count(files, config);
  return {tensors_of(family, config), config.tied_head, family.name_prefix};
}

}  // namespace tenon::detail
