#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "tenon/checkpoint/embedding_recipe.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/fields.h"
#include "tenon/io/file.h"
#include "tenon/io/json.h"

namespace tenon::detail {

inline constexpr std::uint64_t kRecipeBytes = 1u << 20;

// Older files have a switch for each kind of pooling, newer ones pooling_mode, a word.
TENON_INLINE Pooling pooling_of(const Fields& fields) {
  const auto refuse = [&](const std::string& field) {
    throw Error(Error::Kind::unsupported, fields.where(field),
                "is not supported: an embedding can be the last token or the mean of all");
  };
  if (fields.has("pooling_mode")) {
    const std::string mode = fields.string("pooling_mode");
    if (mode != "lasttoken" && mode != "mean") refuse("pooling_mode");
    return mode == "mean" ? Pooling::mean : Pooling::last;
  }
  std::optional<Pooling> found;
  for (const auto& [name, value] : fields.json().items()) {
    if (!name.starts_with("pooling_mode_") || !fields.boolean(name, false)) continue;
    const bool mean = name == "pooling_mode_mean_tokens";
    if (found || (!mean && name != "pooling_mode_lasttoken")) refuse(name);
    found = mean ? Pooling::mean : Pooling::last;
  }
  if (!found) fields.refuse("pooling_mode", "names no kind of pooling");
  return *found;
}

// Calls f(module, kind) for each entry of modules.json; `kind` is the last part of its type. Does nothing where the
// folder has no such file.
template <class F>
bool for_each_module(const std::filesystem::path& folder, F&& f) {
  std::error_code ignored;
  if (!std::filesystem::exists(folder / "modules.json", ignored)) return false;
  const Json modules = read_json_file(folder / "modules.json", kRecipeBytes, {});
  if (!modules.is_array()) throw Error(Error::Kind::invalid_file, "modules.json", "must be a list of modules");
  for (const Json& each : modules) {
    const Fields module(each, "modules.json", {}, Error::Kind::invalid_file);
    const std::string type = module.string("type");
    f(module, type.substr(type.rfind('.') + 1));
  }
  return true;
}

TENON_INLINE std::string folder_of_module(const Fields& module) {
  std::string path = module.string("path", "");
  if (path.find_first_of("/\\") != path.npos || path == "..") module.refuse("path", "must name a folder beside");
  return path;
}

// config_sentence_transformers.json and sentence_bert_config.json.
TENON_INLINE void read_text_settings(const std::filesystem::path& folder, EmbeddingRecipe& recipe) {
  std::error_code ignored;
  const auto exists = [&](const char* name) { return std::filesystem::exists(folder / name, ignored); };
  if (const char* const name = "config_sentence_transformers.json"; exists(name)) {
    const Json json = read_json_file(folder / name, kRecipeBytes, {});
    const Fields fields(json, name, {}, Error::Kind::invalid_file);
    if (fields.has("default_prompt_name"))
      recipe.prompt = fields.object("prompts").string(fields.string("default_prompt_name"));
  }
  if (const char* const name = "sentence_bert_config.json"; exists(name)) {
    const Json json = read_json_file(folder / name, kRecipeBytes, {});
    const Fields fields(json, name, {}, Error::Kind::invalid_file);
    if (fields.boolean("do_lower_case", false))
      throw Error(Error::Kind::unsupported, fields.where("do_lower_case"), "is not supported");
    recipe.max_tokens = fields.positive_int("max_seq_length", 0);
  }
}

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE std::optional<EmbeddingRecipe> read_embedding_recipe(const std::filesystem::path& folder,
                                                                  std::optional<Pooling> pooling) {
  EmbeddingRecipe recipe{.pooling = pooling.value_or(Pooling::last)};
  bool leaves_out = false;  // the default prompt's rows
  const bool any = detail::for_each_module(folder, [&](const Fields& module, const std::string& kind) {
    if (kind == "Pooling") {
      const std::string path = detail::folder_of_module(module);
      const Json json = read_json_file(folder / path / "config.json", detail::kRecipeBytes, {});
      const Fields config(json, path + "/config.json", {}, Error::Kind::invalid_file);
      if (!pooling) recipe.pooling = detail::pooling_of(config);
      leaves_out = !config.boolean("include_prompt", true);
    } else if (kind == "Normalize") {
      recipe.normalize = true;
    } else if (kind != "Transformer") {
      throw Error(Error::Kind::unsupported, module.where("type"),
                  "\"" + printable(module.string("type"), 80) + "\" is not supported");
    }
  });
  if (!any) return std::nullopt;
  detail::read_text_settings(folder, recipe);
  if (leaves_out && recipe.pooling == Pooling::mean && !recipe.prompt.empty())
    throw Error(Error::Kind::unsupported, "include_prompt",
                "of the pooling is false: a mean without the default prompt is not supported");
  return recipe;
}

TENON_INLINE std::optional<std::string> module_folder(const std::filesystem::path& folder, std::string_view kind) {
  std::optional<std::string> found;
  detail::for_each_module(folder, [&](const Fields& module, const std::string& its_kind) {
    if (!found && its_kind == kind) found = detail::folder_of_module(module);
  });
  return found;
}

TENON_INLINE std::vector<std::string> module_folders(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  detail::for_each_module(folder, [&](const Fields& module, const std::string& kind) {
    if (kind == "Pooling" || kind == "LogitScore") names.push_back(detail::folder_of_module(module));
  });
  return names;
}

}  // namespace tenon
