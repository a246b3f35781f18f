#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <system_error>
#include <vector>

#include "tenon/checkpoint/gguf_parts.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/file.h"
#include "tenon/model/hub.h"

namespace tenon {

// The rules of huggingface_hub (validate_repo_id): at most 96 characters, letters, digits and "-_.", no "--", no "..",
// and neither "-" nor "." at an end.
TENON_INLINE bool is_hub_name(std::string_view text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  const auto part = [&](std::string_view each) {
    const auto edge = [](char c) { return c == '-' || c == '.'; };
    return !each.empty() && std::all_of(each.begin(), each.end(), plain) && !edge(each.front()) && !edge(each.back()) &&
           each.find("--") == each.npos && each.find("..") == each.npos;
  };
  const std::size_t slash = text.find('/');
  if (text.size() > 96) return false;
  return slash == text.npos ? part(text) : part(text.substr(0, slash)) && part(text.substr(slash + 1));
}

namespace detail {

// The first line of refs/main: the name of a snapshot.
TENON_INLINE std::string read_revision(const std::filesystem::path& file) {
  std::string text = read_text_file(file, 4096);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  const auto plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
  };
  if (text.empty() || !std::all_of(text.begin(), text.end(), plain))
    throw Error(Error::Kind::invalid_file, file.string(), "does not name a snapshot: \"" + printable(text, 60) + "\"");
  return text;
}

// The GGUF model of a folder without config.json, if it has one; the folder itself if it has none.
TENON_INLINE std::filesystem::path only_gguf_of(const std::filesystem::path& folder) {
  std::error_code failed;
  if (!std::filesystem::is_directory(folder, failed) || entry_exists(folder / "config.json")) return folder;
  const std::vector<std::filesystem::path> found = gguf_models_in(folder);
  if (found.size() == 1) return found.front();
  std::string list;
  for (const auto& each : found) list += (list.empty() ? "" : ", ") + file_name_of(each);
  if (!found.empty())
    throw Error(Error::Kind::invalid_request, file_name_of(folder),
                "has no config.json, but " + std::to_string(found.size()) +
                    " GGUF models; name the file of one of them: " + list);
  return folder;
}

}  // namespace detail

TENON_INLINE std::filesystem::path find_model(const std::string& model, const std::filesystem::path& cache) {
  std::error_code failed;
  if (std::filesystem::exists(model, failed) || !is_hub_name(model)) return detail::only_gguf_of(model);
  const auto refuse = [&](const std::string& what) {
    throw Error(Error::Kind::io, model, "is no folder or file here, and " + what);
  };
  const std::string download = "; `hf download " + model + "` writes it";
  if (cache.empty()) refuse("no folder of a hub cache is known to look for it: HF_HUB_CACHE or HF_HOME names one");
  std::string folder = "models--" + model;
  if (const std::size_t slash = folder.find('/'); slash != folder.npos) folder.replace(slash, 1, "--");
  const std::filesystem::path repository = cache / folder, reference = repository / "refs" / "main";
  if (!std::filesystem::is_directory(repository, failed))
    refuse("the hub cache has no " + repository.string() + download);
  if (!std::filesystem::exists(reference, failed))
    refuse("the hub cache has no " + reference.string() + ", which names the snapshot" + download);
  const std::filesystem::path snapshot = repository / "snapshots" / detail::read_revision(reference);
  if (!std::filesystem::is_directory(snapshot, failed))
    refuse("the hub cache has no " + snapshot.string() + ", which " + reference.string() + " names" + download);
  return detail::only_gguf_of(snapshot);
}

TENON_INLINE std::string model_name_of(const std::filesystem::path& model) {
  std::error_code failed;
  std::filesystem::path path = std::filesystem::absolute(model, failed).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  constexpr std::string_view prefix = "models--", separator = "--";
  const std::string repository = path.parent_path().parent_path().filename().string();
  if (path.parent_path().filename() != "snapshots" || !repository.starts_with(prefix)) return file_name_of(path);
  const std::size_t last = repository.rfind(separator);
  return printable(repository.substr(last + separator.size()));
}

}  // namespace tenon
