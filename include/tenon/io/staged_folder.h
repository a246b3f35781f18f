// Writes a folder that gets its name only when it is complete.
#pragma once
#include <filesystem>
#include <optional>

#include "tenon/core/require.h"
#include "tenon/io/new_folder.h"

namespace tenon {

/// A new folder, which is called <path>.<process>-<n>.part until publish(). An existing folder is never written to.
class StagedFolder {
 public:
  /// Creates the folder under its temporary name, and the missing parents. Errors: invalid_request if `path` exists;
  /// io.
  explicit StagedFolder(const std::filesystem::path& path);
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;
  /// Removes the folder and all files in it, unless it was published.
  ~StagedFolder();

  /// The temporary name. Files are written below it.
  const std::filesystem::path& path() const { return temporary_; }

  /// Renames the folder. Errors: invalid_request if its name was taken meanwhile; io.
  void publish();

 private:
  [[noreturn]] void refuse_existing() const;

  std::filesystem::path final_, temporary_;
  std::optional<NewFolder> parent_;  // removed again if nothing was published in it
  bool published_ = false;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/io/staged_folder-inl.h"
#endif
