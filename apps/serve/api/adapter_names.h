// The adapters that clients may name: folders below one root, and names that an operator has given to such folders.
#pragma once
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace serve {

// Any thread.
class AdapterNames {
 public:
  // Empty: there are none.
  explicit AdapterNames(std::filesystem::path root) : root_(std::move(root)) {}

  // For AdapterOptions::folder_of. Errors as tenon::adapter_below, and io where there is no root.
  std::filesystem::path folder(const std::string& name) const;
  bool is_known(const std::string& name) const;
  // Names of operators, and folders with an adapter_config.json, one below the root or two. Sorted.
  std::vector<std::string> list() const;

  // A name for a folder, itself named from the root on. False where the name has a meaning already.
  bool add(const std::string& name, const std::string& path);
  bool remove(const std::string& name);
  bool is_added(const std::string& name) const;
  // Whether it was added for that path, and still is.
  bool leads_to(const std::string& name, const std::string& path) const;

 private:
  std::filesystem::path below_root(const std::string& path) const;

  const std::filesystem::path root_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> added_;  // name -> path below the root
};

}  // namespace serve
