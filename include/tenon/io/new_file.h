// Writes a file that gets its name only when it is complete.
#pragma once
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "tenon/core/require.h"

namespace tenon {

/// A file being written. However the writing ends, no partial file is left under the name. Move-only.
/// Until then the file has no name at all where the file system supports O_TMPFILE (ext4, XFS, Btrfs, tmpfs). Elsewhere
/// it is called <path>.<process>-<n>.part, which stays if the process is killed.
/// Errors: io. They name the file.
class NewFile {
 public:
  /// Creates the file in the folder of `path`, which must exist. mode: its permissions, less the umask.
  explicit NewFile(const std::filesystem::path& path, ::mode_t mode = 0666);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  const std::string& name() const noexcept { return name_; }  ///< file name of the path, printable

  /// Writes `bytes` at byte `offset`. Thread-safe for ranges that do not overlap.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) const;

  /// Ends the writing: flushes the bytes to disk (fsync), so that only the renaming remains. Without the flush, the
  /// name could survive a power failure that the bytes do not.
  void settle();

  /// Settles the file and gives it its name. Replaces an existing file of that name.
  void publish();

  /// Publishes all files in this order, or none. Existing files of their names are lost in either case.
  static void publish_all(std::vector<NewFile>& files);

 private:
  int open_file(const std::string& path, int flags) const;

  // Path of the open file for linkat(), which without it needs a privilege (AT_EMPTY_PATH).
  std::string own_link() const { return "/proc/self/fd/" + std::to_string(fd_); }

  bool open_nameless();

  // Tries temporary names until take() succeeds. Returns 0, or the errno of the last attempt; then temporary_ is
  // empty.
  template <class Take>
  int take_temporary_name(Take&& take) {
    for (int n = 0;; ++n) {
      temporary_ = path_.string() + "." + std::to_string(::getpid()) + "-" + std::to_string(n) + ".part";
      if (take()) return 0;
      const int code = errno;
      if (code == EEXIST && n < 100) continue;
      temporary_.clear();  // the file is not ours to remove
      return code;
    }
  }

  [[noreturn]] void fail(const std::string& what, int code) const;

  std::filesystem::path path_;
  std::string temporary_, name_;
  ::mode_t mode_;
  int fd_ = -1;
  bool settled_ = false;  // settled: on disk, under the temporary name
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/io/new_file-inl.h"
#endif
