// Adapters that strangers name: below one folder, and nowhere else.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "tenon/core/require.h"

namespace tenon {

// "weather", or "team/weather": letters, digits, '.', '_' and '-', each part beginning with a letter or digit and at
// most 128 long; no "..".
bool is_adapter_id(std::string_view id);

// The folder of an adapter below `root`, for AdapterOptions::folder_of. Errors: invalid_request where the id is none,
// or where the folder or a link in it leads out of the root; io where there is no such folder. The messages name no
// path.
std::filesystem::path adapter_below(const std::filesystem::path& root, const std::string& id);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/adapter/root-inl.h"
#endif
