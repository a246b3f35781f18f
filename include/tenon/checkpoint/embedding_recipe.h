// How a folder of sentence-transformers makes an embedding: modules.json and the config of its pooling.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tenon/core/request.h"

namespace tenon {

/// The steps after the model that make an embedding.
struct EmbeddingRecipe {
  Pooling pooling = Pooling::last;  ///< last or mean
  bool normalize = false;           ///< divides by the Euclidean length
};

/// Reads <folder>/modules.json; empty where the folder has none. Errors: invalid_file; unsupported for a pooling other
/// than the last token and the mean, and for a module other than Transformer, Pooling and Normalize.
std::optional<EmbeddingRecipe> read_embedding_recipe(const std::filesystem::path& folder);

/// The folders, beside modules.json, with the config of a pooling; none where there is no such file. Errors:
/// invalid_file.
std::vector<std::string> pooling_folders(const std::filesystem::path& folder);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/embedding_recipe-inl.h"
#endif
