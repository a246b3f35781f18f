#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>

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

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE std::optional<EmbeddingRecipe> read_embedding_recipe(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::exists(folder / "modules.json", ignored)) return std::nullopt;
  const Json modules = read_json_file(folder / "modules.json", detail::kRecipeBytes, {});
  if (!modules.is_array()) throw Error(Error::Kind::invalid_file, "modules.json", "must be a list of modules");
  EmbeddingRecipe recipe;
  for (const Json& each : modules) {
    const Fields module(each, "modules.json", {}, Error::Kind::invalid_file);
    const std::string type = module.string("type"), path = module.string("path", "");
    const std::string_view kind = std::string_view(type).substr(type.rfind('.') + 1);
    if (kind == "Pooling") {
      if (path.find_first_of("/\\") != path.npos || path == "..") module.refuse("path", "must name a folder beside");
      const std::string file = path + "/config.json";
      const Json config = read_json_file(folder / path / "config.json", detail::kRecipeBytes, {});
      recipe.pooling = detail::pooling_of(Fields(config, file, {}, Error::Kind::invalid_file));
    } else if (kind == "Normalize") {
      recipe.normalize = true;
    } else if (kind != "Transformer") {
      throw Error(Error::Kind::unsupported, module.where("type"), "\"" + printable(type, 80) + "\" is not supported");
    }
  }
  return recipe;
}

}  // namespace tenon
