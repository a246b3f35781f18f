// An output folder that is removed again if nothing was written to it.
#pragma once
#include <filesystem>
#include <vector>

#include "tenon/core/require.h"

namespace tenon {

/// Creates the folder and its missing parents. The destructor removes those of them that are still empty.
class NewFolder {
 public:
  /// Error io if the folder cannot be created.
  explicit NewFolder(const std::filesystem::path& folder);
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder() { remove_empty(); }

 private:
  void remove_empty() const;

  std::vector<std::filesystem::path> missing_;  // created here, deepest first
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/io/new_folder-inl.h"
#endif
