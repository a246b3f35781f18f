// Adapter ids from untrusted clients: they map to folders below one root, or in one hub cache, and to nothing else.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/core/require.h"

namespace tenon {

/// Whether `id` is a valid adapter id: one name ("weather"), or two with a slash between them ("team/weather"). A name
/// has 1 to 128 letters, digits, '.', '_' and '-', begins with a letter or digit, and contains no "..".
bool is_adapter_id(std::string_view id);

/// The folder of an adapter below `root`, for AdapterOptions::folder_of. Error messages name no path. Error
/// invalid_request if the id is not valid, or if the folder or a link in it leads out of the root. Error io if there is
/// no such folder.
std::filesystem::path adapter_below(const std::filesystem::path& root, const std::string& id);

/// Whether `text` may name a revision of a hub's repository: a branch, a tag, a commit ("main", "v1.2", "refs/pr/3").
/// It has 1 to 128 letters, digits, '.', '_', '-' and '/', begins with a letter or digit, and contains neither ".."
/// nor an empty part.
bool is_hub_revision(std::string_view text);

/// Whether `id` is an adapter id that a hub cache can hold: "org/name" or "name" of at most 96 characters without "--",
/// and perhaps a revision ("org/name@v2").
bool is_hub_adapter_id(std::string_view id);

/// The folder of an adapter in the folder `cache` of huggingface_hub, for AdapterOptions::folder_of: the snapshot that
/// models--org--name/refs/REVISION names, or that has the revision as its name. The revision is main by default. Links
/// are followed within the cache. Nothing is downloaded. Error messages name no path. Errors:
/// - invalid_request, if the id is not valid, or if the folder or a link in it leads out of the cache;
/// - io, if the cache has no such snapshot, or the snapshot no adapter_config.json;
/// - invalid_file, if the reference does not hold the name of a snapshot.
std::filesystem::path adapter_in_hub_cache(const std::filesystem::path& cache, const std::string& id);

/// The ids of the adapters that a hub cache has at the revision main, sorted.
std::vector<std::string> adapters_in_hub_cache(const std::filesystem::path& cache);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/adapter/root-inl.h"
#endif
