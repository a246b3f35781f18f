#pragma once
#include <algorithm>
#include <system_error>

#include "tenon/adapter/root.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/json.h"

namespace tenon {

TENON_INLINE bool is_adapter_id(std::string_view id) {
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

}  // namespace tenon

namespace tenon::detail {

// Whether `path` is `root` or lies below it. Both are canonical.
TENON_INLINE bool is_within(const std::filesystem::path& root, const std::filesystem::path& path) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

// Whether a link in the folder leads out of the root, or the folder cannot be listed. All links count, whatever their
// names: an index of shards may name any file, and an error about that file would reveal it.
TENON_INLINE bool has_link_out(const std::filesystem::path& real_root, const std::filesystem::path& folder) {
  std::error_code failed;
  auto each = std::filesystem::directory_iterator(folder, failed);
  for (; !failed && each != std::filesystem::directory_iterator(); each.increment(failed)) {
    std::error_code leads_nowhere;
    if (!each->is_symlink(leads_nowhere)) continue;
    const auto target = std::filesystem::canonical(each->path(), leads_nowhere);
    if (!leads_nowhere && !is_within(real_root, target)) return true;
  }
  return bool(failed);
}

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE std::filesystem::path adapter_below(const std::filesystem::path& root, const std::string& id) {
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
  if (folder == real_root || !detail::is_within(real_root, folder) || detail::has_link_out(real_root, folder)) {
    throw Error(Error::Kind::invalid_request, where, "lies outside the adapter root");
  }
  return folder;
}

}  // namespace tenon
