#include "serve/api/adapter_names.h"

#include <algorithm>
#include <set>
#include <system_error>

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

}  // namespace

fs::path AdapterNames::below_root(const std::string& path) const {
  if (root_.empty()) {
    throw tenon::Error(tenon::Error::Kind::io, "adapter " + tenon::printable(path, 60),
                       "is not known: the server has no adapter root");
  }
  return tenon::adapter_below(root_, path);
}

fs::path AdapterNames::folder(const std::string& name) const {
  std::string path = name;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = added_.find(name); found != added_.end()) path = found->second;
  }
  return below_root(path);
}

bool AdapterNames::is_known(const std::string& name) const {
  if (is_added(name)) return true;
  try {
    return holds_adapter(below_root(name));
  } catch (const tenon::Error&) {
    return false;
  }
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
  if (!root_.empty()) {
    look_into(root_, "", [&](const fs::path& folder, const std::string& prefix) {
      look_into(folder, prefix, [](const fs::path&, const std::string&) {});
    });
  }
  return {names.begin(), names.end()};
}

bool AdapterNames::add(const std::string& name, const std::string& path) {
  below_root(path);
  if (is_known(name)) return false;
  std::lock_guard lock(mutex_);
  return added_.try_emplace(name, path).second;
}

bool AdapterNames::remove(const std::string& name) {
  std::lock_guard lock(mutex_);
  return added_.erase(name) > 0;
}

bool AdapterNames::leads_to(const std::string& name, const std::string& path) const {
  std::lock_guard lock(mutex_);
  const auto found = added_.find(name);
  return found != added_.end() && found->second == path;
}

bool AdapterNames::is_added(const std::string& name) const {
  std::lock_guard lock(mutex_);
  return added_.contains(name);
}

}  // namespace serve
