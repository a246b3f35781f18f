#pragma once
#include <system_error>

#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/file.h"
#include "tenon/io/new_folder.h"

namespace tenon {

TENON_INLINE NewFolder::NewFolder(const std::filesystem::path& folder) {
  std::error_code failed;
  for (auto at = folder; !at.empty() && at != at.root_path() && !entry_exists(at); at = at.parent_path())
    missing_.push_back(at);
  std::filesystem::create_directories(folder, failed);
  if (!failed && std::filesystem::is_directory(folder, failed)) return;
  remove_empty();
  throw Error(Error::Kind::io, file_name_of(folder),
              "cannot be made a folder" + (failed ? ": " + failed.message() : std::string()));
}

TENON_INLINE void NewFolder::remove_empty() const {
  std::error_code not_empty;
  for (const auto& each : missing_) {
    if (std::filesystem::is_directory(std::filesystem::symlink_status(each, not_empty))) {
      std::filesystem::remove(each, not_empty);
    }
  }
}

}  // namespace tenon
