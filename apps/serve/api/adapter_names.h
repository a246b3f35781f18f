// The adapters that clients may name: folders below one root, those of a hub cache, those that a command fetches, and
// names that an operator has given to such folders.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "serve/fetch/adapter_fetcher.h"

namespace serve {

// Where adapters come from. An empty path, or null: not from there.
struct AdapterPlaces {
  std::filesystem::path root = {};
  std::filesystem::path hub_cache = {};  // looked at for what the root has not
  std::shared_ptr<AdapterFetcher> fetcher = {};
};

// Any thread.
class AdapterNames {
 public:
  explicit AdapterNames(AdapterPlaces places) : places_(std::move(places)) {}

  // For AdapterOptions::folder_of. Fetches an adapter with a source where it is not there yet. Errors as those of
  // tenon::adapter_below, tenon::adapter_in_hub_cache and AdapterFetcher::folder, and io where there is no such place.
  std::filesystem::path folder(const std::string& name) const;
  // Whether it is on this machine.
  bool is_known(const std::string& name) const;
  // Whether a request may name it: it is known, or may be fetched.
  bool may_be_named(const std::string& name) const;
  // Names of operators; folders with an adapter_config.json, one below the root or two; adapters of the hub cache;
  // fetched ones. Sorted.
  std::vector<std::string> list() const;

  // The name of the folder that a path leads to below the root: an absolute path, or one from the root on such as
  // "./weather", without "..". Any other text unchanged.
  std::string name_of_path(const std::string& path) const;
  // Folders below the root that look like adapters and cannot be used, each with the reason. Sorted.
  std::vector<std::string> unusable() const;

  bool fetches() const { return places_.fetcher != nullptr; }
  // Fetches it if it has a source and is not there yet. FetchError; see AdapterFetcher::folder.
  void fetch(const std::string& name, const std::function<bool()>& wanted) const;
  // LoRAX's word for where it comes from: "local", "hub" or "s3".
  std::string source_of(const std::string& name) const;
  void stop_fetching();

  // A name for a folder, itself named from the root on. False where the name has a meaning already.
  bool add(const std::string& name, const std::string& path);
  // Takes back a name that was added, and removes the folder of one that was fetched.
  bool remove(const std::string& name);
  bool is_added(const std::string& name) const;
  // Whether it was added for that path, and still is.
  bool leads_to(const std::string& name, const std::string& path) const;

 private:
  // The path of an added name; another name itself.
  std::string path_of(const std::string& name) const;
  std::filesystem::path find(const AdapterReference& name) const;

  const AdapterPlaces places_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> added_;  // name -> its path, a name of another form than an added one
};

}  // namespace serve
