// Adapter ids from untrusted clients: they map to folders below one root and to nothing else.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "tenon/core/require.h"

namespace tenon {

/// Whether `id` is a valid adapter id: one name ("weather"), or two with a slash between them ("team/weather"). A name
/// has 1 to 128 letters, digits, '.', '_' and '-', begins with a letter or digit, and contains no "..".
bool is_adapter_id(std::string_view id);

/// The folder of an adapter below `root`, for AdapterOptions::folder_of. Error messages name no path. Error
/// invalid_request if the id is not valid, or if the folder or a link in it leads out of the root. Error io if there is
/// no such folder.
std::filesystem::path adapter_below(const std::filesystem::path& root, const std::string& id);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/adapter/root-inl.h"
#endif
