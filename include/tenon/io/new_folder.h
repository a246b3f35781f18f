// A folder to write to, which goes again where nothing was written in the end.
#pragma once
#include <filesystem>
#include <vector>

#include "tenon/core/require.h"

namespace tenon {

// Makes the folder, and those above it, where there are none. At the end of its life it removes of those that it made
// what is empty.
class NewFolder {
 public:
  // Error io where it cannot be made.
  explicit NewFolder(const std::filesystem::path& folder);
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder() { remove_empty(); }

 private:
  static bool there(const std::filesystem::path& path);
  void remove_empty() const;

  std::vector<std::filesystem::path> missing_;  // that were not there, the deepest first
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/io/new_folder-inl.h"
#endif
