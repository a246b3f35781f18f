#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/file.h"
#include "tenon/io/staged_folder.h"

namespace tenon {

TENON_INLINE StagedFolder::StagedFolder(const std::filesystem::path& path)
    : final_(path.has_filename() ? path : path.parent_path()) {
  std::error_code failed;
  if (entry_exists(final_)) refuse_existing();
  if (final_.has_parent_path()) parent_.emplace(final_.parent_path());
  for (int n = 0; n < 100; ++n) {
    temporary_ = final_;
    temporary_ += "." + std::to_string(::getpid()) + "-" + std::to_string(n) + ".part";
    if (std::filesystem::create_directory(temporary_, failed)) return;
    if (failed) break;
  }
  throw Error(Error::Kind::io, file_name_of(final_),
              "cannot be made a folder" + (failed ? ": " + failed.message() : std::string()));
}

TENON_INLINE StagedFolder::~StagedFolder() {
  std::error_code ignored;
  if (!published_) std::filesystem::remove_all(temporary_, ignored);
}

TENON_INLINE void StagedFolder::publish() {
  const std::string from = temporary_.string(), to = final_.string();
  int code = EINVAL;
#ifdef RENAME_NOREPLACE
  code = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0 ? 0 : errno;
#endif
  // Not every file system has the flag. rename() replaces no file and no folder that holds files.
  if (code == EINVAL || code == ENOSYS) code = std::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
  if (code == EEXIST || code == ENOTEMPTY || code == ENOTDIR) refuse_existing();
  if (code != 0)
    throw Error(Error::Kind::io, file_name_of(final_), "cannot get its name: " + std::generic_category().message(code));
  published_ = true;
}

TENON_INLINE void StagedFolder::refuse_existing() const {
  throw Error(Error::Kind::invalid_request, file_name_of(final_), "exists already; name a new folder");
}

}  // namespace tenon
