// How a folder of sentence-transformers makes an embedding or a score: modules.json, and the configs that it names.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/core/request.h"

namespace tenon {

/// The steps around the model that make an embedding.
struct EmbeddingRecipe {
  Pooling pooling = Pooling::last;  ///< last or mean
  bool normalize = false;           ///< divides by the Euclidean length
  std::string prompt = {};          ///< the default prompt, which stands before each text; empty: none
  int max_tokens = 0;               ///< most tokens of a text, those around it included; 0: as many as the model has
};

/// Reads <folder>/modules.json and the files that belong to it; empty where the folder has none. Errors: invalid_file;
/// unsupported for a pooling other than the last token and the mean, for a module other than Transformer, Pooling and
/// Normalize, and for do_lower_case. pooling: takes the place of the folder's.
std::optional<EmbeddingRecipe> read_embedding_recipe(const std::filesystem::path& folder,
                                                     std::optional<Pooling> pooling = {});

/// The folder, beside modules.json, of the module whose type ends in `kind`; empty where there is none. Errors:
/// invalid_file.
std::optional<std::string> module_folder(const std::filesystem::path& folder, std::string_view kind);

/// The folders, beside modules.json, whose config.json is all that the module has; none where there is no such file.
/// Errors: invalid_file.
std::vector<std::string> module_folders(const std::filesystem::path& folder);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/embedding_recipe-inl.h"
#endif
