#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "tenon/adapter/root.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/file.h"

namespace tenon {

namespace detail {

// Whether `name` begins with an ASCII letter or digit and holds nothing but these and '.', '_' and '-'.
TENON_INLINE bool is_plain_name(std::string_view name) {
  const auto plain = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); };
  return !name.empty() && plain(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return plain(c) || c == '.' || c == '_' || c == '-'; });
}

}  // namespace detail

TENON_INLINE bool is_adapter_id(std::string_view id) {
  const auto part = [](std::string_view name) { return name.size() <= 128 && detail::is_plain_name(name); };
  if (id.find("..") != id.npos) return false;
  const std::size_t slash = id.find('/');
  if (slash == id.npos) return part(id);
  return part(id.substr(0, slash)) && part(id.substr(slash + 1));
}

TENON_INLINE bool is_hub_revision(std::string_view text) {
  if (text.empty() || text.size() > 128 || text.find("..") != text.npos) return false;
  for (std::size_t slash = text.find('/'); slash != text.npos; slash = text.find('/')) {
    if (!detail::is_plain_name(text.substr(0, slash))) return false;
    text.remove_prefix(slash + 1);
  }
  return detail::is_plain_name(text);
}

TENON_INLINE bool is_hub_adapter_id(std::string_view id) {
  constexpr std::size_t most = 96;  // as in huggingface_hub's validate_repo_id
  const std::size_t at = id.find('@');
  const std::string_view repository = id.substr(0, at);
  if (!is_adapter_id(repository) || repository.size() > most) return false;
  // The cache writes "--" for a slash: "a--b" would be another name of "a/b".
  return repository.find("--") == id.npos && (at == id.npos || is_hub_revision(id.substr(at + 1)));
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

inline constexpr std::string_view kHubRepository = "models--";

// Looks up one adapter in a hub cache.
class HubLookup {
 public:
  HubLookup(const std::filesystem::path& cache, std::string where) : where_(std::move(where)) {
    std::error_code failed;
    cache_ = std::filesystem::canonical(cache, failed);
    if (failed) refuse(Error::Kind::io, "is not known: there is no hub cache");
  }

  std::filesystem::path snapshot(std::string_view repository, const std::string& revision) const {
    std::string name(kHubRepository);
    for (const char c : repository) name += c == '/' ? std::string("--") : std::string(1, c);
    const auto folder = existing(cache_ / name);
    if (!folder) refuse(Error::Kind::io, "is not known");
    std::string commit = revision;
    std::error_code failed;
    const auto reference = existing(*folder / "refs" / revision);
    if (reference && std::filesystem::is_regular_file(*reference, failed)) {
      commit = commit_in(*reference);
    } else if (revision.find('/') != revision.npos) {
      refuse(Error::Kind::io, "is not known at that revision");
    }
    const auto found = existing(*folder / "snapshots" / commit);
    if (!found || !std::filesystem::is_directory(*found, failed))
      refuse(Error::Kind::io, "is not known at that revision");
    if (*found == cache_ || has_link_out(cache_, *found)) refuse_outside();
    if (!std::filesystem::is_regular_file(*found / "adapter_config.json", failed))
      refuse(Error::Kind::io, "is not known: the repository holds no adapter");
    return *found;
  }

 private:
  [[noreturn]] void refuse(Error::Kind kind, std::string_view what) const { throw Error(kind, where_, what); }
  [[noreturn]] void refuse_outside() const { refuse(Error::Kind::invalid_request, "lies outside the hub cache"); }

  // The real path; none if nothing is there. Error invalid_request if it lies outside the cache.
  std::optional<std::filesystem::path> existing(const std::filesystem::path& path) const {
    std::error_code failed;
    auto real = std::filesystem::canonical(path, failed);
    if (failed) return std::nullopt;
    if (!is_within(cache_, real)) refuse_outside();
    return real;
  }

  // The name of a snapshot that a file of refs/ holds. Messages do not quote the file.
  std::string commit_in(const std::filesystem::path& reference) const {
    constexpr std::uint64_t most = 128;
    const char* const wrong = "the hub cache's reference does not name a snapshot";
    std::string text;
    try {
      text = read_text_file(reference, most);
    } catch (const Error&) {
      refuse(Error::Kind::invalid_file, wrong);
    }
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
    if (!is_plain_name(text) || text.find("..") != text.npos) refuse(Error::Kind::invalid_file, wrong);
    return text;
  }

  std::string where_;
  std::filesystem::path cache_;  // canonical
};

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

TENON_INLINE std::filesystem::path adapter_in_hub_cache(const std::filesystem::path& cache, const std::string& id) {
  const std::string where = "adapter " + printable(id, 60);
  if (!is_hub_adapter_id(id)) {
    throw Error(Error::Kind::invalid_request, where,
                "must be a repository's name, such as org/name, and perhaps a revision, such as org/name@v2");
  }
  const std::size_t at = id.find('@');
  return detail::HubLookup(cache, where)
      .snapshot(std::string_view(id).substr(0, at), at == id.npos ? "main" : id.substr(at + 1));
}

TENON_INLINE std::vector<std::string> adapters_in_hub_cache(const std::filesystem::path& cache) {
  std::vector<std::string> ids;
  std::error_code failed;
  auto each = std::filesystem::directory_iterator(cache, failed);
  for (; !failed && each != std::filesystem::directory_iterator(); each.increment(failed)) {
    const std::string name = each->path().filename().string();
    if (!name.starts_with(detail::kHubRepository)) continue;
    std::string id = name.substr(detail::kHubRepository.size());
    if (const std::size_t between = id.find("--"); between != id.npos) id.replace(between, 2, "/");
    try {
      adapter_in_hub_cache(cache, id);
      ids.push_back(std::move(id));
    } catch (const Error&) {  // a model, an unfinished download, or a name of another form
    }
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace tenon
