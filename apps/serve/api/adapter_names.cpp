#include "serve/api/adapter_names.h"

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "tenon/adapter/root.h"
#include "tenon/core/error.h"
#include "tenon/io/file.h"

namespace serve {
namespace {

namespace fs = std::filesystem;

bool holds_adapter(const fs::path& folder) {
  std::error_code failed;
  return fs::is_regular_file(folder / "adapter_config.json", failed);
}

bool has_file(const fs::path& folder, const char* name) {
  std::error_code failed;
  return fs::is_regular_file(folder / name, failed);
}

bool looks_like_adapter(const fs::path& folder) {
  return holds_adapter(folder) || has_file(folder, "adapter_model.safetensors") ||
         has_file(folder, "adapter_model.bin");
}

// Why no request can use the folder of this name below the root; empty: one can.
std::string why_unusable(const fs::path& root, const fs::path& folder, const std::string& name) {
  if (!tenon::is_adapter_id(name))
    return "a name has letters, digits, '.', '_' and '-', and begins with a letter or digit";
  try {
    tenon::adapter_below(root, name);
  } catch (const tenon::Error& error) {
    if (error.kind() != tenon::Error::Kind::invalid_request) return error.what();
    return "it, or a link in it, leads out of --adapter-root";
  }
  if (!holds_adapter(folder)) return "it has no adapter_config.json";
  if (!has_file(folder, "adapter_model.bin")) return {};
  for (const char* const file : {"adapter_model.safetensors", "adapter_model.safetensors.index.json"})
    if (has_file(folder, file)) return {};
  return "its adapter_model.bin is a pickle: `tenon convert` writes it as safetensors";
}

}  // namespace

std::string AdapterNames::name_of_path(const std::string& path) const {
  if (places_.root.empty() || adapter_reference(path) || path.find("..") != path.npos) return path;
  std::error_code failed;
  const fs::path root = fs::canonical(places_.root, failed);
  const fs::path folder = failed ? fs::path() : fs::canonical(root / path, failed);
  if (failed) return path;
  std::string name = folder.lexically_relative(root).generic_string();
  return tenon::is_adapter_id(name) ? name : path;
}

std::vector<std::string> AdapterNames::unusable() const {
  std::vector<std::string> found;
  const auto look_into = [&](const fs::path& folder, const std::string& prefix, auto&& inner) {
    std::error_code failed;
    for (auto each = fs::directory_iterator(folder, failed); !failed && each != fs::directory_iterator();
         each.increment(failed)) {
      const std::string name = prefix + each->path().filename().string();
      if (!looks_like_adapter(each->path())) {
        inner(each->path(), name + "/");
        continue;
      }
      const std::string why = why_unusable(places_.root, each->path(), name);
      if (!why.empty())
        found.push_back("the adapter folder " + tenon::printable(name, 200) + " cannot be used: " + why);
    }
  };
  if (places_.root.empty()) return found;
  look_into(places_.root, "", [&](const fs::path& folder, const std::string& prefix) {
    look_into(folder, prefix, [](const fs::path&, const std::string&) {});
  });
  std::sort(found.begin(), found.end());
  return found;
}

std::string AdapterNames::path_of(const std::string& name) const {
  std::lock_guard lock(mutex_);
  const auto found = added_.find(name);
  return found == added_.end() ? name : found->second;
}

fs::path AdapterNames::find(const AdapterReference& name) const {
  using Kind = tenon::Error::Kind;
  const auto refuse = [&](const char* what) -> void {
    throw tenon::Error(Kind::io, "adapter " + tenon::printable(name.text(), 60), what);
  };
  if (name.remote()) {
    if (!places_.fetcher) refuse("is not known: the server fetches no adapters");
    return places_.fetcher->folder(name);
  }
  if (places_.root.empty() && places_.hub_cache.empty()) refuse("is not known: the server has no adapter root");
  if (!places_.root.empty() && name.revision.empty()) {
    try {
      return tenon::adapter_below(places_.root, name.id);
    } catch (const tenon::Error& error) {
      if (error.kind() != Kind::io || places_.hub_cache.empty()) throw;
    }
  }
  if (places_.hub_cache.empty()) refuse("is not known: the server has no hub cache");
  return tenon::adapter_in_hub_cache(places_.hub_cache, name.text());
}

fs::path AdapterNames::folder(const std::string& name) const {
  const std::string path = path_of(name);
  const auto reference = adapter_reference(path);
  if (!reference) {
    throw tenon::Error(tenon::Error::Kind::invalid_request, "adapter " + tenon::printable(path, 60),
                       "is no name of an adapter");
  }
  return find(*reference);
}

bool AdapterNames::is_known(const std::string& name) const {
  if (is_added(name)) return true;
  const auto reference = adapter_reference(name);
  if (!reference) return false;
  if (reference->remote()) return places_.fetcher && places_.fetcher->has(*reference);
  try {
    return holds_adapter(find(*reference));
  } catch (const tenon::Error&) {
    return false;
  }
}

bool AdapterNames::may_be_named(const std::string& name) const {
  const auto reference = adapter_reference(name);
  return (reference && reference->remote() && places_.fetcher) || is_known(name);
}

void AdapterNames::fetch(const std::string& name, const std::function<bool()>& wanted) const {
  const auto reference = adapter_reference(path_of(name));
  if (reference && reference->remote() && places_.fetcher) places_.fetcher->folder(*reference, wanted);
}

std::string AdapterNames::source_of(const std::string& name) const {
  const auto reference = adapter_reference(path_of(name));
  if (!reference) return "local";
  if (reference->remote()) return reference->source;
  if (!reference->revision.empty()) return "hub";
  if (places_.hub_cache.empty()) return "local";
  try {
    if (!places_.root.empty()) tenon::adapter_below(places_.root, reference->id);
    return places_.root.empty() ? "hub" : "local";
  } catch (const tenon::Error& error) {
    return error.kind() == tenon::Error::Kind::io && is_known(reference->id) ? "hub" : "local";
  }
}

void AdapterNames::stop_fetching() {
  if (places_.fetcher) places_.fetcher->stop();
}

std::vector<std::string> AdapterNames::list() const {
  std::set<std::string> names;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [name, path] : added_) names.insert(name);
  }
  const auto look_into = [&](const fs::path& folder, const std::string& prefix, auto&& inner) {
    std::error_code failed;
    for (auto each = fs::directory_iterator(folder, failed); !failed && each != fs::directory_iterator();
         each.increment(failed)) {
      const std::string name = prefix + each->path().filename().string();
      if (is_known(name))
        names.insert(name);
      else
        inner(each->path(), name + "/");
    }
  };
  if (!places_.hub_cache.empty())
    for (std::string& name : tenon::adapters_in_hub_cache(places_.hub_cache)) names.insert(std::move(name));
  if (places_.fetcher)
    for (std::string& name : places_.fetcher->list()) names.insert(std::move(name));
  if (!places_.root.empty()) {
    look_into(places_.root, "", [&](const fs::path& folder, const std::string& prefix) {
      look_into(folder, prefix, [](const fs::path&, const std::string&) {});
    });
  }
  return {names.begin(), names.end()};
}

bool AdapterNames::add(const std::string& name, const std::string& path) {
  std::string found = path_of(path);
  folder(found);
  if (is_known(name)) return false;
  std::lock_guard lock(mutex_);
  return added_.try_emplace(name, std::move(found)).second;
}

bool AdapterNames::remove(const std::string& name) {
  {
    std::lock_guard lock(mutex_);
    if (added_.erase(name) > 0) return true;
  }
  const auto reference = adapter_reference(name);
  return reference && reference->remote() && places_.fetcher && places_.fetcher->forget(*reference);
}

bool AdapterNames::leads_to(const std::string& name, const std::string& path) const {
  std::lock_guard lock(mutex_);
  const auto named = added_.find(name), of_path = added_.find(path);
  return named != added_.end() && named->second == (of_path == added_.end() ? path : of_path->second);
}

bool AdapterNames::is_added(const std::string& name) const {
  std::lock_guard lock(mutex_);
  return added_.contains(name);
}

}  // namespace serve
