// The cache of huggingface_hub, in which `hf download` and transformers keep models.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "tenon/core/require.h"

namespace tenon {

/// Whether the text may name a repository of the hub: "org/name" or "name".
bool is_hub_name(std::string_view text);

/// The folder of a model. `model` is a folder, a GGUF file, or the name of a repository of the hub; a path that exists
/// wins. A repository is looked up in the folder `cache`, which may be empty: models--org--name/refs/main names a
/// snapshot. Files there may be links to blobs. Nothing is downloaded. A folder or snapshot without config.json that
/// has one GGUF model is that model: the path of its file, or of its first part, is returned. Error invalid_file if a
/// name is not in the cache; it says which folder or file was looked for. Error invalid_request if a folder without
/// config.json has several GGUF models; it names them. A path that neither exists nor is a name is returned as it is:
/// opening it reports why.
std::filesystem::path find_model(const std::string& model, const std::filesystem::path& cache);

/// The name of a model: that of its folder or file; for a snapshot in a hub cache, that of the repository.
std::string model_name_of(const std::filesystem::path& model);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/hub-inl.h"
#endif
