// Adapters that strangers name: below one folder, and nowhere else.
#pragma once
#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "tenon/core/error.h"
#include "tenon/core/json.h"

namespace tenon {

// "weather", or "team/weather": letters, digits, '.', '_' and '-', each part beginning with a letter or digit and at most 128 long;
// no "..".
inline bool is_adapter_id(std::string_view id) {
  const auto plain = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); };
  const auto part = [&](std::string_view name) {
    return !name.empty() && name.size() <= 128 && plain(name.front()) &&
           std::all_of(name.begin(), name.end(), [&](char c) { return plain(c) || c == '.' || c == '_' || c == '-'; });
  };
  if (id.find("..") != id.npos) return false;
  const std::size_t slash = id.find('/');
  if (slash == id.npos) return part(id);
  return part(id.substr(0, slash)) && part(id.substr(slash + 1));
}

// The folder of an adapter below `root`, for AdapterOptions::folder_of. Errors: invalid_request where the id is none, or where a
// link leads out of the root; io where there is no such folder. No path is named in them.
inline std::filesystem::path adapter_below(const std::filesystem::path& root, const std::string& id) {
  const std::string where = "adapter " + printable(id, 60);
  if (!is_adapter_id(id)) {
    throw Error(Error::Kind::invalid_request, where,
                "must be a name, or two with a slash between them, of letters, digits, '.', '_' and '-'");
  }
  std::error_code failed;
  const auto real_root = std::filesystem::canonical(root, failed);
  if (failed) throw Error(Error::Kind::io, "adapter root", "the folder does not exist or cannot be entered");
  const auto folder = std::filesystem::canonical(real_root / id, failed);
  if (failed || !std::filesystem::is_directory(folder, failed)) throw Error(Error::Kind::io, where, "is not known");
  const auto inside = std::mismatch(real_root.begin(), real_root.end(), folder.begin(), folder.end());
  if (inside.first != real_root.end() || inside.second == folder.end()) {
    throw Error(Error::Kind::invalid_request, where, "lies outside the adapter root");
  }
  return folder;
}

}  // namespace tenon
