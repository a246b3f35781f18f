// A folder to write to, which goes again where nothing was written in the end.
#pragma once
#include <filesystem>
#include <system_error>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/core/file.h"

namespace tenon {

// Makes the folder, and those above it, where there are none. At the end of its life it removes of those that it made
// what is empty.
class NewFolder {
 public:
  // Error io where it cannot be made.
  explicit NewFolder(const std::filesystem::path& folder) {
    std::error_code failed;
    for (auto at = folder; !at.empty() && at != at.root_path() && !there(at); at = at.parent_path())
      missing_.push_back(at);
    std::filesystem::create_directories(folder, failed);
    if (!failed && std::filesystem::is_directory(folder, failed)) return;
    remove_empty();
    throw Error(Error::Kind::io, file_name_of(folder),
                "cannot be made a folder" + (failed ? ": " + failed.message() : std::string()));
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder() { remove_empty(); }

 private:
  static bool there(const std::filesystem::path& path) {
    std::error_code ignored;
    return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
  }
  void remove_empty() const {
    std::error_code not_empty;
    for (const auto& each : missing_) {
      if (std::filesystem::is_directory(std::filesystem::symlink_status(each, not_empty))) {
        std::filesystem::remove(each, not_empty);
      }
    }
  }

  std::vector<std::filesystem::path> missing_;  // that were not there, the deepest first
};

}  // namespace tenon
